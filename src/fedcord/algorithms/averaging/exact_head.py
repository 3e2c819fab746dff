"""Any averaging method, and at the end the exact ridge classifier on the features it has learnt.

Reference: this library; the last round is AFL's (He et al., CVPR 2025) on the averaged network.
What heterogeneity spoils first is the classifier; the features under it are better than it shows.

Travels: as the inner method; in the last round down the model, up the sums Σ x x' and Σ x y' of the
client's features, D(D+1)/2 + DC numbers, with class counts. Stays: as with the inner method;
samples and features.

| symbol | here |
|---|---|
| x = (f(input), 1) | features of the averaged network, as they are, and a constant |
| G = Σ x x', M = Σ x y' | `stats.gram` (one triangle), `stats.moment` |
| (w; b) = (G + λI)⁻¹ M | weight and bias of the network's classifier; λ is `ridge` |

    of = fedavg    rounds 1 … n − 1: as in a run of n − 1 rounds    round n: sums, one solve

Deviations: none. The bias is ridged like the weights. A class that nobody has gets a bias of −1000,
so that it cannot win against regressions of 0 and 1.

Limits: all of the model but its classifier has the bits of the inner method after n − 1 rounds; the
classifier is the ridge regression of the pooled samples of those who take part in the last round,
whatever the partition. n = 1 is ridge regression on the network as drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fedcord.algorithms.analytic.closed_form import client_stats, solve_stats, sums_spec
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.sum_messages import add_messages, stats_update, summed_stats
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import (
    HasHeadRound,
    averaging_method,
    with_classifier,
)
from fedcord.algorithms.kit.linear_head import Head
from fedcord.core.contract import Env, ServerState, Update, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec

FEATURES = FeatureMap(source="model", expansion="none", unit=False, bias=True)
"""What a linear classifier with a bias sees of a sample."""

UNSEEN = -1000.0
"""Bias of a class that nobody has."""


@dataclass(frozen=True)
class ExactHead(HasHeadRound):
    """An averaging method with an exact classifier at its end."""

    of: str = param("fedavg", "the averaging method; its parameters are inner.…")
    ridge: float | str = param("gcv", "λ >= 0, or gcv", at_least=0, choices=("gcv",))
    wire: str = param("packed64", "how sums travel", choices=FORMATS)
    inner: Any = param(
        FedAvg(), "the averaging method's parameters", named_by=("of", averaging_method)
    )

    head_round = "last"

    def __post_init__(self) -> None:
        check_params(self)
        self.check_inner()

    def expected_sums(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums in the agreed format."""
        return sums_spec(FEATURES, self.wire, env)

    def client_sums(self, shared: Tensors, data: ClientData, env: Env) -> Update:
        """One pass over the samples, which are only ever added up."""
        return stats_update(client_stats(FEATURES, shared, data, env), self.wire)

    def solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The ridge regression of everybody's samples."""
        sums = add_messages({}, updates, FEATURES.tag(state.shared, env), env)
        solved = solve_stats(summed_stats(sums, self.wire), self.ridge, self.wire)
        head = linear_head(solved.weight)
        bias = torch.where(solved.seen, head.bias, UNSEEN)
        return with_classifier(state, Head(head.weight, bias), env)


def linear_head(weight: torch.Tensor) -> Head:
    """Weights [D + 1, C] of features and a constant, as a network's classifier."""
    single = weight.to(torch.float32)
    return Head(single[:-1].T.contiguous(), single[-1].clone())
