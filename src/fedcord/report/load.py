"""Run folders as plain values.

The report trusts nothing it reads: a file that is missing, torn or of another shape stops it with
the file's name, because a table that lacks a run is worse than none: who is ahead, and over which
seeds, would change. All such files are named at once. The one thing forgiven is the last line of an
unfinished run's `metrics.jsonl`, which a killed run leaves half written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import CheckpointError
from fedcord.core.names import clients_listed
from fedcord.report.cost import Cost, read_cost
from fedcord.report.fields import RERUN, Fields, read_json, read_toml
from fedcord.report.measured import Measured, read_measured
from fedcord.report.metrics import RoundMetrics, read_metrics
from fedcord.store.checksums import check_run
from fedcord.store.plan_record import PlanRecord, read_plans
from fedcord.store.tuning_file import Tuning, is_trial, read_tuning

MOST_NAMED = 5
"""Unusable files that one message names."""


@dataclass(frozen=True, eq=False)
class Partition:
    """How examples are spread over clients.

    Attributes:
        spec: as the user wrote it, such as `dirichlet:0.1`.
        hash: of the index lists.
        class_names: [C].
        counts: [K, C], training examples per client and class; a row of zeros for a site that did
            not tell them.
        client_names: [K]; none when clients are numbers.
        is_told: whether every client's row is known.
    """

    spec: str
    hash: str
    class_names: tuple[str, ...]
    counts: NDArray[np.int64]
    client_names: tuple[str, ...] = ()
    is_told: bool = True

    @property
    def names(self) -> dict[int, str]:
        """By client, what it is called; nothing where clients are numbers."""
        return dict(enumerate(self.client_names))


@dataclass(frozen=True)
class Result:
    """What a finished run reached.

    Attributes:
        accuracy: of the final checkpoint on the test set.
        measured: every metric there is, by name, and tables of classes and clients.
        bytes_up: from all clients to the server, all rounds.
        bytes_down: from the server to all clients, all rounds.
        seconds: of all rounds.
        partition_hash: of the split it was trained on.
        state_hash: of the final state.
        per_group: by kind of group (such as "domain") the accuracy on each of its parts.
        test_counts: [C] test examples of each class; empty where an older version did not record
            them.
        notes: what deserves a second look in the data's spread and the settings.
        forgotten: clients whose data was taken out of the model after the run.
        joined: clients that came after the run.
        cost: complete traffic and passes, as far as they were counted.
    """

    accuracy: float
    measured: Measured
    bytes_up: int
    bytes_down: int
    seconds: float
    partition_hash: str
    state_hash: str
    per_group: Mapping[str, Mapping[str, float]]
    test_counts: tuple[int, ...]
    notes: tuple[str, ...]
    forgotten: tuple[int, ...]
    joined: tuple[int, ...] = ()
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class Failure:
    """Why a run ended without a result.

    Attributes:
        seed: of the run.
        error: the kind of error, such as NumericalError.
        message: in words.
    """

    seed: int
    error: str
    message: str


@dataclass(frozen=True, eq=False)
class Run:
    """One run folder.

    Attributes:
        folder: where it is.
        name: what the tables call it: the folder above `seed-<n>…`, else the algorithm; and which
            clients were forgotten or have joined, if any.
        algorithm: from the configuration.
        seed: from the configuration.
        config: all of `config.toml`.
        partition: None only for a run that stopped before it was written.
        metrics: one entry per round, ascending.
        result: None while the run is unfinished, and if it failed.
        failure: why it failed; None otherwise.
        provenance: versions, platform, threads; empty when unfinished and not yet written.
        is_verified: whether the files could be compared with checksums; older versions wrote none.
        tuning: of the study it belongs to, which chose its parameters; None for others.
        plans: of the study it belongs to, oldest first; more than one where it was changed.
    """

    folder: Path
    name: str
    algorithm: str
    seed: int
    config: Mapping[str, Any]
    partition: Partition | None
    metrics: tuple[RoundMetrics, ...]
    result: Result | None
    failure: Failure | None
    provenance: Mapping[str, Any]
    is_verified: bool = False
    tuning: Tuning | None = None
    plans: tuple[PlanRecord, ...] = ()

    @property
    def label(self) -> str:
        """What its study calls it, whatever has become of its model."""
        return self.folder.parent.name

    @property
    def is_finished(self) -> bool:
        """Whether the run has a result."""
        return self.result is not None

    @property
    def data_hash(self) -> str | None:
        """Of the examples; None where an older version did not record it."""
        return self.provenance.get("data_hash")


def load_runs(*folders: Path) -> tuple[Run, ...]:
    """Every run at or below the folders, sorted by name, seed and place.

    Trials of a tuning are no runs of the comparison; who wants to see them names their own folder.

    Raises:
        CheckpointError: when there is none, or a file cannot be used.
    """
    found: set[Path] = set()
    for folder in folders:
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is not a folder; give the folder of a study or of a run."
            )
        below = (path.parent for path in folder.rglob("config.toml"))
        found.update(
            place.resolve() for place in below if not is_trial(place.relative_to(folder).as_posix())
        )
    if not found:
        given = ", ".join(str(folder) for folder in folders)
        raise CheckpointError(
            f"no run was found in {given or 'no folder at all'}; a run is a folder with a "
            "config.toml, as 'fedcord run' and 'fedcord compare' write it."
        )
    runs, problems = [], []
    for place in sorted(found):
        try:
            runs.append(load_run(place))
        except CheckpointError as error:
            problems.append(str(error))
    if problems:
        more = f" And {len(problems) - MOST_NAMED} more." if len(problems) > MOST_NAMED else ""
        raise CheckpointError(" ".join(problems[:MOST_NAMED]) + more)
    return tuple(sorted(runs, key=lambda run: (run.name, run.seed, str(run.folder))))


def load_run(folder: Path) -> Run:
    """One run folder; see `Run`."""
    is_verified = check_run(folder)
    reader = Fields(folder / "config.toml", read_toml(folder / "config.toml"))
    config = _checked_config(reader)
    algorithm, seed = reader.text("algorithm"), reader.whole("seed")
    result = _result(folder, seed) if (folder / "result.json").exists() else None
    is_finished = result is not None
    partition = _partition(folder, must_exist=is_finished)
    if result is not None and partition is not None:
        _check_belongs(result, partition, folder)
    rounds = reader.whole("rounds") if is_finished and "rounds" in config else None
    has_failed = not is_finished and (folder / "failure.json").exists()
    return Run(
        folder=folder,
        name=_name(folder, algorithm, result, partition),
        algorithm=algorithm,
        seed=seed,
        config=config,
        partition=partition,
        metrics=read_metrics(folder / "metrics.jsonl", is_finished=is_finished, rounds=rounds),
        result=result,
        failure=_failure(folder, seed) if has_failed else None,
        provenance=_provenance(folder, must_exist=is_finished),
        is_verified=is_verified,
        tuning=_tuning(folder, config),
        plans=read_plans(folder.parent.parent) if folder.name.startswith("seed-") else (),
    )


def _tuning(folder: Path, config: Mapping[str, Any]) -> Tuning | None:
    """The study's, if it tuned this contender and the run has what was chosen."""
    if not folder.name.startswith("seed-"):
        return None
    tuning = read_tuning(folder.parent.parent)
    own = None if tuning is None else tuning.contenders.get(folder.parent.name)
    if own is None:
        return None
    for name, value in own.values.items():
        found: Any = config.get("params")
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found != value:
            return None
    return tuning


