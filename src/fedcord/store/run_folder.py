"""The folder of one run, readable without PyTorch.

config.toml       what was asked for
provenance.json   what it ran on
partition.json    which client holds which examples
metrics.jsonl     one line per round
checkpoints/      the newest states
result.json       written last; its presence means the run is finished
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import CheckpointError, ConfigError

SCHEMA = 1
"""Version of the folder's layout; readers refuse newer ones."""


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where states are kept."""
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        """One line of JSON per round."""
        return self.path / "metrics.jsonl"

    @property
    def is_started(self) -> bool:
        """Whether a run has written its configuration here."""
        return (self.path / "config.toml").exists()

    @property
    def is_finished(self) -> bool:
        """Whether a run has ended here."""
        return (self.path / "result.json").exists()

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot write to '{self.path}' ({error.strerror}); choose another folder with "
                "--out."
            ) from error
        if not os.access(self.path, os.W_OK):
            raise ConfigError(f"'{self.path}' is not writable; choose another folder with --out.")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder alone; the lock ends with the process, however it ends."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise CheckpointError(
                    f"another run is writing to '{self.path}'; wait for it, or choose another "
                    "folder with --out."
                ) from error
            yield

    def write_config(self, config: Mapping[str, Any]) -> None:
        """The configuration as TOML."""
        write_atomically(self.path / "config.toml", tomli_w.dumps({"schema": SCHEMA, **config}))

    def read_config(self) -> dict[str, Any]:
        """The configuration as plain values."""
        path = self.path / "config.toml"
        try:
            config = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"'{path}' cannot be read ({error}).") from error
        if config.pop("schema", None) != SCHEMA:
            raise CheckpointError(f"'{path}' was not written by this version of fedcord.")
        return config

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file."""
        write_atomically(self.path / name, json.dumps(value, indent=1) + "\n")

    def read_json(self, name: str) -> Any:
        """A JSON file, or a CheckpointError that names it."""
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"'{path}' cannot be read ({error}); remove the run folder and run again."
            ) from error

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Add one round; a torn last line is possible after a crash and is dropped on resume."""
        with self.metrics_file.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All whole lines, in order."""
        if not self.metrics_file.exists():
            return []
        records = []
        lines = self.metrics_file.read_text().splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                if number == len(lines):
                    break
                raise CheckpointError(
                    f"line {number} of '{self.metrics_file}' is not JSON ({error}); "
                    "remove the run folder and run again."
                ) from error
        return records

    def rewind_metrics(self, rounds: int) -> list[dict[str, Any]]:
        """Forget everything after the first `rounds` rounds, and return what is kept."""
        kept = [record for record in self.read_metrics() if record["round"] <= rounds]
        if len(kept) != rounds:
            raise CheckpointError(
                f"'{self.metrics_file}' holds {len(kept)} of the {rounds} rounds that the "
                "checkpoint has seen; remove the run folder and run again."
            )
        write_atomically(self.metrics_file, "".join(json.dumps(r) + "\n" for r in kept))
        return kept

    def remove_leftovers(self) -> None:
        """Delete half-written files of a run that was killed; call it with the lock held."""
        for path in [*self.path.glob(".*"), *self.checkpoints.glob(".*")]:
            if path.name != ".lock":
                path.unlink()
