"""Settings of accord that do not go together, and what noise on its sums does not hide."""

from __future__ import annotations

from fedcord.algorithms.accord.head import Head
from fedcord.algorithms.analytic import hiding


def setting_rules(head: Head, balanced: bool, refinements: int) -> list[str]:
    """What is wrong with the settings whatever the task, in words."""
    problems = hiding.misfits(head.privacy, balanced)
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
