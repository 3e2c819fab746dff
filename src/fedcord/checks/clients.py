"""Clients of every kind can take part, and all speak the same form."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from fedcord.checks.compare import non_finite
from fedcord.checks.subject import Outcome, Subject
from fedcord.checks.tiny_task import EMPTY_CLIENT, ODD_CLIENTS
from fedcord.core.contract import ClientResult
from fedcord.core.errors import FedcordError, ProtocolError
from fedcord.core.tensors import is_finite, prefixed, spec_of
from fedcord.engine.visits import check_update


def odd_clients(subject: Subject) -> Iterator[str]:
    """Clients without some classes, with one example or with none leave every number finite."""
    trouble = list(_visited_alone(subject))
    yield from trouble
    if trouble:
        return  # a whole run would only repeat it
    visited = [client for client in range(len(ODD_CLIENTS)) if client != EMPTY_CLIENT]
    names = list(ODD_CLIENTS)
    for clients in (visited, *([client] for client in visited)):
        who = "all odd clients" if clients is visited else f"only a client {names[clients[0]]}"
        num_rounds = subject.num_rounds if clients is visited else subject.fewest_rounds
        outcome = subject.run(population=subject.tiny.odd, clients=clients, num_rounds=num_rounds)
        for record in outcome.records:
            for reason in record.refused:
                yield f"with {who}, an update was refused in round {record.round - 1}: {reason}"
        for name in non_finite(outcome.checkpoint.tensors()):
            yield f"with {who}, {name} is not finite after the run."
        yield from _scores_problems(subject, outcome, who)


def equal_updates(subject: Subject) -> Iterator[str]:
    """All clients send the names, shapes and types that `expected_update` says.

    They are the same for all, unless the method takes any networks.
    """
    algorithm = subject.fresh()
    by_client = algorithm.traits.mixes_networks
    for population in (subject.tiny.population, subject.tiny.odd):
        for step in subject.walk(algorithm, population).steps:
            expected = algorithm.expected_update(step.before.shared, step.env)
            first = min(step.results)
            for client, result in step.results.items():
                env = step.env.at(client)
                at_client = algorithm.expected_update(step.before.shared, env)
                yield from _form_problems(result)
                if not by_client and dict(at_client) != dict(expected):
                    yield f"expected_update differs between the server and client {client}."
                try:
                    check_update(result.update, at_client, env.said(client))
                except ProtocolError as error:
                    yield f"in round {step.env.round}, {error}"
                if by_client:
                    continue
                specs = [spec_of(step.results[c].update.tensors) for c in (first, client)]
                unlike = sorted(
                    name
                    for name in {**specs[0], **specs[1]}
                    if specs[0].get(name) != specs[1].get(name)
                    and not (name in expected and expected[name].announced_by)  # checked above
                )
                if unlike:
                    yield (
                        f"in round {step.env.round}, clients {first} and {client} send unlike "
                        f"updates ({', '.join(unlike)}); send dense tensors with a count or "
                        "presence per class, or agree on their rows by TensorSpec.rows_of."
                    )


def _form_problems(result: ClientResult) -> Iterator[str]:
    """What no transport could carry."""
    for place, tensors in (("update", result.update.tensors), ("memory", result.memory)):
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor):
                yield f"{place} holds {name} as {type(tensor).__name__}, not as a tensor."  # type: ignore[unreachable]
            elif tensor.requires_grad:
                yield f"{place} holds {name} with a gradient graph; detach it."
    for name, value in result.update.metrics.items():
        if not isinstance(value, (int, float)):
            yield f"metric {name} is a {type(value).__name__}, not a number."  # type: ignore[unreachable]


def _visited_alone(subject: Subject) -> Iterator[str]:
    algorithm, env = subject.fresh(), subject.env()
    state = algorithm.init(env)
    for client, name in enumerate(ODD_CLIENTS):
        data = subject.tiny.odd.client(client)
        try:
            result = algorithm.client_update(state.shared, {}, data, env.at(client))
        except FedcordError as error:
            if client != EMPTY_CLIENT:  # a clear refusal is a fine answer to being given nothing
                yield f"client_update refuses a client {name}: {error}"
            continue
        except Exception as error:  # any other error of foreign code is what we look for
            yield f"client_update raised {type(error).__name__} for a client {name}: {error}"
            continue
        for tensor in non_finite(
            {**prefixed("update", result.update.tensors), **prefixed("memory", result.memory)}
        ):
            yield f"for a client {name}, {tensor} is not finite."


def _scores_problems(subject: Subject, outcome: Outcome, who: str) -> Iterator[str]:
    """Scores every client would use after the run."""
    algorithm, env = subject.fresh(), subject.env()
    shared, memories = outcome.checkpoint.state.model, outcome.checkpoint.memories
    inputs = env.task.prepare(subject.tiny.odd.test.inputs)
    for client, name in enumerate(ODD_CLIENTS):
        if client == EMPTY_CLIENT:
            continue
        predictor = algorithm.predictor(shared, memories.get(client, {}), env.at(client))
        if not is_finite(predictor.scores(inputs)):
            yield f"with {who}, the scores of a client {name} are not finite."
