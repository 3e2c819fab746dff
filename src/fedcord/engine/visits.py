"""Clients' work, and what makes it sound enough to be sent and to be added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from fedcord.core.contract import Algorithm, ClientResult, TrainsStacked, Update
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, check_amounts, check_tensors
from fedcord.engine.reuse import Visit

MAX_WEIGHT = 1e15
"""Largest weight of an update: more examples than anyone has, and sums of weights stay exact
enough for everyone else to count."""


def do_visits(
    algorithm: Algorithm, task: Task, shared: Tensors, visits: Sequence[Visit]
) -> Iterator[ClientResult | str]:
    """Results in order; in place of one that is not sound, what is wrong with it.

    A client whose result is not sound keeps the memory it had.
    """
    stacks = cast(TrainsStacked, algorithm) if algorithm.traits.stacks else None
    if len(visits) > 1 and stacks is not None and stacks.can_stack(task):
        kept, datas = [v.memory for v in visits], [v.data for v in visits]
        try:
            results = stacks.client_updates(shared, kept, datas, [v.env for v in visits])
        except NumericalError:
            pass  # find out below which client it was
        else:
            for result, visit in zip(results, visits, strict=True):
                yield _sound(algorithm, shared, result, visit)
            return
    for visit in visits:
        try:
            result = algorithm.client_update(shared, visit.memory, visit.data, visit.env)
        except NumericalError as error:
            yield f"{visit.env.said(visit.client)}: {error}"
        else:
            yield _sound(algorithm, shared, result, visit)


def _sound(
    algorithm: Algorithm, shared: Tensors, result: ClientResult, visit: Visit
) -> ClientResult | str:
    try:
        agreed = algorithm.expected_update(shared, visit.env)
        check_update(result.update, agreed, visit.env.said(visit.client))
    except ProtocolError as error:
        return str(error)
    return result


def check_update(update: Update, expected: Mapping[str, TensorSpec], who: str) -> None:
    """Refuse an update that differs from what was agreed, naming client, tensor and reason."""
    check_tensors(update.tensors, expected, who)
    if not 0 <= update.weight <= MAX_WEIGHT:
        raise ProtocolError(
            f"{who} sent weight {update.weight}; expected a number from 0 to {MAX_WEIGHT:g}."
        )
    check_amounts(update.tensors, expected, update.weight, who)
