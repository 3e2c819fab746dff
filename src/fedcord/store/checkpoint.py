"""A run's state on disk: one safetensors file with its own description.

It holds the server's shared and private tensors, every client's memory, and the round. Random
streams are functions of (seed, purpose, round, client), so no generator has to be saved.

Personal models are made after the last round from what clients remember, and making them again from
each other would give others. So they have a file of their own beside the checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import ClientId, ServerState
from fedcord.core.errors import CheckpointError
from fedcord.core.tensors import Tensors, encode, hash_tensors, prefixed, select
from fedcord.store.checksums import sha256
from fedcord.store.run_folder import CHECKPOINTS, PERSONAL

SCHEMA = "fedcord-checkpoint-2"
BEFORE = "fedcord-checkpoint-1"
"""Its hash is of the tensors alone."""
KEEP = 2
"""Older checkpoints are removed; the one before the newest survives a damaged disk block."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a round.

    Attributes:
        state: the server's.
        memories: what clients keep.
        metrics: SHA-256 of the lines that the rounds so far have left in `metrics.jsonl`; empty
            where they are not of this state.
        holders: which clients have which tensors, as `engine.holders` says it.
    """

    state: ServerState
    memories: Mapping[ClientId, Tensors]
    metrics: str = ""
    holders: Sequence[Any] = ()

    def tensors(self) -> dict[str, Tensor]:
        """Everything under one set of names."""
        out = prefixed("shared", self.state.shared) | prefixed("private", self.state.private)
        out |= prefixed("result", self.state.result)
        for client in sorted(self.memories):
            out |= prefixed(f"memory.{client}", self.memories[client])
        return out

    @property
    def hash(self) -> str:
        """SHA-256 of all tensors; equal hashes mean equal bits."""
        return hash_tensors(self.tensors())


def save_checkpoint(
    folder: Path, checkpoint: Checkpoint, config_hash: str, keep: int = KEEP
) -> None:
    """Write a checkpoint, then remove all but the newest `keep`."""
    path = folder / f"round-{checkpoint.state.round:06d}.safetensors"
    _write(path, checkpoint, config_hash)
    remove_old(folder, keep)


def remove_old(folder: Path, keep: int = KEEP) -> None:
    """Remove all checkpoints but the newest; somebody may have been killed before it."""
    for old in _files(folder)[:-keep]:
        old.unlink(missing_ok=True)


def save_personal(run: Path, memories: Mapping[ClientId, Tensors], config_hash: str) -> None:
    """Write what clients keep after personalisation."""
    _write(run / PERSONAL, Checkpoint(ServerState({}), memories), config_hash)


def load_newest(folder: Path, config_hash: str) -> Checkpoint | None:
    """The newest checkpoint in `folder`, or None when there is none.

    A damaged file is an error, never silently skipped: the user decides whether to go back.
    """
    files = _files(folder)
    return load_checkpoint(files[-1], config_hash) if files else None


def load_final(run: Path, config_hash: str) -> Checkpoint | None:
    """What the run in the folder `run` ended with, personal models included."""
    newest = load_newest(run / CHECKPOINTS, config_hash)
    if newest is None or not (run / PERSONAL).exists():
        return newest
    return replace(newest, memories=load_checkpoint(run / PERSONAL, config_hash).memories)


def load_checkpoint(path: Path, config_hash: str | None = None) -> Checkpoint:
    """Read and verify one checkpoint."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            manifest = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name).clone() for name in names}
        round_ = int(manifest["round"])
        clients = [int(client) for client in json.loads(manifest["clients"])]
    except PermissionError:
        raise  # nothing is wrong with the file
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint '{path}' is damaged or not a checkpoint ({error}); {_remedy(path)}."
        ) from error
    if manifest.get("schema") not in (SCHEMA, BEFORE):
        raise CheckpointError(f"checkpoint '{path}' has an unknown layout; use a newer fedcord.")
    content = hash_tensors(tensors)
    is_before = manifest["schema"] == BEFORE
    if manifest.get("hash") != (content if is_before else _hash(manifest, content)):
        raise CheckpointError(
            f"checkpoint '{path}' does not have the content it was written with; {_remedy(path)}."
        )
    if config_hash is not None and manifest.get("config_hash") != config_hash:
        raise CheckpointError(
            f"checkpoint '{path}' belongs to another configuration; use its own, or a new folder."
        )
    memories = {client: select(tensors, f"memory.{client}") for client in clients}
    shared, private, result = (select(tensors, p) for p in ("shared", "private", "result"))
    state = ServerState(shared, private, round_, result)
    holders = json.loads(manifest.get("holders", "[]"))
    return Checkpoint(state, memories, manifest.get("metrics", ""), holders)


def _write(path: Path, checkpoint: Checkpoint, config_hash: str) -> None:
    manifest = {
        "schema": SCHEMA,
        "config_hash": config_hash,
        "round": str(checkpoint.state.round),
        "clients": json.dumps(sorted(checkpoint.memories)),
        "metrics": checkpoint.metrics,
        "holders": json.dumps(list(checkpoint.holders)),
    }
    tensors = checkpoint.tensors()
    manifest["hash"] = _hash(manifest, hash_tensors(tensors))
    write_atomically(path, encode(tensors, manifest))


def _hash(manifest: Mapping[str, str], content: str) -> str:
    """Of everything the file says, `content` being the hash of its tensors."""
    described = {name: value for name, value in manifest.items() if name != "hash"}
    return sha256(json.dumps([described, content], sort_keys=True).encode())


def _remedy(path: Path) -> str:
    if path.name == PERSONAL:
        return "remove the run folder and run again"
    return (
        "remove this file to resume from the one before it, or run again without --resume in a new "
        "folder"
    )


def _files(folder: Path) -> list[Path]:
    """Checkpoints by round. A folder that cannot be read is an error, never an empty one."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    found = (re.fullmatch(r"round-(\d+)\.safetensors", name) for name in names)
    rounds = {int(match[1]): match[0] for match in found if match}
    return [folder / rounds[round_] for round_ in sorted(rounds)]
