"""Says in words when alignment takes over or numbers stop being finite."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedcord.algorithms.oneshot.policy import Policy

RUNAWAY = 100.0
"""A λ in use from here on has run away: ten times the strongest start, twice FLARE's valve."""

SHORT = "fewer_than_batch"
"""The metric of a client with fewer examples than a batch: their number."""

MOST_SKIPPED = 10
"""Consecutive steps that are not finite, after which a client gives up."""


def remedy(policy: Policy) -> str:
    """What to change when λ runs away."""
    if not policy.has_valve:
        return "enable the valve: --set policy.lambda_max=50"
    bound = 1 / (2 * policy.lambda_max)
    if policy.hinge == "linear" and policy.hinge_weight < bound:
        return f"the valve is too weak: --set policy.hinge_weight={bound:g} or more"
    return "lower the valve: --set policy.lambda_max=" + format(policy.lambda_max / 2, "g")


def gave_up(policy: Policy, epoch: int, ratio: float, lr: float) -> str:
    """Why a client stopped, for its refusal."""
    text = f"{MOST_SKIPPED} steps in a row were not finite in epoch {epoch}"
    if policy.learns and ratio >= RUNAWAY:
        return f"{text}, λ_raw {ratio:.1e}: alignment dominates; {remedy(policy)}."
    return f"{text}; lower local.lr (now {lr:g}) or local.clip."


def observations(policy: Policy, metrics: Mapping[str, float]) -> tuple[str, ...]:
    """What a client's metrics of one chunk deserve to be said about."""
    found = []
    if "runaway_epoch" in metrics:
        found.append(
            f"λ_raw {metrics['lambda_raw']:.1e} after epoch "
            f"{metrics['runaway_epoch']:.0f}, alignment dominates; {remedy(policy)}"
        )
    if SHORT in metrics:
        found.append(
            f"{metrics[SHORT]:.0f} examples are fewer than local.batch_size: every step sees all "
            "of them"
        )
    skipped = metrics.get("skipped_steps", 0.0)
    if skipped > 0 and math.isfinite(skipped):
        found.append(f"{skipped:.0f} steps were not finite and were skipped")
    return tuple(found)
