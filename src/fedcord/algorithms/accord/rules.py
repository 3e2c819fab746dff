"""Settings of accord that do not go together, and what noise on its sums does not hide."""

from __future__ import annotations

from fedcord.algorithms.accord.head import Head
from fedcord.algorithms.accord.iterative import GRADIENTS, Solve
from fedcord.algorithms.analytic import hiding


def setting_rules(head: Head, solve: Solve, balanced: bool, refinements: int) -> list[str]:
    """What is wrong with the settings whatever the task, in words."""
    problems = hiding.misfits(head.privacy, balanced) + _without_gram(head, solve, refinements)
    # with noise, eigenvalues are lifted to what it allows, whatever λ was asked for
    if head.personal and head.ridge == 0 and not head.privacy.is_on:
        problems.append(
            "personal and ridge = 0: personal heads are pulled to the common one along the Gram "
            "matrix, which is not invertible without a ridge where features depend on each other; "
            "use ridge=gcv or a number above 0, or leave personal out."
        )
    if not refinements:
        return problems
    given = f"refinements = {refinements}"
    if not head.joint.keeps_blocks:
        problems.append(
            f"{given} needs every encoder's own columns in the head; use joint.combine=concat "
            "without projection or expansion."
        )
    if head.privacy.is_on:
        problems.append(
            f"{given} and privacy.epsilon: every solve releases sums anew and would need a budget "
            "of its own; choose one."
        )
    return problems


def _without_gram(head: Head, solve: Solve, refinements: int) -> list[str]:
    """What needs the Gram matrix, where there is none."""
    if solve.by != GRADIENTS:
        return []
    needed = {
        "personal": (head.personal, "personal heads are made from the Gram matrix"),
        "privacy.epsilon": (
            head.privacy.is_on,
            "every exchange would release sums anew and need a budget of its own",
        ),
        "refinements": (
            refinements > 0,
            "encoders are sent once, and the products known are of those encoders",
        ),
    }
    return [
        f"solve.by = '{GRADIENTS}' and {name}: {why}; use solve.by=gram, or leave {name} out."
        for name, (is_set, why) in needed.items()
        if is_set
    ]


def disclosures(head: Head) -> tuple[str, ...]:
    """What may be claimed of sums with noise, and what has none all the same."""
    notes = hiding.claims(head.privacy)
    if head.privacy.is_on:
        notes += (
            f"epsilon = {head.privacy.epsilon:g} covers the head given the encoders. The ENCODERS "
            "ARE NOT COVERED, nor the prototypes sent with them: they were trained on clients' "
            "samples without noise, and everybody receives the encoders.",
        )
    return notes
