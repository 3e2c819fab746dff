"""The server joins updates by their content: not by order, nor by how data is spread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcord.checks.compare import difference
from fedcord.checks.expectations import Identity, shared_model_is_update
from fedcord.checks.subject import Subject
from fedcord.checks.tiny_task import pooled
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import select, spec_of
from fedcord.engine.population import Population
from fedcord.engine.summands import from_summands, needs_only, nothing, to_summands
from fedcord.store.checkpoint import Checkpoint

SUMMED_TOLERANCE = 1e-5
"""Fixed point rounds every number of an update by 1e-10 at most; a solve may magnify that."""


def order_free(subject: Subject) -> Iterator[str]:
    """The order of updates changes nothing beyond rounding; sorted again, not a bit."""
    algorithm = subject.fresh()
    for step in subject.walk(algorithm).steps:
        updates = [(client, step.results[client].update) for client in sorted(step.results)]
        orders = {
            "reversed": updates[::-1],
            "rotated": updates[1:] + updates[:1],
            "ascending": updates,
        }
        for name, order in orders.items():
            tolerance = 0.0 if order is updates else subject.expectations.order_tolerance
            state = algorithm.aggregate(step.before, iter(order), step.env)
            gap = difference(
                Checkpoint(state, {}).tensors(), Checkpoint(step.after, {}).tensors(), tolerance
            )
            if gap is not None:
                yield (
                    f"in {name} order, the updates of round {step.env.round} give another state "
                    f"than before: {gap}."
                )


def no_identity_stated(subject: Subject) -> str | None:
    """Why the check below does not apply."""
    if _identity(subject) is not None:
        return None
    return "no identity is stated, and clients do not send the model they receive"


def one_client_identity(subject: Subject) -> Iterator[str]:
    """One client that holds all data: the server knows what the method says it must."""
    identity = _identity(subject)
    assert identity is not None
    everyone = [
        subject.tiny.population.client(k) for k in range(subject.tiny.population.num_clients)
    ]
    alone = Population.from_clients([pooled(everyone)], subject.tiny.population.test)
    for step in subject.walk(population=alone).steps:
        reason = identity(step.before, step.results[0].update, step.after)
        if reason is not None:
            yield (
                f"after round {step.env.round} with one client alone: {reason}; check the weights, "
                "or state another identity."
            )


def is_not_additive(subject: Subject) -> str | None:
    """Why the check below does not apply."""
    algorithm = subject.algorithm
    if algorithm.traits.additive:
        return None
    return "the algorithm does not call itself additive"


def splitting_adds_up(subject: Subject) -> Iterator[str]:
    """One client's data in two clients gives the same sums and the same end."""
    population, tolerance = subject.tiny.population, subject.expectations.additive_tolerance
    whole, *others = (population.client(k) for k in range(population.num_clients))
    parts = list(_halves(whole))
    before = subject.walk(population=Population.from_clients([whole, *others], population.test))
    after = subject.walk(population=Population.from_clients([*parts, *others], population.test))
    one = before.steps[0].results[0].update
    two = [after.steps[0].results[client].update for client in (0, 1)]
    sums = {name: two[0].tensors[name] + two[1].tensors[name] for name in two[0].tensors}
    gap = difference(sums, one.tensors, tolerance)
    if gap is not None:
        yield f"the updates of two halves do not add up to the update of the whole: {gap}."
    weight = two[0].weight + two[1].weight
    if abs(weight - one.weight) > tolerance * max(1.0, one.weight):
        yield f"the weights of two halves add up to {weight:g}, the whole weighs {one.weight:g}."
    ends = [walked.steps[-1].after.model for walked in (after, before)]
    gap = difference(ends[0], ends[1], tolerance)
    if gap is not None:
        yield f"a client in two halves leads to another model: {gap}; sum before dividing."


def sums_do_not_suffice(subject: Subject) -> str | None:
    """Why the check below does not apply."""
    if subject.algorithm.traits.sums_suffice:
        return None
    return "the algorithm does not say that sums suffice"


def sums_suffice(subject: Subject) -> Iterator[str]:
    """Where only the sum or mean of updates is said to matter, it leads to the same model."""
    algorithm = subject.fresh()
    for step in subject.walk(algorithm).steps:
        needs, clients = needs_only(algorithm, step.env), sorted(step.results)
        if needs is None:
            continue
        agreed = algorithm.expected_update(step.before.shared, step.env.at(clients[0]))
        numbers = [
            to_summands(step.results[k].update, agreed, needs, len(clients)) for k in clients
        ]
        update = from_summands(np.add.reduce(numbers), agreed, needs)
        combined = [(k, update if k == clients[0] else nothing(update)) for k in clients]
        state = algorithm.aggregate(step.before, iter(combined), step.env)
        found, wanted = (
            {n: t for n, t in model.items() if needs == "sum" or t.is_floating_point()}
            for model in (state.model, step.after.model)
        )
        gap = difference(found, wanted, SUMMED_TOLERANCE)
        if gap is not None:
            yield (
                f"the {needs} of all updates of round {step.env.round} gives another model than "
                f"the single ones: {gap}; return None from needs_only where they are needed."
            )


def _identity(subject: Subject) -> Identity | None:
    stated = subject.expectations.identity
    if stated != "auto":
        return stated
    algorithm, env = subject.fresh(), subject.env()
    shared = algorithm.init(env).shared
    received = spec_of(select(shared, "model"))
    expected = algorithm.expected_update(shared, env)
    sent = {
        name.removeprefix("model."): spec
        for name, spec in expected.items()
        if name.startswith("model.")
    }
    return shared_model_is_update if received and sent == received else None


def _halves(whole: ClientData) -> Iterator[ClientData]:
    """Unequal parts, so that a mean of two means is not the mean."""
    third = len(whole.train) // 3
    for part in (slice(None, third), slice(third, None)):
        train = Examples(whole.train.inputs[part], whole.train.labels[part])
        yield ClientData(train, whole.validation, whole.test)
