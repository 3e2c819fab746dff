"""What a run is: every setting that can change its result, and nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcord.core.device import CPU, kind_of
from fedcord.core.errors import ConfigError, shown, unknown_name
from fedcord.core.params import check_params, param, plain
from fedcord.data.dataset import Dataset
from fedcord.data.partition import Partition, make_partition

DEFAULT_ROUNDS = 20
MAX_CLIENTS, MAX_ROUNDS, MAX_THREADS = 10_000_000, 1_000_000_000, 1024
"""More is a slip of the hand, and would fill memory or never end."""
MAX_WORKERS = 1024
AT_SITES, SITES_PARTITION = "sites:", "natural:site"
"""Prefix of the name of data that lies at sites, and how it is spread: as it came about."""
ENGINES = ("sequential", "processes", "wire")
"""Ways to reach clients; none changes the result."""


@dataclass(frozen=True)
class RunConfig:
    """One run. Equal configurations give equal bits, on any engine."""

    algorithm: str = param("fedavg", "name of the method; see `fedcord list algorithms`")
    dataset: str = param("digits", "name of the data; see `fedcord list datasets`")
    partition: str = param(
        "dirichlet:0.1", "how data is spread over clients; see `fedcord list partitions`"
    )
    subset: int | None = param(
        None, "training examples kept, drawn at random by the seed; none: all", at_least=1
    )
    longtail: float = param(1.0, "largest class over smallest, 1 for no change", at_least=1)
    clients: int = param(
        10,
        "number of clients; 0 takes it from the data (natural)",
        at_least=0,
        at_most=MAX_CLIENTS,
    )
    rounds: int | None = param(
        None, "rounds of exchange; none: the method's own", at_least=1, at_most=MAX_ROUNDS
    )
    participation: float | tuple[float, ...] = param(
        1.0,
        "share of clients drawn for every exchange; several: drawn anew for every round, and the "
        "last holds on",
        above=0,
        at_most=1,
    )
    model: tuple[str, ...] = param(
        ("auto",), "network of the clients; several are distributed in turn"
    )
    seed: int = param(0, "decides everything random: partition, weights, sampling", at_least=0)
    validation: float = param(0.1, "share of a client's data for selection", at_least=0, below=1)
    test: float = param(0.1, "share of a client's data for its own test", at_least=0, below=1)
    evaluate_every: int = param(1, "rounds between evaluations", at_least=1)
    secure: float | None = param(
        None,
        "mask updates so that the server reads only their sum: the share of a round's clients that "
        "must stay for it; none: updates travel in the open",
        above=0.5,
        at_most=1,
    )
    attack: str | None = param(
        None,
        "what bad clients do in a simulation and who they are, such as sign-flip:0.2; none: all "
        "are honest",
    )
    test_views: str | None = param(
        None,
        "views of an image over which every prediction is averaged: itself and its mirror image, "
        "itself and four shifts, or all ten; none: itself alone",
        choices=("mirror", "shift", "mirror+shift"),
    )
    threads: int = param(
        1, "threads of a computation; changes bits", at_least=1, at_most=MAX_THREADS
    )
    device: str = param(CPU, "where networks run: cpu, cuda, cuda:1, mps or auto; changes bits")
    start: str | None = param(
        None, "hash of the state that another run has left and this one begins with (`--from`)"
    )
    method: Any = field(default=None, repr=False)
    """The algorithm of that name, checked and with its parameters; None where no more than data
    and clients matter. (Any, because algorithms need PyTorch and this module must not.)"""

    def __post_init__(self) -> None:
        check_params(self)
        if not self.model:
            raise ConfigError("model = []: name at least one network, such as auto.")
        if self.participation == ():
            raise ConfigError("participation = []: give at least one share, such as 1.0.")

    @property
    def params(self) -> Mapping[str, Any]:
        """The algorithm's parameters, nested and plain."""
        return {} if self.method is None else plain(self.method)

    def plain(self) -> dict[str, Any]:
        """As values that TOML and JSON can hold.

        Of the device only its kind, and that only where it is not the CPU: which card of several
        computes decides no bit, and runs from before there was a choice keep their identity.
        """
        values = {name: getattr(self, name) for name in (*SETTINGS, "params")}
        values["model"] = list(self.model)
        if isinstance(self.participation, tuple):
            values["participation"] = list(self.participation)
        values["device"] = None if self.device == CPU else kind_of(self.device)
        return {name: value for name, value in values.items() if value is not None}

    @property
    def hash(self) -> str:
        """Identity of the run: SHA-256 over all settings."""
        text = json.dumps(self.plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Settings in which another plain configuration differs, in words."""
        mine = json.loads(json.dumps(self.plain()))  # as read from a file, where tuples are lists
        mine, other = {"device": CPU, **mine}, {"device": CPU, **other}
        return [
            f"{name} is {other.get(name)!r} there and {mine.get(name)!r} here"
            for name in sorted(mine.keys() | other.keys())
            if mine.get(name) != other.get(name)
        ]


SETTINGS = tuple(f.name for f in dataclasses.fields(RunConfig) if f.name != "method")
"""What may be set about a run beside the algorithm's parameters."""


def engine_problems(engine: object, workers: object) -> list[str]:
    """What is wrong with the choice of an engine; it is no part of a run's identity."""
    problems = []
    if engine not in ENGINES:
        problems.append(unknown_name("engine", str(engine), ENGINES))
    counted = workers if isinstance(workers, int) and not isinstance(workers, bool) else 0
    if workers is not None and not 1 <= counted <= MAX_WORKERS:
        problems.append(
            f"workers = {shown(workers)}: must be a whole number from 1 to {MAX_WORKERS}; left "
            "out, there is one per core."
        )
    return problems


def partition_of(config: RunConfig, dataset: Dataset) -> Partition:
    """Which client holds which training examples."""
    return make_partition(
        config.partition,
        dataset.train.labels,
        num_classes=dataset.num_classes,
        num_clients=config.clients,
        seed=config.seed,
        groups=dataset.train.groups,
        group_names=dataset.group_names,
        longtail=config.longtail,
        subset=config.subset,
    )
