"""From signals to a verdict: one threshold, or what shadow models have taught.

A shadow is a federation that the attacker trains by the same recipe on halves of the candidates, so
that it knows who is in. Each candidate is in half of the shadows.

- threshold: the loss alone (Yeom et al. 2018).
- shadows: a logistic regression of membership on all signals, learnt on the shadows (Shokri et al.
  2017).
- likelihood ratio: the same score, compared for every candidate with its own values in shadows that
  had it and in those that had not (LiRA, Carlini et al. 2022). With few shadows the variance is one
  for all candidates, as they advise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from fedcord.audit.rates import Rates, attack_rates
from fedcord.audit.signals import Signals

THRESHOLD, SHADOWS, RATIO = "loss threshold", "shadow models", "likelihood ratio"

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Shadow:
    """What the attacker's own federation shows.

    Attributes:
        signals: of all candidates by its model.
        has: [N] which of them were in it.
    """

    signals: Signals
    has: Tensor


def attacks(target: Signals, is_member: Tensor, shadows: Sequence[Shadow]) -> dict[str, Rates]:
    """How well each attack does on a client's candidates."""
    truth = is_member.numpy()
    found = {THRESHOLD: attack_rates(target["loss"].numpy(), truth)}
    if shadows:
        score, ratio = shadow_scores(target, shadows)
        found |= {SHADOWS: attack_rates(score, truth), RATIO: attack_rates(ratio, truth)}
    return found


def shadow_scores(target: Signals, shadows: Sequence[Shadow]) -> tuple[Numbers, Numbers]:
    """[N] the log-odds of membership, and [N] the log likelihood ratio.

    Args:
        target: signals of candidates by the model under attack.
        shadows: at least two, in which every candidate was and was not.
    """
    rows = [_standardised(shadow.signals) for shadow in shadows]
    has = np.stack([shadow.has.numpy() for shadow in shadows])
    learnt = LogisticRegression().fit(np.concatenate(rows), has.ravel())
    scores = np.stack([learnt.decision_function(part) for part in rows])  # [shadows, N]
    score: Numbers = learnt.decision_function(_standardised(target))
    inside = _mean_where(scores, has)
    outside = _mean_where(scores, ~has)
    spread = np.where(has, scores - inside, scores - outside).var()
    ratio = ((score - outside) ** 2 - (score - inside) ** 2) / max(2 * spread, 1e-300)
    return score, ratio


def _standardised(signals: Signals) -> Numbers:
    """[N, S] with mean 0 and deviation 1 over candidates, so that models compare.

    The attacker can do that for any model: it knows the candidates, not who of them is a member.
    """
    columns = torch.stack([signals[name] for name in sorted(signals)], dim=1).numpy()
    deviation = columns.std(axis=0)
    scaled: Numbers = (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def _mean_where(scores: Numbers, chosen: NDArray[np.bool_]) -> Numbers:
    """[N] means over the shadows chosen for each candidate."""
    mean: Numbers = (scores * chosen).sum(axis=0) / chosen.sum(axis=0)
    return mean
