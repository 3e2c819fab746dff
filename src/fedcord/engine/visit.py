"""One visit to clients: the code that runs where the data is, in every engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fedcord.core.contract import (
    Algorithm,
    ClientId,
    ClientResult,
    Env,
    Personalizes,
    TrainsStacked,
    Update,
)
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, check_tensors
from fedcord.engine.evaluation import Evaluation, evaluate
from fedcord.engine.population import Population

STACK_CLIENTS = 8
"""Clients trained in one stack at most; more no longer amortise calls but leave the cache."""

MAX_WEIGHT = 1e15
"""Largest weight of an update: more examples than anyone has, and sums of weights stay exact
enough for everyone else to count."""


@dataclass(frozen=True)
class Job:
    """What clients are asked to do in a round.

    Attributes:
        verb: `update` for a round of training, `personalize` after the last one, `evaluate` to test
            on the client's own test part, `validate` on the part kept for selection.
        shared: what the server sends.
        round: number of the round, from 0.
        num_rounds: rounds of the run.
        seed: the run's seed.
        models_of: for the server's test: the clients whose own models are tested in place of the
            shared one, their sums added up.
    """

    verb: Literal["update", "personalize", "evaluate", "validate"]
    shared: Tensors
    round: int
    num_rounds: int
    seed: int
    models_of: tuple[ClientId, ...] | None = None

    def env(self, task: Task, client: ClientId | None = None) -> Env:
        """The place a verb runs in."""
        return Env(task, self.seed, self.round, self.num_rounds, client)


@dataclass(frozen=True)
class Refusal:
    """An update that was not accepted, and why."""

    reason: str


Answer = Update | Refusal


class Executor(Protocol):
    """A way to reach clients; the only thing in which engines differ."""

    memories: dict[ClientId, Tensors]
    """What every visited client keeps; saved and restored by checkpoints."""

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        """Answers in the order of `clients`, which must ascend; few are held at once."""
        ...

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model, or those of `job.models_of`, on the server's test set."""
        ...

    def close(self) -> None:
        """Release processes and files."""
        ...


def visit(
    algorithm: Algorithm,
    task: Task,
    job: Job,
    clients: Sequence[ClientId],
    memories: Mapping[ClientId, Tensors],
    population: Population,
) -> Iterator[tuple[ClientId, Answer, Tensors]]:
    """Do the job at each client and yield (client, answer, new memory).

    An update that breaks the agreed form or is not finite becomes a Refusal, and the client keeps
    the memory it had.
    """
    datas = [population.client(client) for client in clients]
    kept = [memories.get(client, {}) for client in clients]
    envs = [job.env(task, client) for client in clients]
    if job.verb == "update":
        results = _updates(algorithm, job, kept, datas, envs)
        for client, memory, result in zip(clients, kept, results, strict=True):
            if isinstance(result, Refusal):
                yield client, result, memory
            else:
                yield client, result.update, result.memory
        return
    for client, data, memory, env in zip(clients, datas, kept, envs, strict=True):
        if job.verb == "personalize":
            assert isinstance(algorithm, Personalizes)
            memory = algorithm.personalize(job.shared, memory, data, env)
            yield client, Update({}, weight=len(data.train)), memory
        else:
            part = data.test if job.verb == "evaluate" else data.validation
            sums = evaluate(algorithm, job.shared, memory, part, env)
            metrics = {"correct": sums.correct, "total": sums.total, "loss_sum": sums.loss_sum}
            yield client, Update({}, weight=len(part), metrics=metrics), memory


def evaluate_on_server(
    algorithm: Algorithm,
    task: Task,
    job: Job,
    memories: Mapping[ClientId, Tensors],
    population: Population,
) -> Evaluation:
    """The shared model, or those of `job.models_of`, on the server's test set."""
    test, groups = population.test, population.test_groups
    if job.models_of is None:
        return evaluate(algorithm, job.shared, {}, test, job.env(task), groups)
    own = (
        evaluate(algorithm, job.shared, memories[client], test, job.env(task, client), groups)
        for client in job.models_of
    )
    return sum(own, Evaluation())


def stacks(
    algorithm: Algorithm, task: Task, job: Job, clients: Sequence[ClientId], at_least: int = 1
) -> list[Sequence[ClientId]]:
    """Cut `clients` into groups that are visited together: singles unless stacking works.

    `at_least` that many groups are made if there are clients enough, so that workers can share.
    """
    stacking = (
        job.verb == "update" and isinstance(algorithm, TrainsStacked) and algorithm.can_stack(task)
    )
    size = max(1, min(STACK_CLIENTS, len(clients) // at_least)) if stacking else 1
    return [clients[start : start + size] for start in range(0, len(clients), size)]


def remember(memories: dict[ClientId, Tensors], client: ClientId, memory: Tensors) -> None:
    """Keep what a visit left with a client; clients that keep nothing take no place."""
    if memory or client in memories:
        memories[client] = memory


def check_update(update: Update, expected: Mapping[str, TensorSpec], client: ClientId) -> None:
    """Refuse an update that differs from what was agreed, naming client, tensor and reason."""
    check_tensors(update.tensors, expected, f"client {client}")
    if not 0 <= update.weight <= MAX_WEIGHT:
        raise ProtocolError(
            f"client {client} sent weight {update.weight}; expected a number from 0 to "
            f"{MAX_WEIGHT:g}."
        )


def _updates(
    algorithm: Algorithm,
    job: Job,
    memories: Sequence[Tensors],
    datas: Sequence[ClientData],
    envs: Sequence[Env],
) -> Iterator[ClientResult | Refusal]:
    if len(datas) > 1 and isinstance(algorithm, TrainsStacked):
        try:
            results = algorithm.client_updates(job.shared, memories, datas, envs)
        except NumericalError:
            pass  # find out below which client it was
        else:
            for result, env in zip(results, envs, strict=True):
                yield _accepted(algorithm, job, result, env)
            return
    for memory, data, env in zip(memories, datas, envs, strict=True):
        try:
            result = algorithm.client_update(job.shared, memory, data, env)
        except NumericalError as error:
            yield Refusal(f"client {env.client}: {error}")
        else:
            yield _accepted(algorithm, job, result, env)


def _accepted(
    algorithm: Algorithm, job: Job, result: ClientResult, env: Env
) -> ClientResult | Refusal:
    assert env.client is not None
    try:
        check_update(result.update, algorithm.expected_update(job.shared, env), env.client)
    except ProtocolError as error:
        return Refusal(str(error))
    return result
