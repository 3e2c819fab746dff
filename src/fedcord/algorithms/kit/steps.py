"""How much of its gradients a client's way adds up: what FedNova divides by, and SCAFFOLD too.

Reference: Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020, section 3.

A client's way is x − y = η Σ_t a_t g_t. Plain SGD has a_t = 1, so ‖a‖₁ is the number of steps τ.
With momentum ρ the t-th gradient still counts in all later steps, a_t = (1 − ρ^(τ−t+1)) / (1 − ρ),
and ‖a‖₁ = (τ − ρ (1 − ρ^τ) / (1 − ρ)) / (1 − ρ). Where step t has only the share r_t of the
learning rate (`visit_schedule`), ‖a‖₁ = Σ_t r_t (1 − ρ^t) / (1 − ρ).
"""

from __future__ import annotations

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Review


def gradient_weight(local: LocalSGD, num_examples: int) -> float:
    """‖a‖₁ of a visit to a client with so many examples."""
    steps, rest = local.num_steps(num_examples), 1 - local.momentum
    if local.visit_schedule != "constant":
        rates = enumerate(local.rates(num_examples), start=1)
        return sum(rate * (1 - local.momentum**step) for step, rate in rates) / rest
    if local.momentum == 0:
        return float(steps)
    return (steps - local.momentum * (1 - local.momentum**steps) / rest) / rest


def needs_sgd(local: LocalSGD, what: str) -> Review:
    """An error where a way does not add up gradients; `what` would need it."""
    if local.optimizer == "sgd":
        return Review()
    wrong = (
        f"local.optimizer = '{local.optimizer}' does not fit {what}, which reads gradients from "
        "the way a client made; use sgd, with or without momentum."
    )
    return Review(errors=(wrong,))
