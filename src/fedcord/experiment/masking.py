"""Whether a run can be masked, and what that hides and what it does not."""

from __future__ import annotations

from fedcord.core.contract import Algorithm, Env, Review
from fedcord.core.task import Task
from fedcord.engine.summands import needs_only
from fedcord.experiment.config import RunConfig
from fedcord.secure.availability import check_available


def maskable_rounds(algorithm: Algorithm, task: Task, config: RunConfig) -> list[bool]:
    """By round, whether sums of updates are enough; one stands for all where all are alike."""
    count = algorithm.traits.rounds or 1  # where the user chooses how many, all are alike
    envs = (Env(task, config.seed, round_, count) for round_ in range(count))
    return [needs_only(algorithm, env) is not None for env in envs]


def masking_review(algorithm: Algorithm, task: Task, config: RunConfig) -> Review:
    """What is to be said before a run with `secure`; nothing without."""
    if config.secure is None:
        return Review()
    check_available()
    can_be_masked = maskable_rounds(algorithm, task, config)
    count = len(can_be_masked)
    in_the_open = [number for number, can in enumerate(can_be_masked, 1) if not can]
    if len(in_the_open) == count:
        return Review(
            errors=(
                f"secure = {config.secure:g}: the server's part of {config.algorithm} needs single "
                "clients' updates with these settings, so they cannot be masked; leave --secure "
                "out, or use a method that needs sums only, such as afl, fedhip or fedavg.",
            )
        )
    notes: tuple[str, ...] = (
        "Updates are masked: a server that keeps to the protocol reads their sum over at least "
        f"{config.secure:.0%} of a round's clients, and no single one. It still learns who takes "
        "part, how many examples each has, the results of each client's own tests, and the sum.",
    )
    if in_the_open:
        named = ", ".join(map(str, in_the_open))
        notes += (
            f"Masks cover {count - len(in_the_open)} of {count} rounds of {config.algorithm}: in "
            f"round {named} the server needs single updates, which travel in the open.",
        )
    return Review(notes=notes)
