"""Our bytes as Flower carries them: one named array, and a few words beside it.

Flower cuts arrays into pieces on the way and puts them together again, so a message need not be cut
here. It holds whole messages in memory at every station, which is what the limit is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedcord.core.errors import ProtocolError

BYTES, WORDS = "fedcord", "fedcord-words"
"""Names of the two records of a message."""
TERMS = "terms"
"""Among the words of a message: the terms of the run."""
MAX_MESSAGE_BYTES = 2**31 - 1
"""Above it, stations on the way that use gRPC would drop the connection without a word."""


def to_records(data: bytes, words: Mapping[str, str] | None = None) -> RecordDict:
    """A message's content."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(
            f"a message has {len(data):,} bytes, but Flower carries {MAX_MESSAGE_BYTES:,} at most; "
            "use a smaller network."
        )
    array = Array("uint8", (len(data),), "fedcord.bytes", data)
    return RecordDict({BYTES: ArrayRecord({BYTES: array}), WORDS: ConfigRecord(dict(words or {}))})


def from_records(content: Any) -> tuple[bytes, dict[str, str]]:
    """The inverse of `to_records`; anything else is a ProtocolError."""
    try:
        array, words = content[BYTES][BYTES], content[WORDS]
        data = array.data
        if not isinstance(data, bytes) or (array.dtype, array.shape) != ("uint8", (len(data),)):
            raise ValueError(f"an array of {array.dtype} {list(array.shape)}")
        texts = {str(name): value for name, value in words.items()}
        if not all(isinstance(value, str) for value in texts.values()):
            raise ValueError("words that are none")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"a message is not one of fedcord's ({error!r}).") from error
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message has {len(data):,} bytes, which is too many.")
    return data, texts
