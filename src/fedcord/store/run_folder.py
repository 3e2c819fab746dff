"""The folder of one run, readable without PyTorch.

partition.json        which client holds which examples
provenance.json       what it ran on
config.toml           what was asked for; written after the two above: a run has begun
metrics.jsonl         one line per round
checkpoints/          the newest states
personal.safetensors  clients' personal models, where the method makes them
SHA256SUMS            how the files are recognised again
result.json           written last; its presence means the run is finished
failure.json          in place of a result: why there is none
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedcord.core.atomic import is_temporary, write_atomically
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.toml import parse_toml
from fedcord.store.checksums import (
    CHECKSUMS,
    CONFIG,
    FAILURE,
    FINISHED_FILES,
    FORGETTING,
    METRICS,
    PARTITION,
    PROVENANCE,
    RESULT,
    START_FILES,
    check_run,
    sha256,
    write_checksums,
)
from fedcord.store.lock import lock
from fedcord.store.plain_json import json_text

SCHEMA = 1
"""Version of the folder's layout; readers refuse newer ones."""
CHECKPOINTS, LOCK, PERSONAL = "checkpoints", ".lock", "personal.safetensors"
LOOK_SECONDS = 0.25
"""Between two looks at whether a folder is free."""
OWN_NAMES = {*FINISHED_FILES, CHECKSUMS, FORGETTING, CHECKPOINTS, FAILURE, LOCK, PERSONAL}
UNREADABLE = (ValueError, RecursionError)
"""What parsers raise; the second where brackets are nested thousands deep."""
AGAIN = "remove the run folder and run again"


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where states are kept."""
        return self.path / CHECKPOINTS

    @property
    def metrics_file(self) -> Path:
        """One line of JSON per round."""
        return self.path / METRICS

    @property
    def is_started(self) -> bool:
        """Whether a run has written its configuration here."""
        return (self.path / CONFIG).exists()

    @property
    def is_finished(self) -> bool:
        """Whether a run has ended here with a result."""
        return self.is_started and (self.path / RESULT).exists()

    @property
    def has_failed(self) -> bool:
        """Whether a run has ended here without a result."""
        return (self.path / FAILURE).exists() and not self.is_finished

    def strangers(self) -> list[str]:
        """Names in a folder without a run that no start of one has left there.

        Whoever starts a run takes the lock first, and in a folder without strangers only. So where
        there is a lock, files of a run are what a killed start has left; without one, they are
        somebody's.
        """
        try:
            names = {path.name for path in self.path.iterdir()}
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise ConfigError(
                f"a file is in the way of '{self.path}'; choose another folder with --out."
            ) from error
        if LOCK in names:
            return sorted(name for name in names - OWN_NAMES if not is_temporary(name))
        is_empty = names == {CHECKPOINTS} and not any(self.checkpoints.iterdir())
        return [] if is_empty else sorted(names)

    def create(self) -> None:
        """Make the folder, or say why it cannot be made."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise  # nothing is wrong with the name
            raise ConfigError(
                f"cannot write to '{self.path}' ({error.strerror}); choose another folder with "
                "--out."
            ) from error
        if not os.access(self.path, os.W_OK):
            raise ConfigError(f"'{self.path}' is not writable; choose another folder with --out.")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder alone; the lock ends with the process, however it ends."""
        with lock(self.path / LOCK):
            yield

    def wait_until_free(self, seconds: float, waiting: Callable[[str], None]) -> None:
        """Give whoever holds the folder some time to end, and tell of it."""
        ends = None
        while True:
            try:
                with self.lock():
                    return
            except CheckpointError:
                if ends is None:
                    waiting(f"waiting for whoever still writes to '{self.path}'")
                    ends = time.monotonic() + seconds
                if time.monotonic() > ends:
                    raise
                time.sleep(LOOK_SECONDS)

    def write_start(
        self,
        config: Mapping[str, Any],
        partition: Mapping[str, Any],
        provenance: Mapping[str, Any],
    ) -> None:
        """What a run begins with; call it with the lock held."""
        self.clear()
        self.checkpoints.mkdir(exist_ok=True)
        self.write_json(PARTITION, partition)
        self.write_json(PROVENANCE, provenance)
        text = _toml(config)
        write_checksums(self.path, (PARTITION, PROVENANCE), {CONFIG: text})
        write_atomically(self.path / CONFIG, text)  # last: its presence says the rest is there

    def write_result(self, result: Mapping[str, Any]) -> None:
        """The outcome of a run that has ended; its presence says that the rest is there."""
        text = json_text(result, indent=1) + "\n"
        write_checksums(self.path, (*START_FILES, METRICS), {RESULT: text})
        write_atomically(self.path / RESULT, text)

    def write_failure(self, failure: Mapping[str, Any]) -> None:
        """Why a run that has begun has no outcome."""
        text = json_text(failure, indent=1) + "\n"
        write_checksums(self.path, START_FILES, {FAILURE: text})
        write_atomically(self.path / FAILURE, text)

    def clear_failure(self) -> None:
        """What is tried again has not failed; call it with the lock held."""
        if (self.path / FAILURE).exists():
            (self.path / FAILURE).unlink()
            write_checksums(self.path, START_FILES, {})

    def write_all(
        self,
        config: Mapping[str, Any],
        partition: Mapping[str, Any],
        provenance: Mapping[str, Any],
        metrics: list[dict[str, Any]],
        result: Mapping[str, Any],
    ) -> None:
        """A run that was made from another one, without beginning: checkpoints are there already.

        The configuration comes last, so that what is killed on the way is an unfinished start and
        nobody trains on in it.
        """
        self.write_json(PARTITION, partition)
        self.write_json(PROVENANCE, provenance)
        write_atomically(self.metrics_file, "".join(json_text(line) + "\n" for line in metrics))
        coming = {RESULT: json_text(result, indent=1) + "\n", CONFIG: _toml(config)}
        write_checksums(self.path, (PARTITION, PROVENANCE, METRICS), coming)
        for name, text in coming.items():
            write_atomically(self.path / name, text)

    def check(self) -> bool:
        """Compare the files with their checksums; see `check_run`."""
        return check_run(self.path)

    def read_config(self) -> dict[str, Any]:
        """The configuration as plain values."""
        path = self.path / CONFIG
        try:
            config = parse_toml(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CheckpointError(f"'{path}' cannot be read ({error}).") from error
        except ValueError as error:
            raise CheckpointError(f"'{path}' is not TOML ({error}); {AGAIN}.") from error
        if config.pop("schema", None) != SCHEMA:
            raise CheckpointError(f"'{path}' was not written by this version of fedcord.")
        return config

    def write_json(self, name: str, value: Any) -> None:
        """A JSON file."""
        write_atomically(self.path / name, json_text(value, indent=1) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file, or a CheckpointError that names it."""
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, *UNREADABLE) as error:
            raise CheckpointError(f"'{path}' cannot be read ({error}); {AGAIN}.") from error
        if not isinstance(value, dict):
            raise CheckpointError(f"'{path}' holds no JSON object; {AGAIN}.")
        return value

    def append_metrics(self, record: Mapping[str, Any], *, to_disk: bool) -> None:
        """Add one round; a torn last line is possible after a crash and is dropped on resume.

        Args:
            record: the round.
            to_disk: wait until everything so far is safe, for the checkpoint that needs it.
        """
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json_text(record) + "\n")
            if to_disk:
                file.flush()
                os.fsync(file.fileno())

    def read_metrics(self) -> list[dict[str, Any]]:
        """All whole lines, in order."""
        return [record for _, record in self._metric_lines()]

    def metrics_hash(self) -> str:
        """Of all lines so far."""
        return _hash_of_lines([line for line, _ in self._metric_lines()])

    def rewind_metrics(self, rounds: int, expected_hash: str = "") -> None:
        """Drop everything after the first `rounds` rounds, which must have the hash if any."""
        kept = [line for line, record in self._metric_lines() if record["round"] <= rounds]
        if len(kept) != rounds:
            raise CheckpointError(
                f"'{self.metrics_file}' holds {len(kept)} of the {rounds} rounds that the "
                f"checkpoint has seen; {AGAIN}."
            )
        if expected_hash and _hash_of_lines(kept) != expected_hash:
            raise CheckpointError(
                f"'{self.metrics_file}' does not say of the first {rounds} rounds what it said "
                f"when the checkpoint was written; {AGAIN}."
            )
        write_atomically(self.metrics_file, "".join(line + "\n" for line in kept))

    def _metric_lines(self) -> list[tuple[str, dict[str, Any]]]:
        """Every whole line with what it says."""
        try:
            lines = self.metrics_file.read_bytes().decode("utf-8", "replace").split("\n")
        except FileNotFoundError:
            return []
        whole, rest = lines[:-1], lines[-1]
        if rest:
            whole.append(rest)
        found = []
        for number, line in enumerate(whole, start=1):
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or not isinstance(record.get("round"), int):
                    raise ValueError("no round")
            except UNREADABLE as error:
                if number == len(whole):
                    break
                raise CheckpointError(
                    f"line {number} of '{self.metrics_file}' is not a round as JSON ({error}); "
                    f"{AGAIN}."
                ) from error
            found.append((line, record))
        return found

    def clear(self) -> None:
        """Delete what a killed start has left; call it with the lock held and no run begun."""
        assert not self.is_started
        for path in self._inside():
            if path.name in OWN_NAMES - {LOCK, CHECKPOINTS} or path.parent == self.checkpoints:
                path.unlink()
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Delete half-written files of a run that was killed; call it with the lock held."""
        for path in self._inside():
            if path.name.startswith(".") and path.name != LOCK:
                path.unlink()

    def _inside(self) -> list[Path]:
        held = [*self.path.iterdir()]
        return held + ([*self.checkpoints.iterdir()] if self.checkpoints in held else [])


def _toml(config: Mapping[str, Any]) -> str:
    return tomli_w.dumps({"schema": SCHEMA, **config})


def _hash_of_lines(lines: list[str]) -> str:
    return sha256("".join(line + "\n" for line in lines).encode())
