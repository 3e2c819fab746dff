"""The algorithm under test with the task it is tested on, and runs of the two."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from fedcord.checks.expectations import Expectations
from fedcord.checks.tiny_task import TinyTask
from fedcord.checks.walk import Around, RecordingEnv, Walk, just_call, walk
from fedcord.core.contract import Algorithm, ClientId, ServerState
from fedcord.core.task import Task
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.patience import Patience
from fedcord.engine.population import Population
from fedcord.engine.rounds import RoundRecord, Schedule, finish_clients, run_rounds
from fedcord.engine.transport import Transport
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.metrics.sums import Evaluation
from fedcord.store.checkpoint import Checkpoint

SEED = 7


@dataclass(frozen=True)
class Outcome:
    """What a run through an engine gave.

    Attributes:
        checkpoint: the final state with every client's memory, personalisation included.
        records: one per round.
        visits: how many answers arrived during rounds.
        own_tests: each client's test of what it would use.
    """

    checkpoint: Checkpoint
    records: list[RoundRecord]
    visits: int
    own_tests: dict[ClientId, Evaluation]

    @property
    def accuracy(self) -> float:
        """Of the shared model after the last round."""
        last = self.records[-1].evaluation
        assert last is not None
        return last.accuracy


@dataclass(frozen=True)
class Subject:
    """What every check is given; nothing in it is shared between checks but the algorithm.

    Attributes:
        algorithm: as the user made it; checks work on `fresh` copies.
        tiny: problem and data.
        expectations: what is promised.
        with_processes: whether checks may start worker processes, which takes seconds.
        task: the problem's task object in this process.
    """

    algorithm: Algorithm
    tiny: TinyTask
    expectations: Expectations
    with_processes: bool = False
    task: Task = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", self.tiny.task())

    @property
    def num_rounds(self) -> int:
        """Rounds of most checks."""
        return self.algorithm.traits.rounds or self.expectations.rounds

    @property
    def fewest_rounds(self) -> int:
        """Rounds of checks that need only a visit to every client."""
        return self.algorithm.traits.rounds or 1

    @property
    def blueprint(self) -> Blueprint:
        """For engines that rebuild the algorithm."""
        return Blueprint.of(self.algorithm, self.tiny.factory, self.tiny.values)

    def fresh(self, algorithm: Algorithm | None = None) -> Algorithm:
        """A new object with the same parameters, free of anything hidden on the old one."""
        copied: Algorithm = dataclasses.replace(cast(Any, algorithm or self.algorithm))
        return copied

    def env(self, seed: int = SEED, num_rounds: int | None = None) -> RecordingEnv:
        """The server's place before the first round."""
        return RecordingEnv(self.task, seed, num_rounds=num_rounds or self.num_rounds)

    def walk(
        self,
        algorithm: Algorithm | None = None,
        population: Population | None = None,
        env: RecordingEnv | None = None,
        around: Around = just_call,
    ) -> Walk:
        """Every verb called by hand; see `fedcord.checks.walk`."""
        return walk(
            algorithm or self.fresh(),
            population or self.tiny.population,
            env or self.env(),
            around,
        )

    def sequential(
        self, algorithm: Algorithm, population: Population | None = None
    ) -> SequentialTransport:
        """The plainest engine, which shares the algorithm's object with the round loop."""
        held = population or self.tiny.population
        return SequentialTransport(ClientNode(algorithm, self.task, held, InProcessMemory()))

    def run(
        self,
        algorithm: Algorithm | None = None,
        population: Population | None = None,
        transport: Callable[[Algorithm], Transport] | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        start: Checkpoint | None = None,
        num_rounds: int | None = None,
        clients: Sequence[ClientId] | None = None,
        on_round: Callable[[Checkpoint], None] = lambda checkpoint: None,
    ) -> Outcome:
        """A run through the round loop.

        Args:
            algorithm: another than the one under test.
            population: another than the tiny task's usual one.
            transport: makes another way to reach clients than the sequential one.
            patience: with those who do not answer.
            start: a checkpoint to continue from.
            num_rounds: of the whole run.
            clients: who takes part; all that hold training data when not given.
            on_round: called after every round with all there is to save.
        """
        method = self.fresh(algorithm)
        held = population or self.tiny.population
        make = transport or (lambda method: self.sequential(method, held))
        federation = Federation(make(method), patience=patience)
        env = self.env(num_rounds=num_rounds)
        everyone = [client for client, size in enumerate(held.train_sizes) if size > 0]
        state = method.init(env) if start is None else start.state
        if start is not None:
            federation.restore_memory(start.memories, start.state.round)
        records: list[RoundRecord] = []
        arrived: list[ClientId] = []

        def note(state: ServerState, record: RoundRecord) -> None:
            records.append(record)
            on_round(Checkpoint(state, federation.gather_memory()))

        schedule = Schedule(env.num_rounds, lambda _: clients or everyone)
        state = run_rounds(method, federation, env, state, schedule, note, arrived.append)
        own_tests = finish_clients(method, federation, state, env.seed, everyone)
        kept = federation.gather_memory()
        return Outcome(Checkpoint(state, kept), records, len(arrived), own_tests)
