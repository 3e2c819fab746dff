"""Jobs and answers as bytes: a JSON header, then safetensors. Nothing else crosses a wire.

    | 8 bytes: length of header | header (JSON) | tensors (safetensors) |

Every byte that arrives is checked before use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError, shown
from fedcord.core.params import LARGEST
from fedcord.core.tensors import Tensors, decode, encode, prefixed, select
from fedcord.engine.visit import Answer, Job, Refusal

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 * 2**20


def pack(header: Mapping[str, Any], tensors: Tensors) -> bytes:
    """One message; its header holds finite numbers only, as JSON does."""
    try:
        text = json.dumps(header, allow_nan=False).encode()
    except ValueError as error:
        raise ProtocolError(f"a message header holds what JSON cannot ({error}).") from error
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + encode(tensors)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and tensors of a message, or a ProtocolError."""
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    end = LENGTH_BYTES + length
    if len(data) < LENGTH_BYTES or length > MAX_HEADER_BYTES or end > len(data):
        raise ProtocolError(f"a message of {len(data)} bytes announces a header of {length} bytes.")
    try:
        header = json.loads(data[LENGTH_BYTES:end], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message header is not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise ProtocolError("a message header is not a JSON object.")
    return header, decode(data[end:])


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def pack_job(job: Job) -> bytes:
    """A job with everything the server sends."""
    header = {
        "verb": job.verb,
        "round": job.round,
        "num_rounds": job.num_rounds,
        "seed": job.seed,
        "models_of": job.models_of,
    }
    return pack(header, job.shared)


def unpack_job(data: bytes) -> Job:
    """The inverse of `pack_job`."""
    header, shared = unpack(data)
    try:
        if header["verb"] not in ("update", "personalize", "evaluate", "validate"):
            raise ProtocolError(f"a job asks for {shown(header['verb'])}, which is no verb.")
        numbers = (_count(header["round"]), _count(header["num_rounds"]), _count(header["seed"]))
        of = header["models_of"]
        models_of = None if of is None else tuple(_count(client) for client in of)
        return Job(header["verb"], shared, *numbers, models_of)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"a job's header is incomplete ({error}).") from error


def pack_answer(answer: Answer, memory: Tensors) -> bytes:
    """An answer together with the memory the client keeps."""
    if isinstance(answer, Refusal):
        return pack({"refusal": answer.reason}, prefixed("memory", memory))
    metrics = {k: v if math.isfinite(v) else None for k, v in answer.metrics.items()}
    header = {"weight": answer.weight, "metrics": metrics}
    return pack(header, {**prefixed("update", answer.tensors), **prefixed("memory", memory)})


def unpack_answer(data: bytes) -> tuple[Answer, dict[str, Any]]:
    """The inverse of `pack_answer`; a metric that was not finite comes back as NaN."""
    header, tensors = unpack(data)
    memory = select(tensors, "memory")
    if "refusal" in header:
        return Refusal(str(header["refusal"])), memory
    try:
        metrics = {k: math.nan if v is None else _number(v) for k, v in header["metrics"].items()}
        weight = _number(header["weight"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ProtocolError(f"an answer's header is incomplete ({error}).") from error
    return Update(select(tensors, "update"), weight, metrics), memory


def _count(value: object) -> int:
    """A whole number from 0 that counters can hold, and nothing that only looks like one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{shown(value)} is not a whole number from 0")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a number")
    return float(value)
