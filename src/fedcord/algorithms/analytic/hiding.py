"""Masks and noise on sums: what goes together, what may be claimed, and what they rule out."""

from __future__ import annotations

from fedcord.algorithms.analytic.privacy import Privacy
from fedcord.algorithms.analytic.secagg import statement
from fedcord.algorithms.analytic.wire import MASKED


def misfits(wire: str, privacy: Privacy, balanced: bool) -> list[str]:
    """Settings of sums that do not go together, in words."""
    problems = []
    if privacy.is_on and balanced:
        problems.append(
            "balanced and privacy.epsilon: class weights change the noise needed; choose one."
        )
    if wire == MASKED and balanced:
        problems.append(
            f"balanced and wire = {MASKED}: class counts would travel in the open; choose one."
        )
    return problems


def claims(wire: str, privacy: Privacy) -> tuple[str, ...]:
    """What may be claimed of sums, and what it rests on."""
    notes: tuple[str, ...] = (statement(),) if wire == MASKED else ()
    if not privacy.is_on:
        return notes
    notes += (privacy.statement(),)
    if privacy.noise_at == "distributed" and wire != MASKED:
        notes += (
            "privacy.noise_at = distributed: each message carries a share of the noise only, "
            f"and the server can read it; use wire={MASKED}, or noise_at=local.",
        )
    return notes


def why_not_forget(wire: str, privacy: Privacy, balanced: bool) -> str | None:
    """Why a client cannot be taken out of sums exactly, or None when it can."""
    if privacy.is_on:
        return "its sums carry privacy noise, and a second release would need a budget"
    if balanced:
        return "its class weights were made with that client"
    if wire == MASKED:
        return "its messages were masked, and only their sum is known"
    return None
