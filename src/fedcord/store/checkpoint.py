"""A run's state on disk: one safetensors file with its own description.

It holds the server's shared and private tensors, every client's memory, and the round. Random
streams are functions of (seed, purpose, round, client), so no generator has to be saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
from torch import Tensor

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import ClientId, ServerState
from fedcord.core.errors import CheckpointError
from fedcord.core.tensors import Tensors, encode, hash_tensors, prefixed, select

SCHEMA = "fedcord-checkpoint-1"
KEEP = 2
"""Older checkpoints are removed; the one before the newest survives a damaged disk block."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a round."""

    state: ServerState
    memories: Mapping[ClientId, Tensors]

    def tensors(self) -> dict[str, Tensor]:
        """Everything under one set of names."""
        out = prefixed("shared", self.state.shared) | prefixed("private", self.state.private)
        out |= prefixed("result", self.state.result)
        for client in sorted(self.memories):
            out |= prefixed(f"memory.{client}", self.memories[client])
        return out

    @property
    def hash(self) -> str:
        """SHA-256 of the whole state; equal hashes mean equal bits."""
        return hash_tensors(self.tensors())


def save_checkpoint(folder: Path, checkpoint: Checkpoint, config_hash: str) -> None:
    """Write a checkpoint, then remove old ones."""
    manifest = {
        "schema": SCHEMA,
        "config_hash": config_hash,
        "round": str(checkpoint.state.round),
        "clients": json.dumps(sorted(checkpoint.memories)),
        "hash": checkpoint.hash,
    }
    path = folder / f"round-{checkpoint.state.round:06d}.safetensors"
    write_atomically(path, encode(checkpoint.tensors(), manifest))
    for old in _files(folder)[:-KEEP]:
        old.unlink(missing_ok=True)


def load_newest(folder: Path, config_hash: str) -> Checkpoint | None:
    """The newest checkpoint in `folder`, or None when there is none.

    A damaged file is an error, never silently skipped: the user decides whether to go back.
    """
    files = _files(folder)
    return load_checkpoint(files[-1], config_hash) if files else None


def load_checkpoint(path: Path, config_hash: str | None = None) -> Checkpoint:
    """Read and verify one checkpoint."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            manifest = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name).clone() for name in names}
        round_ = int(manifest["round"])
        clients = [int(client) for client in json.loads(manifest["clients"])]
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint '{path}' is damaged or not a checkpoint ({error}); remove this file to "
            "resume from the one before it, or run again without --resume in a new folder."
        ) from error
    if manifest.get("schema") != SCHEMA:
        raise CheckpointError(f"checkpoint '{path}' has an unknown layout; use a newer fedcord.")
    if manifest.get("hash") != hash_tensors(tensors):
        raise CheckpointError(
            f"checkpoint '{path}' does not have the content it was written with; remove this file "
            "to resume from the one before it."
        )
    if config_hash is not None and manifest.get("config_hash") != config_hash:
        raise CheckpointError(
            f"checkpoint '{path}' belongs to another configuration; use its own, or a new folder."
        )
    memories = {client: select(tensors, f"memory.{client}") for client in clients}
    shared, private, result = (select(tensors, p) for p in ("shared", "private", "result"))
    return Checkpoint(ServerState(shared, private, round_, result), memories)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*.safetensors"))
