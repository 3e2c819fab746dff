"""Noise on sums: what goes together, what may be claimed, and what it rules out."""

from __future__ import annotations

from fedcord.algorithms.analytic.privacy import Privacy


def misfits(privacy: Privacy, balanced: bool) -> list[str]:
    """Settings of sums that do not go together, in words."""
    if privacy.is_on and balanced:
        return ["balanced and privacy.epsilon: class weights change the noise needed; choose one."]
    return []


def claims(privacy: Privacy) -> tuple[str, ...]:
    """What may be claimed of sums, and what it rests on."""
    if not privacy.is_on:
        return ()
    notes: tuple[str, ...] = (privacy.statement(),)
    if privacy.noise_at == "distributed":
        notes += (
            "privacy.noise_at = distributed: each message carries a share of the noise only, "
            "which is enough where the server reads nothing but their sum: use it with --secure, "
            "or else noise_at=local.",
        )
    return notes


def why_not_forget(privacy: Privacy, balanced: bool) -> str | None:
    """Why a client cannot be taken out of sums exactly, or None when it can."""
    if privacy.is_on:
        return "its sums carry privacy noise, and a second release would need a budget"
    if balanced:
        return "its class weights were made with that client"
    return None
