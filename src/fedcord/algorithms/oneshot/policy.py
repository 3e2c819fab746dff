"""How strongly a client aligns: the weight λ of the alignment loss, given, annealed or learned.

Reference for learned weights: Kendall et al., "Multi-Task Learning Using Uncertainty to Weigh
Losses for Scene Geometry and Semantics", CVPR 2018. Two numbers per client, ℓ_L = log σ²_local and
ℓ_A = log σ²_align, descend

    L_σ = B/(2a) + s_d·A/(2b) + ½ℓ_L + ½·s_ℓ·ℓ_A + γ_b/b + γ_c·ℓ_L² + γ_λ·φ(a/b − λ_max)

with a = e^ℓ_L, b = e^ℓ_A, B and A the values of both losses, φ the hinge max(0, x) or its square,
and λ_raw = a/b. Weights descend B + s_w·λ_raw·A with λ a plain number, so neither loss reaches
into the other. Kinds differ only in which of s_d, s_ℓ, s_w is the schedule s and which is 1:

| kind | s_d | s_ℓ | s_w | λ used, at rest | as s → 0 |
|---|---|---|---|---|---|
| uw | 1 | 1 | 1 | B/A | stays |
| uw_ext_coupled, uw_meta_data | s | 1 | s | B/A | stays: s cancels |
| uw_meta_data_raw | s | 1 | 1 | B/(s·A) | runs away |
| uw_ext | 1 | 1 | s | s·B/A | 0 |
| uw_meta_log | 1 | s | 1 | s·B/A | 0 |

`kendall_coupled` descends L_σ (as `uw`) by everything: weights see B/(2a) + A/(2b).

The gradients of L_σ are four terms of plain numbers, so they are written out; no graph is needed.
Above λ_max the linear hinge holds λ there whatever the losses exactly when γ_λ ≥ 1/(2·λ_max).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.kit.annealing import SHAPES, annealing
from fedcord.algorithms.oneshot.schedule import PROGRESS
from fedcord.core.errors import ConfigError
from fedcord.core.params import check_params, param

LOG_LIMIT = 20.0
"""ℓ stays within ± this, so that λ and its gradients stay finite."""

_ANNEALED: dict[str, tuple[bool, bool, bool]] = {
    "kendall_coupled": (False, False, False),
    "uw": (False, False, False),
    "uw_ext_coupled": (True, False, True),
    "uw_ext": (False, False, True),
    "uw_meta_data_raw": (True, False, False),
    "uw_meta_data": (True, False, True),
    "uw_meta_log": (False, True, False),
}
"""Learned kinds: whether s_d, s_ℓ, s_w are the schedule."""

KINDS = ("none", "fixed", "anneal", "entropy", *_ANNEALED)


@dataclass(frozen=True)
class Sigma:
    """What a learning client remembers of its policy: ℓ_L, ℓ_A and their momentum."""

    log_local: float = 0.0
    log_align: float = 0.0
    velocity_local: float = 0.0
    velocity_align: float = 0.0

    @property
    def ratio(self) -> float:
        """λ_raw = σ²_local / σ²_align."""
        return math.exp(self.log_local - self.log_align)

    def at_rest(self) -> Sigma:
        """Without momentum, as a new optimiser begins."""
        return Sigma(self.log_local, self.log_align)

    def tensor(self) -> Tensor:
        """[4] float64, for the client's memory."""
        numbers = self.log_local, self.log_align, self.velocity_local, self.velocity_align
        return torch.tensor(numbers, dtype=torch.float64)

    @staticmethod
    def of(tensor: Tensor) -> Sigma:
        """The inverse of `tensor`."""
        return Sigma(*tensor.tolist())


