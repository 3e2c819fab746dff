"""The method does what its name says: it reduces to others where it should, and it learns."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.expectations import Limit
from fedcord.checks.subject import Subject
from fedcord.core.contract import Algorithm
from fedcord.metrics.sums import Evaluation


def no_limit_stated(subject: Subject) -> str | None:
    """Why the check below does not apply."""
    return None if subject.expectations.limits else "no limiting value is stated"


def limits(subject: Subject) -> Iterator[str]:
    """At its limiting values the method is the one it is said to reduce to."""
    for limit in subject.expectations.limits:
        wanted = _model_after(subject, limit, limit.equals)
        if not wanted:
            yield f"{limit.name}: no tensor of the model is named '{limit.tensors}…'."
            continue
        gap = difference(_model_after(subject, limit, limit.algorithm), wanted, limit.tolerance)
        if gap is not None:
            yield f"{limit.name}: not so, {gap}."
        if limit.unlike is not None:
            apart = _model_after(subject, limit, limit.unlike)
            if difference(apart, wanted, limit.tolerance) is None:
                yield f"{limit.name}: also away from the limit, so the parameter has no effect."


def learns(subject: Subject) -> Iterator[str]:
    """The tiny task is learnt to the stated level."""
    expected = subject.expectations
    num_rounds = subject.algorithm.traits.rounds or expected.learning_rounds
    outcome = subject.run(num_rounds=num_rounds)
    accuracy = outcome.accuracy
    if expected.learns_with == "clients":
        accuracy = sum(outcome.own_tests.values(), Evaluation()).accuracy
    if accuracy < expected.learns_at_least:
        yield (
            f"accuracy is {accuracy:.3f} after {num_rounds} rounds, expected at least "
            f"{expected.learns_at_least:g}; check that training has an effect, or state another "
            "level or number of rounds."
        )


def _model_after(subject: Subject, limit: Limit, algorithm: Algorithm) -> dict[str, Tensor]:
    num_rounds = algorithm.traits.rounds or subject.num_rounds
    model = subject.run(algorithm, num_rounds=num_rounds).checkpoint.state.model
    return {name: tensor for name, tensor in model.items() if name.startswith(limit.tensors)}
