"""The one round loop."""

from __future__ import annotations

import contextlib
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
)
from fedcord.core.errors import ProtocolError
from fedcord.core.passes import Passes
from fedcord.core.tensors import Tensors, select
from fedcord.engine.arrivals import Arrivals
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.requests import TOOK, Reply, Request, Verb
from fedcord.engine.summands import needs_only
from fedcord.engine.threads import torch_threads
from fedcord.engine.traffic import ROUND, Phase, Traffic
from fedcord.metrics.sums import Detail, Evaluation


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes:
        round: number of rounds done, so the first record has 1.
        participants: clients visited.
        refused: reasons of updates that were not accepted.
        train_loss: mean training loss reported by clients, weighted; None when none was.
        bytes_up: size of all accepted and refused updates' tensors, and of what clients sent for
            masks; 0 in a probe.
        bytes_down: size of the shared tensors times the clients they went to, and of what they
            were sent for masks; 0 in a probe.
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
        took: passes of clients' work, of those who tell.
        cpu_seconds: of clients and server, without evaluation, where both are this process; with
            what work took that was done before. None elsewhere.
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
    took: Mapping[ClientId, Passes] = field(default_factory=dict)
    cpu_seconds: float | None = None


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
        secure: share of a round's clients that must stay for their sum to be read, where rounds
            that need sums only are masked; None: updates travel in the open.
    """

    num_rounds: int
    participants: Callable[[int], Sequence[ClientId]]
    evaluate_every: int = 1
    threads: int = 1
    detail: Detail = field(default_factory=Detail)
    final_detail: Detail = field(default_factory=Detail)
    secure: float | None = None


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
            started, cpu_before = time.perf_counter(), time.process_time()
            federation.call_the_roll()  # who came since the round before is in from now on
            here = Env(env.task, env.seed, round_, schedule.num_rounds, names=federation.names)
            request = _request("update", state.shared, here, step=round_)
            clients = schedule.participants(round_)
            quorum = federation.patience.quorum
            arrivals = Arrivals(algorithm, request, here, quorum, on_client)
            needs = None if schedule.secure is None else needs_only(algorithm, here)
            if schedule.secure is None or needs is None:
                updates = arrivals.check(federation.ask(request, clients, "training", stacked))
            else:
                from fedcord.engine.masked_round import masked_updates

                how = schedule.secure, needs, stacked
                updates = masked_updates(federation, arrivals, clients, *how)
            state = algorithm.aggregate(state, updates, here)
            for _ in updates:  # a method may stop reading early; everyone is still heard
                pass
            cpu_seconds, saved_cpu = time.process_time() - cpu_before, arrivals.saved_cpu_seconds
            is_known = federation.is_here and saved_cpu is not None
            evaluation, models_of = None, None
            is_last = round_ + 1 == schedule.num_rounds
            if is_last or (round_ + 1) % schedule.evaluate_every == 0:
                test = _request("evaluate", state.model, here, step=round_ + 1)
                detail = schedule.final_detail if is_last else schedule.detail
                evaluation, models_of = evaluate_model(
                    algorithm, federation, test, detail, hurried=not is_last
                )
            passed = federation.take_traffic()
            is_probe = bool(traits.probes) and cast(Probes, algorithm).is_probe(here)
            if is_probe:
                passed.pop("training", None)  # a deployment would not have it
            exchanged = [passed.get(phase, Traffic()) for phase in ROUND]
            server_metrics = {name: float(t) for name, t in select(state.private, METRIC).items()}
            notes = list(arrivals.notes)
            if is_last and traits.observes:
                notes += cast(Observes, algorithm).observations(server_metrics)
            record = RoundRecord(
                round_ + 1,
                len(clients),
                tuple(arrivals.refused),
                arrivals.train_loss,
                sum(traffic.up for traffic in exchanged),
                sum(traffic.down for traffic in exchanged),
                time.perf_counter() - started,
                evaluation,
                tuple(notes),
                arrivals.client_metrics,
                server_metrics,
                models_of,
                arrivals.missing,
                federation.take_events(),
                arrivals.saved_seconds,
                passed,
                is_probe,
                arrivals.took,
                cpu_seconds + (saved_cpu or 0.0) if is_known else None,
            )
            on_round(state, record)
    return state


def evaluate_model(
    algorithm: Algorithm,
    federation: Federation,
    request: Request,
    detail: Detail,
    without: Collection[ClientId] = (),
    hurried: bool = False,
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
        hurried: whether rounds go on without who is late; an event says who is not in the sums.

    Returns:
        The sums, and how many clients' own models they are over; None for the shared one.
    """
    is_own, is_common = algorithm.traits.keeps_own_models, federation.common_test > 0
    if is_common and not is_own:
        return federation.evaluate(request, detail, hurried), None
    asked = federation.keepers if is_own else tuple(sorted(federation.members))
    asked = tuple(
        k for k in asked if k not in without and (is_common or federation.members[k].test > 0)
    )
    options = {"common": is_common, **detail.options()}
    answers = federation.ask(request, asked, "evaluation", options=options, hurried=hurried)
    if hurried:
        answers = _noting_the_late(answers, federation)
    # one by one: a thousand clients' histograms are not kept beside each other
    total = sum((sums for _, sums in _sums(answers, federation.said)), Evaluation())
    return total, len(asked) if is_own else None


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
    on_took: Callable[[ClientId, Passes], None] = lambda client, took: None,
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
        on_took: told what making its own model took a client, of those who tell.
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
                elif answer.client is not None:
                    with contextlib.suppress(ValueError):
                        on_took(answer.client, Passes.from_plain(answer.values.get(TOOK)))
            clients = [client for client in clients if client not in absent]
        test = _after("evaluate", state, seed, step=state.round + 1)
        answers = list[Reply | Missing]()
        for answer in federation.ask(test, clients, "evaluation", options=detail.options()):
            answers.append(answer)
            if isinstance(answer, Missing):
                on_missing(answer)
        return dict(_sums(iter(answers), federation.said))


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
        return sum((sums for _, sums in _sums(answers, federation.said)), Evaluation())


def _noting_the_late(
    answers: Iterator[Reply | Missing], federation: Federation
) -> Iterator[Reply | Missing]:
    for answer in answers:
        if isinstance(answer, Missing) and answer.outcome == "late":
            said = federation.said(answer.client)
            federation.events.append(f"{said} is not in the test of this round: {answer.reason}.")
        yield answer


def _sums(
    answers: Iterator[Reply | Missing], said: Callable[[ClientId], str]
) -> Iterator[tuple[ClientId, Evaluation]]:
    """What clients found who have examples of their own; `said` names them in messages."""
    for answer in answers:
        if isinstance(answer, Reply) and answer.refusal is None and answer.client is not None:
            try:
                sums = Evaluation.from_plain(answer.values, answer.tensors)
            except ProtocolError as error:
                raise ProtocolError(f"{said(answer.client)}: {error}") from error
            if sums.total > 0:
                yield answer.client, sums


def _request(verb: Verb, tensors: Tensors, at: Env, step: int) -> Request:
    return Request(verb, tensors, at.round, at.num_rounds, at.seed, step)


def _after(verb: Verb, state: ServerState, seed: int, step: int) -> Request:
    """What is asked after the last round, from its place in the run."""
    return Request(verb, state.model, max(state.round - 1, 0), state.round, seed, step)