@dataclass(frozen=True)
class Policy:
    """Where λ comes from."""

    kind: str = param("none", "rule for λ", choices=KINDS)
    weight: float = param(5.0, "λ of fixed, and λ at the start of anneal (paper: λ0)", at_least=0)
    schedule: str = param("linear", "shape of the factor s", choices=SHAPES)
    progress: str = param("global", "what s is a function of", choices=PROGRESS)
    floor: float = param(0.0, "least value of s", at_least=0, at_most=1)
    entropy_min: float = param(0.1, "λ of a client with one class", above=0)
    entropy_max: float = param(10.0, "λ of a client with all classes alike", above=0)
    start: str = param(
        "entropy", "first λ of learned kinds: 1, or by entropy", choices=("unbiased", "entropy")
    )
    sigma_lr: float = param(5e-3, "learning rate of log σ²", above=0)
    lambda_max: float = param(0.0, "λ_raw above which the valve closes; 0: no valve", at_least=0)
    hinge: str = param("linear", "shape of the valve (paper: φ)", choices=("linear", "squared"))
    hinge_weight: float = param(0.02, "strength of the valve (paper: γ_λ)", at_least=0)
    align_floor: float = param(0.0, "pull of σ²_align away from 0 (paper: γ_b)", at_least=0)
    local_pull: float = param(0.0, "pull of log σ²_local towards 0 (paper: γ_c)", at_least=0)

    def __post_init__(self) -> None:
        check_params(self)
        if self.entropy_min > self.entropy_max:
            raise ConfigError(
                f"policy.entropy_min = {self.entropy_min:g} is above policy.entropy_max = "
                f"{self.entropy_max:g}; clients with more classes must not get a smaller λ."
            )

    @property
    def learns(self) -> bool:
        """Whether λ is learned."""
        return self.kind in _ANNEALED

    @property
    def is_used(self) -> bool:
        """Whether λ is ever above 0."""
        return self.kind != "none" and (self.kind not in ("fixed", "anneal") or self.weight > 0)

    @property
    def has_valve(self) -> bool:
        """Whether anything keeps λ_raw from growing."""
        return self.lambda_max > 0 and self.hinge_weight > 0

    def factor(self, progress: float) -> float:
        """s(p)."""
        return annealing(self.schedule, progress, self.floor)

    def by_entropy(self, counts: Tensor) -> float:
        """λ between `entropy_min` and `entropy_max` by the entropy of class counts [C].

        A client without examples has no entropy and gets the middle.
        """
        total, num_classes = float(counts.sum()), len(counts)
        if total == 0 or num_classes < 2:
            return 0.5 * (self.entropy_min + self.entropy_max)
        shares = counts[counts > 0].double() / total
        bits = -float((shares * shares.log2()).sum())
        return self.entropy_min + (self.entropy_max - self.entropy_min) * bits / math.log2(
            num_classes
        )

    def begin(self, counts: Tensor) -> Sigma:
        """The state before training; `ratio` is the first λ_raw of every kind.

        Kinds that do not learn keep it as it is.
        """
        first = 1.0 if self.learns else 0.0
        if self.kind in ("fixed", "anneal"):
            first = self.weight
        elif self.kind == "entropy" or (self.learns and self.start == "entropy"):
            first = self.by_entropy(counts)
        return Sigma(log_local=math.log(first) if first > 0 else -math.inf)

    def weights(self, sigma: Sigma, factor: float) -> tuple[float, float]:
        """What weights descend: the multiples of the base and the alignment loss."""
        if self.kind == "kendall_coupled":
            return 0.5 * math.exp(-sigma.log_local), 0.5 * math.exp(-sigma.log_align)
        if self.kind in ("anneal", "entropy"):
            return 1.0, sigma.ratio * factor
        annealed = _ANNEALED.get(self.kind, (False, False, False))
        return 1.0, sigma.ratio * (factor if annealed[2] else 1.0)

    def gradient(
        self, sigma: Sigma, base: float, align: float, factor: float
    ) -> tuple[float, float]:
        """∂L_σ/∂ℓ_L and ∂L_σ/∂ℓ_A for the given values of both losses."""
        in_data, in_log, _ = _ANNEALED[self.kind]
        s_data, s_log = (factor if in_data else 1.0), (factor if in_log else 1.0)
        inverse_local, inverse_align = math.exp(-sigma.log_local), math.exp(-sigma.log_align)
        local = 0.5 - 0.5 * base * inverse_local + 2 * self.local_pull * sigma.log_local
        towards = 0.5 * s_log - (0.5 * s_data * align + self.align_floor) * inverse_align
        if self.has_valve:
            push = self._valve(sigma.ratio)
            local, towards = local + push, towards - push
        return local, towards

    def descend(self, sigma: Sigma, gradient: tuple[float, float], momentum: float) -> Sigma:
        """One step of SGD with momentum on both numbers."""
        speed = (
            momentum * sigma.velocity_local + gradient[0],
            momentum * sigma.velocity_align + gradient[1],
        )
        moved = (
            sigma.log_local - self.sigma_lr * speed[0],
            sigma.log_align - self.sigma_lr * speed[1],
        )
        return replace(
            sigma,
            log_local=min(LOG_LIMIT, max(-LOG_LIMIT, moved[0])),
            log_align=min(LOG_LIMIT, max(-LOG_LIMIT, moved[1])),
            velocity_local=speed[0],
            velocity_align=speed[1],
        )

    def _valve(self, ratio: float) -> float:
        """∂/∂ℓ_L of γ_λ φ(λ − λ_max), which is −∂/∂ℓ_A."""
        excess = ratio - self.lambda_max
        if excess <= 0:
            return 0.0
        slope = 1.0 if self.hinge == "linear" else 2 * excess
        return self.hinge_weight * slope * ratio
