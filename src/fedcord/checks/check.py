"""The table of checks, and the function that puts an algorithm through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Literal

from fedcord.checks import (
    aggregation,
    clients,
    declaration,
    engines,
    faults,
    learning,
    prediction,
    purity,
    refusal,
    secrecy,
)
from fedcord.checks.expectations import Expectations
from fedcord.checks.global_randomness import global_randomness_elsewhere
from fedcord.checks.subject import Subject
from fedcord.checks.tiny_task import SHAPES, tiny_task
from fedcord.core.contract import Algorithm
from fedcord.core.errors import ConfigError, FedcordError, unknown_name
from fedcord.engine.threads import torch_threads

MOST_REASONS = 10
"""Reasons kept per check; a broken method can be wrong once per client, tensor and round."""


class ContractViolation(FedcordError):  # noqa: N818 - the name users catch
    """An algorithm does not keep its promises.

    Attributes:
        algorithm: name of the class.
        check: which of the checks failed.
        task: the tiny task it failed on.
        reason: what was found, in words.
    """

    def __init__(self, algorithm: str, check: str, task: str, reason: str) -> None:
        self.algorithm = algorithm
        self.check = check
        self.task = task
        self.reason = reason
        super().__init__(f"{algorithm} fails the check '{check}' on the task '{task}': {reason}")


@dataclass(frozen=True)
class Check:
    """One promise.

    Attributes:
        catches: the mistakes it finds, in a few words.
        find: yields every way in which the promise is broken; nothing when it is kept.
        skip: why the promise does not concern this algorithm, or None when it does.
    """

    catches: str
    find: Callable[[Subject], Iterator[str]]
    skip: Callable[[Subject], str | None] = lambda subject: None


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "declared": Check("abilities nobody announced, or the reverse", declaration.declared),
        "same-outputs": Check("hidden state, global randomness", purity.same_outputs),
        "inputs-unchanged": Check("in-place edits, borrowed memory", purity.inputs_unchanged),
        "order-free": Check("dependence on the order of updates", aggregation.order_free),
        "one-client-identity": Check(
            "mistakes in weights", aggregation.one_client_identity, aggregation.no_identity_stated
        ),
        "splitting-adds-up": Check(
            "means of means", aggregation.splitting_adds_up, aggregation.is_not_additive
        ),
        "sums-suffice": Check(
            "masked rounds that would change the model",
            aggregation.sums_suffice,
            aggregation.sums_do_not_suffice,
        ),
        "odd-clients": Check("ragged classes, divisions by zero", clients.odd_clients),
        "equal-updates": Check("updates no transport can carry", clients.equal_updates),
        "resume": Check("state outside the state", engines.resume),
        "engines-agree": Check("reliance on objects or processes", engines.engines_agree),
        "limits": Check("parameters wired wrongly", learning.limits, learning.no_limit_stated),
        "nothing-leaks": Check("private tensors or memory sent", secrecy.nothing_leaks),
        "predictor": Check("answers that depend on company or history", prediction.predictor),
        "learns": Check("training without effect", learning.learns),
        "bad-updates-refused": Check("updates nobody checked", refusal.bad_updates_refused),
        "faults": Check("reliance on everybody being there", faults.faults),
    }
)
"""Every check by name, in the order they run."""


@dataclass(frozen=True)
class CheckResult:
    """How one check ended on one task.

    Attributes:
        check: name of the check.
        task: name of the tiny task.
        status: whether the promise is kept.
        reasons: what is wrong, or why the check does not apply.
    """

    check: str
    task: str
    status: Literal["passed", "failed", "not applicable"]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContractReport:
    """How all checks ended; its text is a table."""

    algorithm: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    def __str__(self) -> str:
        width = max((len(result.check) for result in self.results), default=0)
        lines = [f"{self.algorithm}: {len(self.failures)} of {len(self.results)} checks failed"]
        for result in self.results:
            lines.append(f"  {result.check:<{width}}  {result.task:<8}  {result.status}")
            lines += [f"      {reason}" for reason in result.reasons]
        return "\n".join(lines)


def check_algorithm(
    algorithm: Algorithm,
    expectations: Expectations = Expectations(),  # noqa: B008 - frozen
    *,
    only: Sequence[str] | None = None,
    tasks: Sequence[str] = tuple(SHAPES),
    collect: bool = False,
    with_processes: bool = False,
) -> ContractReport:
    """Hold an algorithm to the contract.

    Args:
        algorithm: a frozen dataclass with parameters that train something within a few steps (a
            small batch size and a large learning rate suit the tiny tasks).
        expectations: what it promises beyond the contract.
        only: names of the checks to run; all of `CHECKS` when not given.
        tasks: names of the tiny tasks to run them on.
        collect: go on after a failure and report all of them, instead of raising the first.
        with_processes: also compare with the engine of worker processes, which takes seconds.

    Returns:
        The result of every check on every task.

    Raises:
        ContractViolation: at the first failure, unless `collect` is set.
        ConfigError: a name is unknown or the algorithm is not a frozen dataclass.
    """
    chosen = _chosen(algorithm, only, tasks)
    name = type(algorithm).__qualname__
    results = []
    with torch_threads(1):
        for check in chosen:
            for task in tasks:
                subject = Subject(algorithm, tiny_task(task), expectations, with_processes)
                with global_randomness_elsewhere():
                    result, cause = _run(check, task, subject, MOST_REASONS if collect else 1)
                if result.status == "failed" and not collect:
                    raise ContractViolation(name, check, task, result.reasons[0]) from cause
                results.append(result)
    return ContractReport(name, tuple(results))


def _run(name: str, task: str, subject: Subject, most: int) -> tuple[CheckResult, Exception | None]:
    check, reasons = CHECKS[name], list[str]()
    try:
        why_not = check.skip(subject)
        if why_not is not None:
            return CheckResult(name, task, "not applicable", (why_not,)), None
        for reason in islice(check.find(subject), most):
            reasons.append(reason)
    except Exception as error:  # the algorithm is foreign code: whatever it raises is a finding
        reasons.append(f"{type(error).__name__} was raised: {error}")
        return CheckResult(name, task, "failed", tuple(reasons)), error
    unique = tuple(dict.fromkeys(reasons))
    return CheckResult(name, task, "failed" if unique else "passed", unique), None


def _chosen(
    algorithm: Algorithm, only: Sequence[str] | None, tasks: Sequence[str]
) -> Sequence[str]:
    problems = [unknown_name("check", name, CHECKS) for name in only or () if name not in CHECKS]
    problems += [unknown_name("tiny task", name, SHAPES) for name in tasks if name not in SHAPES]
    settings = getattr(type(algorithm), "__dataclass_params__", None)
    if not getattr(settings, "frozen", False):
        problems.append(
            f"{type(algorithm).__qualname__} is not a frozen dataclass; decorate it with "
            "@dataclass(frozen=True), because engines rebuild an algorithm from its fields."
        )
    if problems:
        raise ConfigError(problems)
    return list(CHECKS) if only is None else list(only)