def _name(folder: Path, algorithm: str, result: Result | None, partition: Partition | None) -> str:
    changes = {} if result is None else {"without": result.forgotten, "with": result.joined}
    made = {how: clients for how, clients in changes.items() if clients}
    pattern = r"seed-\d+.*" if made else r"seed-\d+"  # a run made of another lies beside it
    name = folder.parent.name if re.fullmatch(pattern, folder.name) else algorithm
    names = {} if partition is None else partition.names
    for how, clients in made.items():
        word = "client" if len(clients) == 1 else "clients"
        name += f" {how} {word} {clients_listed(clients, names)}"
    return name


def _checked_config(reader: Fields) -> Mapping[str, Any]:
    """The configuration, once what reports read of it has the right types."""
    for key in ("dataset", "partition"):
        reader.text_or_none(key)
    for key in ("clients", "rounds", "subset"):
        if key in reader.values:
            reader.whole(key)
    for key in ("longtail", "validation", "test"):
        reader.number_or_none(key)
    if not isinstance(reader.values.get("participation"), list):  # one share, or one by round
        reader.number_or_none("participation")
    else:
        reader.shares_or_none("participation")
    if not isinstance(reader.values.get("model"), str):  # one network, or several in turn
        reader.texts("model")
    reader.table("params")
    return reader.values


