"""The one round loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from fedcord.core.contract import (
    METRIC,
    Algorithm,
    ClientId,
    Env,
    Observes,
    Probes,
    ServerState,
    TrainsStacked,
    Update,
)
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.tensors import Tensors, select
from fedcord.engine.federation import Federation, Missing, Phase, Traffic
from fedcord.engine.node import check_update
from fedcord.engine.requests import Reply, Request, Verb
from fedcord.engine.threads import torch_threads
from fedcord.metrics.sums import Detail, Evaluation


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
        missing: clients whose answer did not count, and why.
        events: other things that went wrong between the server and nodes.
        saved_seconds: how long work took that was done before and not again.
        traffic: all that passed since the round before, by phase; none of a probe's training.
        is_probe: whether it only looked into the local training of the round to come.
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
    missing: Mapping[ClientId, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    saved_seconds: float = 0.0
    traffic: Mapping[Phase, Traffic] = field(default_factory=dict)
    is_probe: bool = False


@dataclass(frozen=True)
class Schedule:
    """Which rounds to run and whom to visit.

    Attributes:
        num_rounds: rounds of the whole run.
        participants: round number to ascending client numbers.
        evaluate_every: rounds between evaluations; the last round is always evaluated.
        threads: threads of every computation; more than one changes bits.
        detail: what evaluations count beside what they always do.
        final_detail: the same, of the evaluation after the last round.
    """

    num_rounds: int
    participants: Callable[[int], Sequence[ClientId]]
    evaluate_every: int = 1
    threads: int = 1
    detail: Detail = field(default_factory=Detail)
    final_detail: Detail = field(default_factory=Detail)


@dataclass
class _Arrivals:
    """Checks updates as they arrive and counts who sent them."""

    algorithm: Algorithm
    request: Request
    env: Env
    quorum: float
    on_client: Callable[[ClientId], None]
    asked: int = 0
    refused: list[str] = field(default_factory=list)
    missing: dict[ClientId, str] = field(default_factory=dict)
    accepted: int = 0
    loss_sum: float = 0.0
    loss_weight: float = 0.0
    saved_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    client_metrics: dict[ClientId, dict[str, float]] = field(default_factory=dict)

    def check(self, answers: Iterator[Reply | Missing]) -> Iterator[tuple[ClientId, Update]]:
        for answer in answers:
            self.asked += 1
            assert answer.client is not None
            self.on_client(answer.client)
            if isinstance(answer, Missing):
                self.missing[answer.client] = f"{answer.outcome}: {answer.reason}"
                continue
            update = self._update(answer, answer.client)
            if update is not None:
                yield answer.client, update
        self._end()

    def _update(self, reply: Reply, client: ClientId) -> Update | None:
        """The update of a reply, or None when it is refused."""
        if reply.refusal is not None:
            self.refused.append(reply.refusal)
            return None
        # asked anew for each: what a client must send may depend on who it is
        agreed = self.algorithm.expected_update(self.request.shared, self.env.at(client))
        try:
            update = reply.update(self.env.said(client))
            check_update(update, agreed, self.env.said(client))
        except ProtocolError as error:
            self.refused.append(str(error))
            return None
        self.accepted += 1
        self.saved_seconds += float(reply.values.get("saved_seconds", 0.0))
        if "train_loss" in update.metrics:
            self.loss_sum += update.weight * update.metrics["train_loss"]
            self.loss_weight += update.weight
        self._listen(client, update.metrics)
        return update

    def _listen(self, client: ClientId, metrics: Mapping[str, float]) -> None:
        more = {name: value for name, value in metrics.items() if name != "train_loss"}
        if more:
            self.client_metrics[client] = more
        if self.algorithm.traits.observes:
            found = cast(Observes, self.algorithm).observations(metrics)
            self.notes += [f"{self.env.said(client)}: {text}" for text in found]

    def _end(self) -> None:
        """Everybody was heard: were there enough?"""
        round_ = self.request.round + 1
        heard = self.asked - len(self.missing)
        if heard < self.quorum * self.asked:
            client, why = next(iter(self.missing.items()))
            raise ProtocolError(
                f"round {round_}: {heard} of {self.asked} clients answered, fewer than the quorum "
                f"of {self.quorum:g} of them ({self.env.said(client)} {why}); the last good "
                "checkpoint is intact. Go on with --resume when they are back, or accept fewer "
                "with --quorum."
            )
        if self.accepted == 0:
            reasons = [*self.refused, *self.missing.values()]
            raise NumericalError(
                f"round {round_}: all {self.asked} updates were refused; the last good checkpoint "
                f"is intact. First reason: {reasons[0]}"
            )

    @property
    def train_loss(self) -> float | None:
        return self.loss_sum / self.loss_weight if self.loss_weight > 0 else None


def run_rounds(
    algorithm: Algorithm,
    federation: Federation,
    env: Env,
    state: ServerState,
    schedule: Schedule,
    on_round: Callable[[ServerState, RoundRecord], None] = lambda state, record: None,
    on_client: Callable[[ClientId], None] = lambda client: None,
) -> ServerState:
    """Run the rounds that `state` has not seen yet.

    Args:
        algorithm: the method.
        federation: the clients.
        env: the server's place; its round is set here.
        state: from `algorithm.init` or a checkpoint.
        schedule: how many rounds, with whom.
        on_round: called after every round, for logs and checkpoints.
        on_client: called when a client's answer arrives, for progress.
    """
    traits = algorithm.traits
    stacked = bool(traits.stacks) and cast(TrainsStacked, algorithm).can_stack(env.task)
    with torch_threads(schedule.threads):
        for round_ in range(state.round, schedule.num_rounds):
            started = time.perf_counter()
            federation.call_the_roll()  # who came since the round before is in from now on
            here = Env(env.task, env.seed, round_, schedule.num_rounds, names=federation.names)
            request = _request("update", state.shared, here, step=round_)
            clients = schedule.participants(round_)
            quorum = federation.patience.quorum
            arrivals = _Arrivals(algorithm, request, here, quorum, on_client)
            updates = arrivals.check(federation.ask(request, clients, "training", stacked))
            state = algorithm.aggregate(state, updates, here)
            for _ in updates:  # a method may stop reading early; everyone is still heard
                pass
            evaluation, models_of = None, None
            is_last = round_ + 1 == schedule.num_rounds
            if is_last or (round_ + 1) % schedule.evaluate_every == 0:
                test = _request("evaluate", state.model, here, step=round_ + 1)
                detail = schedule.final_detail if is_last else schedule.detail
                evaluation, models_of = evaluate_model(algorithm, federation, test, detail)
            passed = federation.take_traffic()
            is_probe = bool(traits.probes) and cast(Probes, algorithm).is_probe(here)
            if is_probe:
                passed.pop("training", None)  # a deployment would not have it
            training = passed.get("training", Traffic())
            record = RoundRecord(
                round_ + 1,
                len(clients),
                tuple(arrivals.refused),
                arrivals.train_loss,
                training.up,
                training.down,
                time.perf_counter() - started,
                evaluation,
                tuple(arrivals.notes),
                arrivals.client_metrics,
                {name: float(t) for name, t in select(state.private, METRIC).items()},
                models_of,
                arrivals.missing,
                federation.take_events(),
                arrivals.saved_seconds,
                passed,
                is_probe,
            )
            on_round(state, record)
    return state


def evaluate_model(
    algorithm: Algorithm,
    federation: Federation,
    request: Request,
    detail: Detail,
    without: Collection[ClientId] = (),
) -> tuple[Evaluation, int | None]:
    """The shared model, or clients' own, on the common test set.

    Where there is no common test set, every client tests on its own test part, and the sums are
    added up.

    Args:
        algorithm: says whether there is a shared model.
        federation: the clients.
        request: to evaluate.
        detail: what to count beside what is always counted.
        without: clients that are not asked.

    Returns:
        The sums, and how many clients' own models they are over; None for the shared one.
    """
    is_own, is_common = algorithm.traits.keeps_own_models, federation.common_test > 0
    if is_common and not is_own:
        return federation.evaluate(request, detail), None
    asked = federation.keepers if is_own else tuple(sorted(federation.members))
    asked = tuple(
        k for k in asked if k not in without and (is_common or federation.members[k].test > 0)
    )
    options = {"common": is_common, **detail.options()}
    answers = federation.ask(request, asked, "evaluation", options=options)
    # one by one: a thousand clients' histograms are not kept beside each other
    return sum((sums for _, sums in _sums(answers)), Evaluation()), len(asked) if is_own else None


def evaluate_again(
    algorithm: Algorithm,
    federation: Federation,
    state: ServerState,
    seed: int,
    threads: int,
    detail: Detail,
) -> Evaluation:
    """The evaluation after the last round once more; its bytes were counted the first time."""
    request = _after("evaluate", state, seed, step=state.round)
    before = federation.take_traffic()
    with torch_threads(threads):
        found, _ = evaluate_model(algorithm, federation, request, detail)
    federation.traffic = before
    return found


def finish_clients(
    algorithm: Algorithm,
    federation: Federation,
    state: ServerState,
    seed: int,
    clients: Sequence[ClientId],
    threads: int = 1,
    on_missing: Callable[[Missing], None] = lambda missing: None,
    detail: Detail = Detail(),  # noqa: B008 - frozen
) -> dict[ClientId, Evaluation]:
    """After the last round: personalise where the method does, then test every client on its own.

    Args:
        algorithm: the method.
        federation: the clients.
        state: after the last round.
        seed: the run's.
        clients: whom to ask.
        threads: of every computation.
        on_missing: told of everybody who has no model of the end; they are to be asked again.
        detail: what to count beside what is always counted.

    Returns:
        The evaluation of each client that has a test part.
    """
    with torch_threads(threads):
        if algorithm.traits.personalizes:
            request = _after("personalize", state, seed, step=state.round)
            absent = set()
            for answer in federation.ask(request, clients, "personalisation"):
                if isinstance(answer, Missing):
                    absent.add(answer.client)
                    on_missing(answer)
            clients = [client for client in clients if client not in absent]
        test = _after("evaluate", state, seed, step=state.round + 1)
        answers = list[Reply | Missing]()
        for answer in federation.ask(test, clients, "evaluation", options=detail.options()):
            answers.append(answer)
            if isinstance(answer, Missing):
                on_missing(answer)
        return dict(_sums(iter(answers)))


def validate_clients(
    federation: Federation,
    state: ServerState,
    seed: int,
    clients: Sequence[ClientId],
    threads: int = 1,
    detail: Detail = Detail(),  # noqa: B008 - frozen
) -> Evaluation:
    """What settings should be chosen by: all clients' validation parts, taken together."""
    request = _after("validate", state, seed, step=state.round + 1)
    with torch_threads(threads):
        answers = federation.ask(request, clients, "evaluation", options=detail.options())
        return sum((sums for _, sums in _sums(answers)), Evaluation())


def _sums(answers: Iterator[Reply | Missing]) -> Iterator[tuple[ClientId, Evaluation]]:
    """What clients found who have examples of their own."""
    for answer in answers:
        if isinstance(answer, Reply) and answer.refusal is None and answer.client is not None:
            try:
                sums = Evaluation.from_plain(answer.values, answer.tensors)
            except ProtocolError as error:
                raise ProtocolError(f"client {answer.client}: {error}") from error
            if sums.total > 0:
                yield answer.client, sums


def _request(verb: Verb, tensors: Tensors, at: Env, step: int) -> Request:
    return Request(verb, tensors, at.round, at.num_rounds, at.seed, step)


def _after(verb: Verb, state: ServerState, seed: int, step: int) -> Request:
    """What is asked after the last round, from its place in the run."""
    return Request(verb, state.model, max(state.round - 1, 0), state.round, seed, step)
