"""Features of single examples on disk, so that a slow encoder sees each of them once.

A store is a folder of safetensors files, each with the digests of some examples and their features.
An example is found by its content: any data set, subset, partition or seed that holds it finds it
again. Files are written whole or not at all and never changed, and each has its checksum for a
name; an interrupted extraction goes on where it stopped, and two at once do no harm.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import DataError, ProtocolError
from fedcord.core.folders import data_folders
from fedcord.core.tensors import decode, encode

FOLDER = "features"
NAME = "{}.safetensors"
DIGEST_BYTES = 16
BLOCK = 128
"""Examples between two looks at the clock."""
WORTH_KEEPING = 2.0
"""Seconds; less work than this is done again rather than stored."""
SECONDS_PER_FILE = 20.0
"""How much work an interruption may cost."""

OnExample = Callable[[int, int], None]
"""(examples done, examples to do); called when there is something to do."""


def feature_folder(identity: str, data_dirs: Sequence[str | Path] | None = None) -> Path | None:
    """Where an encoder's features are kept: in the first data folder that can be written to."""
    for folder in data_folders(data_dirs):
        # os.path: a folder that must not be looked into is one that cannot be used, not an error
        above = (folder, *folder.absolute().parents)
        there = next(path for path in above if os.path.exists(path))
        if os.path.isdir(there) and os.access(there, os.W_OK):
            return folder / FOLDER / identity[:16]
    return None


@dataclass(frozen=True)
class FeatureStore:
    """Computes features of examples it has not seen, and remembers those that took long.

    Attributes:
        folder: of one encoder; None remembers nothing.
        width: D, numbers per example.
        compute: stored inputs [B, ...] to features [B, D]; must treat each example for itself.
    """

    folder: Path | None
    width: int
    compute: Callable[[Tensor], Tensor]

    def features(self, inputs: Tensor, on_example: OnExample = lambda done, total: None) -> Tensor:
        """[N, ...] stored inputs to [N, D] float32 features."""
        rows: dict[bytes, int] = {}
        digests = _digests(inputs)
        place = torch.tensor([rows.setdefault(d, len(rows)) for d in digests], dtype=torch.int64)
        found = torch.empty(len(rows), self.width)
        missing = self._read(rows, found)
        if missing:
            where = {digest: index for index, digest in enumerate(digests)}
            self._extend(inputs, found, [(d, where[d], rows[d]) for d in missing], on_example)
        return found[place]

    def _read(self, rows: dict[bytes, int], found: Tensor) -> list[bytes]:
        """Fill `found` with what the files hold; the digests they do not."""
        missing = dict.fromkeys(rows)
        files = sorted(self.folder.glob(NAME.format("?" * 64))) if self.folder else []
        for path in files:
            kept, features = self._load(path)
            pairs = [(i, rows[d]) for i, d in enumerate(kept) if d in missing]
            if pairs:
                source, target = torch.tensor(pairs).T
                found[target] = features[source]
            for digest in kept:
                missing.pop(digest, None)
        return list(missing)

    def _load(self, path: Path) -> tuple[list[bytes], Tensor]:
        try:
            content = path.read_bytes()
            if path.name != _name(content):
                raise ProtocolError("its checksum is not the one in its name")
            stored = decode(content)
            digest, features = stored["digest"], stored["features"]
            if features.shape != (len(digest), self.width) or digest.shape[1:] != (DIGEST_BYTES,):
                raise ProtocolError(f"its features are {list(features.shape)}")
        except (OSError, KeyError, ProtocolError) as error:
            raise DataError(
                f"{path} does not hold features of this encoder ({error}); delete it, and what it "
                "held is computed again."
            ) from error
        return [bytes(row) for row in digest.numpy()], features

    def _extend(
        self,
        inputs: Tensor,
        found: Tensor,
        missing: list[tuple[bytes, int, int]],
        on_example: OnExample,
    ) -> None:
        """Compute what is missing, and write a file now and then."""
        began = flushed = time.monotonic()
        written = 0
        on_example(0, len(missing))
        for start in range(0, len(missing), BLOCK):
            block = missing[start : start + BLOCK]
            sources = torch.tensor([source for _, source, _ in block])
            targets = torch.tensor([target for _, _, target in block])
            found[targets] = self.compute(inputs[sources]).to(torch.float32)
            done, now = start + len(block), time.monotonic()
            on_example(done, len(missing))
            is_last = done == len(missing)
            if now - flushed >= SECONDS_PER_FILE or (is_last and now - began >= WORTH_KEEPING):
                self._write(missing[written:done], found)
                written, flushed = done, now

    def _write(self, items: list[tuple[bytes, int, int]], found: Tensor) -> None:
        if self.folder is None:
            return
        digest = b"".join(digest for digest, _, _ in items)
        rows = torch.tensor([row for _, _, row in items])
        table = torch.frombuffer(bytearray(digest), dtype=torch.uint8).view(-1, DIGEST_BYTES)
        self.folder.mkdir(parents=True, exist_ok=True)
        content = encode({"digest": table, "features": found[rows]})
        write_atomically(self.folder / _name(content), content)


def _name(content: bytes) -> str:
    return NAME.format(hashlib.sha256(content).hexdigest())


def _digests(inputs: Tensor) -> list[bytes]:
    """A digest of every example's bytes."""
    rows = inputs.flatten(1).contiguous().numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest() for row in rows]