def _check_belongs(result: Result, partition: Partition, folder: Path) -> None:
    if result.partition_hash != partition.hash:
        raise CheckpointError(
            f"{folder / 'result.json'} belongs to partition {result.partition_hash[:12]}, but "
            f"partition.json beside it is {partition.hash[:12]}; two runs are mixed: {RERUN}."
        )
    if result.test_counts and len(result.test_counts) != len(partition.class_names):
        raise CheckpointError(
            f"{folder / 'result.json'} counts {len(result.test_counts)} test classes, but "
            f"partition.json beside it has {len(partition.class_names)}; {RERUN}."
        )


def _provenance(folder: Path, *, must_exist: bool) -> Mapping[str, Any]:
    path = folder / "provenance.json"
    if not path.exists() and not must_exist:
        return {}
    reader = Fields(path, read_json(path))
    for key in ("data_hash", "commit", "python", "started"):
        reader.text_or_none(key)
    packages = Fields(path, reader.table("packages"))
    for key in packages.values:
        packages.text_or_none(key)
    return reader.values


def _failure(folder: Path, seed: int) -> Failure:
    path = folder / "failure.json"
    reader = Fields(path, read_json(path))
    return Failure(seed, reader.text("error"), reader.text("message"))


def _result(folder: Path, seed: int) -> Result:
    path = folder / "result.json"
    reader = Fields(path, read_json(path))
    if reader.whole("seed") != seed:
        raise CheckpointError(
            f"{path} is of seed {reader.whole('seed')}, config.toml beside it of seed {seed}; "
            f"two runs are mixed: {RERUN}."
        )
    return Result(
        accuracy=reader.share("accuracy"),
        measured=read_measured(reader),
        bytes_up=reader.whole("bytes_up"),
        bytes_down=reader.whole("bytes_down"),
        seconds=reader.number("seconds"),
        partition_hash=reader.text("partition_hash"),
        state_hash=reader.text_or_none("state_hash") or "",
        per_group={
            key.removeprefix("per_"): reader.table_of_shares(key)
            for key in reader.values
            if key.startswith("per_")
        },
        test_counts=reader.wholes("test_counts"),
        notes=reader.texts("notes"),
        forgotten=tuple(sorted(reader.wholes("forgotten"))),
        joined=tuple(sorted(reader.wholes("joined"))),
        cost=read_cost(reader),
    )


def _partition(folder: Path, *, must_exist: bool) -> Partition | None:
    path = folder / "partition.json"
    if not path.exists() and not must_exist:
        return None
    reader = Fields(path, read_json(path))
    if not {"counts", "class_names"} <= reader.values.keys():
        raise reader.wrong("counts or class_names")
    try:
        names = tuple(map(str, reader.entries("class_names")))
        rows = reader.entries("counts")
        told = [[0] * len(names) if row is None else row for row in rows]
        counts = np.asarray(told, dtype=np.int64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise reader.wrong("counts or class_names") from error
    if counts.ndim != 2 or counts.shape[1] != len(names) or (counts < 0).any():
        raise reader.wrong("counts")
    given = reader.values.get("client_names", [])  # older versions knew clients by number only
    if not isinstance(given, list) or len(given) not in (0, len(counts)):
        raise reader.wrong("client_names")
    spec, digest, is_told = reader.text("spec"), reader.text("hash"), None not in rows
    return Partition(spec, digest, names, counts, tuple(map(str, given)), is_told)
