"""The one round loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedcord.core.contract import (
    METRIC,
    Algorithm,
    ClientId,
    Env,
    Explains,
    KeepsOwnModels,
    Personalizes,
    Probes,
    ServerState,
    Update,
)
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.tensors import num_bytes, select
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.threads import torch_threads
from fedcord.engine.visit import Answer, Executor, Job, Refusal, check_update

WEIGHT_BYTES = 8
"""What an update's weight takes on the wire, beside its tensors."""


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes:
        round: number of rounds done, so the first record has 1.
        participants: clients visited.
        refused: reasons of updates that were not accepted.
        train_loss: mean training loss reported by clients, weighted; None when none was.
        bytes_up: size of all accepted and refused updates' tensors; 0 in a probe.
        bytes_down: size of the shared tensors times the clients they went to; 0 in a probe.
        seconds: wall-clock time of the round with its evaluation.
        evaluation: on the server's test set, when this round had one; over all clients that have
            taken part where they keep their own models.
        notes: what the algorithm observed to have gone wrong.
        client_metrics: what clients report beside the training loss.
        server_metrics: the server's private scalars named `metric.*`.
        own_models: how many clients' own models `evaluation` is over; None for the shared model.
    """

    round: int
    participants: int
    refused: tuple[str, ...]
    train_loss: float | None
    bytes_up: int
    bytes_down: int
    seconds: float
    evaluation: Evaluation | None
    notes: tuple[str, ...] = ()
    client_metrics: Mapping[ClientId, Mapping[str, float]] = field(default_factory=dict)
    server_metrics: Mapping[str, float] = field(default_factory=dict)
    own_models: int | None = None


@dataclass(frozen=True)
class Schedule:
    """Which rounds to run and whom to visit.

    Attributes:
        num_rounds: rounds of the whole run.
        participants: round number to ascending client numbers.
        evaluate_every: rounds between evaluations; the last round is always evaluated.
        threads: threads of every computation; more than one changes bits.
    """

    num_rounds: int
    participants: Callable[[int], Sequence[ClientId]]
    evaluate_every: int = 1
    threads: int = 1


@dataclass
class _Arrivals:
    """Checks updates as they arrive and counts what they cost."""

    algorithm: Algorithm
    job: Job
    env: Env
    on_client: Callable[[ClientId], None]
    refused: list[str] = field(default_factory=list)
    accepted: int = 0
    bytes_up: int = 0
    loss_sum: float = 0.0
    loss_weight: float = 0.0
    notes: list[str] = field(default_factory=list)
    client_metrics: dict[ClientId, dict[str, float]] = field(default_factory=dict)

    def check(
        self, answers: Iterator[tuple[ClientId, Answer]]
    ) -> Iterator[tuple[ClientId, Update]]:
        for client, answer in answers:
            self.on_client(client)
            if isinstance(answer, Refusal):
                self.refused.append(answer.reason)
                continue
            self.bytes_up += num_bytes(answer.tensors) + WEIGHT_BYTES
            # asked anew for each: what a client must send may depend on who it is
            agreed = self.algorithm.expected_update(self.job.shared, self.env.at(client))
            try:
                check_update(answer, agreed, client)
            except ProtocolError as error:
                self.refused.append(str(error))
                continue
            self.accepted += 1
            if "train_loss" in answer.metrics:
                self.loss_sum += answer.weight * answer.metrics["train_loss"]
                self.loss_weight += answer.weight
            self._listen(client, answer.metrics)
            yield client, answer
        if self.accepted == 0:
            raise NumericalError(
                f"round {self.job.round + 1}: all {len(self.refused)} updates were refused; the "
                f"last good checkpoint is intact. First reason: {self.refused[0]}"
            )

    def _listen(self, client: ClientId, metrics: Mapping[str, float]) -> None:
        more = {name: value for name, value in metrics.items() if name != "train_loss"}
        if more:
            self.client_metrics[client] = more
        if isinstance(self.algorithm, Explains):
            self.notes += self.algorithm.observations(client, metrics)

    @property
    def train_loss(self) -> float | None:
        return self.loss_sum / self.loss_weight if self.loss_weight > 0 else None


def run_rounds(
    algorithm: Algorithm,
    executor: Executor,
    env: Env,
    state: ServerState,
    schedule: Schedule,
    on_round: Callable[[ServerState, RoundRecord], None] = lambda state, record: None,
    on_client: Callable[[ClientId], None] = lambda client: None,
) -> ServerState:
    """Run the rounds that `state` has not seen yet.

    Args:
        algorithm: the method.
        executor: the way to reach clients.
        env: the server's place; its round is set here.
        state: from `algorithm.init` or a checkpoint.
        schedule: how many rounds, with whom.
        on_round: called after every round, for logs and checkpoints.
        on_client: called when a client's answer arrives, for progress.
    """
    with torch_threads(schedule.threads):
        for round_ in range(state.round, schedule.num_rounds):
            started = time.perf_counter()
            here = Env(env.task, env.seed, round_, schedule.num_rounds)
            job = Job("update", state.shared, round_, schedule.num_rounds, env.seed)
            clients = schedule.participants(round_)
            arrivals = _Arrivals(algorithm, job, here, on_client)
            updates = arrivals.check(executor.map_clients(job, clients))
            state = algorithm.aggregate(state, updates, here)
            for (
                _
            ) in updates:  # a method may stop reading early; everyone is still heard and counted
                pass
            is_last = round_ + 1 == schedule.num_rounds
            evaluation, models_of = None, None
            if is_last or (round_ + 1) % schedule.evaluate_every == 0:
                own = isinstance(algorithm, KeepsOwnModels) and algorithm.keeps_own_models
                models_of = tuple(sorted(executor.memories)) if own else None
                test = Job(
                    "evaluate", state.model, round_, schedule.num_rounds, env.seed, models_of
                )
                evaluation = executor.evaluate(test)
            counted = 0 if isinstance(algorithm, Probes) and algorithm.is_probe(here) else 1
            record = RoundRecord(
                round_ + 1,
                len(clients),
                tuple(arrivals.refused),
                arrivals.train_loss,
                counted * arrivals.bytes_up,
                counted * num_bytes(job.shared) * len(clients),
                time.perf_counter() - started,
                evaluation,
                tuple(arrivals.notes),
                arrivals.client_metrics,
                {name: float(t) for name, t in select(state.private, METRIC).items()},
                None if models_of is None else len(models_of),
            )
            on_round(state, record)
    return state


def finish_clients(
    algorithm: Algorithm,
    executor: Executor,
    state: ServerState,
    seed: int,
    clients: Sequence[ClientId],
    threads: int = 1,
) -> dict[ClientId, Evaluation]:
    """After the last round: personalise where the method does, then test every client on its own.

    Returns:
        The evaluation of each client that has a test part.
    """
    at = max(state.round - 1, 0)
    with torch_threads(threads):
        if isinstance(algorithm, Personalizes):
            job = Job("personalize", state.model, at, state.round, seed)
            for _ in executor.map_clients(job, clients):
                pass
        job = Job("evaluate", state.model, at, state.round, seed)
        return _own_tests(executor, job, clients)


def validate_clients(
    executor: Executor,
    state: ServerState,
    seed: int,
    clients: Sequence[ClientId],
    threads: int = 1,
) -> Evaluation:
    """What settings should be chosen by: all clients' validation parts, taken together."""
    job = Job("validate", state.model, max(state.round - 1, 0), state.round, seed)
    with torch_threads(threads):
        return sum(_own_tests(executor, job, clients).values(), Evaluation())


def _own_tests(
    executor: Executor, job: Job, clients: Sequence[ClientId]
) -> dict[ClientId, Evaluation]:
    found = {}
    for client, answer in executor.map_clients(job, clients):
        assert isinstance(answer, Update)
        total = int(answer.metrics["total"])
        if total > 0:
            correct, loss = int(answer.metrics["correct"]), answer.metrics["loss_sum"]
            found[client] = Evaluation(correct, total, loss)
    return found
