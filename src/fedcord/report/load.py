"""Run folders as plain values.

The report trusts nothing it reads: a file that is missing, torn or of another shape stops it with
the file's name, because a table that silently lacks a run is worse than none. The one thing
forgiven is the last line of `metrics.jsonl`, which a killed run leaves half written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import CheckpointError
from fedcord.report.fields import RERUN, Fields, read_json, read_text, read_toml
from fedcord.store.checksums import check_run


@dataclass(frozen=True)
class RoundMetrics:
    """One line of `metrics.jsonl`.

    Attributes:
        round: from 1.
        accuracy: None in rounds without evaluation.
        bytes_up: from all clients.
        bytes_down: to all clients.
        seconds: of the round.
        num_refused: updates that were not accepted.
        lambda_raw: strength of alignment by client; empty for methods without.
    """

    round: int
    accuracy: float | None
    bytes_up: int
    bytes_down: int
    seconds: float
    num_refused: int
    lambda_raw: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Partition:
    """How examples are spread over clients.

    Attributes:
        spec: as the user wrote it, such as `dirichlet:0.1`.
        hash: of the index lists.
        class_names: [C].
        counts: [K, C], training examples per client and class.
        client_names: [K]; none when clients are numbers.
    """

    spec: str
    hash: str
    class_names: tuple[str, ...]
    counts: NDArray[np.int64]
    client_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a finished run reached.

    Attributes:
        accuracy: of the final checkpoint on the test set.
        balanced_accuracy: mean over classes of the share of each that is recognised; None where it
            was not measured.
        client_accuracy_mean: over clients on their own test data.
        client_accuracy: of the clients that have test data.
        bytes_up: from all clients to the server, all rounds.
        bytes_down: from the server to all clients, all rounds.
        seconds: of all rounds.
        partition_hash: of the split it was trained on.
        state_hash: of the final state.
        per_group: by kind of group (such as "domain") the accuracy on each of its parts.
    """

    accuracy: float
    balanced_accuracy: float | None
    client_accuracy_mean: float | None
    client_accuracy: tuple[float, ...]
    bytes_up: int
    bytes_down: int
    seconds: float
    partition_hash: str
    state_hash: str
    per_group: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Run:
    """One run folder.

    Attributes:
        folder: where it is.
        name: what the tables call it: the folder above `seed-<n>`, else the algorithm.
        algorithm: from the configuration.
        seed: from the configuration.
        config: all of `config.toml`.
        partition: None only for a run that stopped before it was written.
        metrics: one entry per round, ascending.
        result: None while the run is unfinished.
        provenance: versions, platform, threads; empty when unfinished and not yet written.
        is_verified: whether the files could be compared with checksums; older versions wrote none.
    """

    folder: Path
    name: str
    algorithm: str
    seed: int
    config: Mapping[str, Any]
    partition: Partition | None
    metrics: tuple[RoundMetrics, ...]
    result: Result | None
    provenance: Mapping[str, Any]
    is_verified: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the run has a result."""
        return self.result is not None


def load_runs(*folders: Path) -> tuple[Run, ...]:
    """Every run at or below the folders, sorted by name, seed and place.

    Raises:
        CheckpointError: when there is none, or a file cannot be used.
    """
    found: set[Path] = set()
    for folder in folders:
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is not a folder; give the folder of a study or of a run."
            )
        found.update(path.parent.resolve() for path in folder.rglob("config.toml"))
    if not found:
        given = ", ".join(str(folder) for folder in folders)
        raise CheckpointError(
            f"no run was found in {given or 'no folder at all'}; a run is a folder with a "
            "config.toml, as 'fedcord run' and 'fedcord compare' write it."
        )
    runs = [load_run(folder) for folder in found]
    assert len(runs) == len(found)
    return tuple(sorted(runs, key=lambda run: (run.name, run.seed, str(run.folder))))


def load_run(folder: Path) -> Run:
    """One run folder; see `Run`."""
    is_verified = check_run(folder)
    config = read_toml(folder / "config.toml")
    reader = Fields(folder / "config.toml", config)
    algorithm, seed = reader.text("algorithm"), reader.whole("seed")
    result = _result(folder, seed) if (folder / "result.json").exists() else None
    partition = _partition(folder, must_exist=result is not None)
    if result is not None and partition is not None and result.partition_hash != partition.hash:
        raise CheckpointError(
            f"{folder / 'result.json'} belongs to partition {result.partition_hash[:12]}, but "
            f"partition.json beside it is {partition.hash[:12]}; two runs are mixed: {RERUN}."
        )
    provenance = folder / "provenance.json"
    return Run(
        folder=folder,
        name=folder.parent.name if re.fullmatch(r"seed-\d+", folder.name) else algorithm,
        algorithm=algorithm,
        seed=seed,
        config=config,
        partition=partition,
        metrics=_metrics(folder / "metrics.jsonl", must_exist=result is not None),
        result=result,
        provenance=read_json(provenance) if result is not None or provenance.exists() else {},
        is_verified=is_verified,
    )


def _result(folder: Path, seed: int) -> Result:
    path = folder / "result.json"
    reader = Fields(path, read_json(path))
    if reader.whole("seed") != seed:
        raise CheckpointError(
            f"{path} is of seed {reader.whole('seed')}, config.toml beside it of seed {seed}; "
            f"two runs are mixed: {RERUN}."
        )
    return Result(
        accuracy=reader.number("accuracy"),
        balanced_accuracy=reader.number_or_none("balanced_accuracy"),
        client_accuracy_mean=reader.number_or_none("client_accuracy_mean"),
        client_accuracy=reader.numbers("client_accuracy"),
        bytes_up=reader.whole("bytes_up"),
        bytes_down=reader.whole("bytes_down"),
        seconds=reader.number("seconds"),
        partition_hash=reader.text("partition_hash"),
        state_hash=str(reader.values.get("state_hash", "")),
        per_group={
            key.removeprefix("per_"): reader.table_of_numbers(key)
            for key in reader.values
            if key.startswith("per_")
        },
    )


def _partition(folder: Path, *, must_exist: bool) -> Partition | None:
    path = folder / "partition.json"
    if not path.exists() and not must_exist:
        return None
    reader = Fields(path, read_json(path))
    try:
        counts = np.asarray(reader.values["counts"], dtype=np.int64)
        names = tuple(str(name) for name in reader.values["class_names"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise reader.wrong("counts or class_names") from error
    if counts.ndim != 2 or counts.shape[1] != len(names) or (counts < 0).any():
        raise reader.wrong("counts")
    given = reader.values.get("client_names", [])  # older versions knew clients by number only
    if not isinstance(given, list) or len(given) not in (0, len(counts)):
        raise reader.wrong("client_names")
    return Partition(
        reader.text("spec"), reader.text("hash"), names, counts, tuple(map(str, given))
    )


def _metrics(path: Path, *, must_exist: bool) -> tuple[RoundMetrics, ...]:
    if not path.exists() and not must_exist:
        return ()
    lines = read_text(path).splitlines()
    by_round: dict[int, RoundMetrics] = {}
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                break  # the line a killed run was writing
            raise CheckpointError(f"{path}, line {number}, is not JSON; {RERUN}.") from error
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}, line {number}, is not a JSON object; {RERUN}.")
        reader = Fields(path, values)
        refused = values.get("refused", ())
        # a resumed run repeats the rounds after its checkpoint: the later line counts
        by_round[reader.whole("round")] = RoundMetrics(
            round=reader.whole("round"),
            accuracy=reader.number_or_none("accuracy"),
            bytes_up=reader.whole("bytes_up"),
            bytes_down=reader.whole("bytes_down"),
            seconds=reader.number("seconds"),
            num_refused=len(refused) if isinstance(refused, Sequence) else 0,
            lambda_raw=_lambda_raw(values.get("client_metrics"), reader),
        )
    return tuple(by_round[round_] for round_ in sorted(by_round))


def _lambda_raw(client_metrics: object, reader: Fields) -> dict[int, float]:
    """What clients said of their strength of alignment."""
    if not isinstance(client_metrics, dict):
        return {}
    try:
        return {
            int(client): float(values["lambda_raw"])
            for client, values in client_metrics.items()
            if "lambda_raw" in values
        }
    except (TypeError, ValueError) as error:
        raise reader.wrong("client_metrics") from error
