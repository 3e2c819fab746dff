"""The exact ridge classifier as the start of fine-tuning by any averaging method.

Reference: Fanì et al., "Accelerating Heterogeneous Federated Learning with Closed-form
Classifiers", ICML 2024 (arXiv 2406.01116), Fed3R+FT.

Travels: in the first round down the model, up the sums Σ x x' and Σ x y' of the client's features,
D(D+1)/2 + DC numbers, with class counts; then as the inner method. Stays: as with the inner method;
samples and features.

| paper | here |
|---|---|
| W = (A + λI)⁻¹ b | `ridge`, 0.01 in the authors' settings |
| w_c / ‖w_c‖ | as in `fed3r` |
| softmax(x·w_c / τ), so that the cross-entropy starts small | weight and bias over `temperature` |
| fine-tuning with the classifier trained or fixed | `train` = all or features |

Deviations: τ is put into the classifier, once, so that what comes out is an ordinary network; with
`train=all` its learning rate is thereby τ² of the paper's. The first network is the one `--model`
draws, unless a run starts from another's state. With `train=classifier`, statistics of batch
normalisation still follow the data.

Limits: one round is `fed3r` on the network's features, over τ. After it, `train=features` keeps the
classifier's bits, `train=classifier` those of all other weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcord.algorithms.analytic.closed_form import client_stats, solve_stats, sums_spec
from fedcord.algorithms.analytic.fed3r import normalised
from fedcord.algorithms.analytic.sum_messages import add_messages, stats_update, summed_stats
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.algorithms.averaging.exact_head import FEATURES, linear_head
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import (
    HasHeadRound,
    averaging_method,
    with_classifier,
)
from fedcord.algorithms.kit.trained_part import PARTS
from fedcord.core.contract import Env, ServerState, Update, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec


@dataclass(frozen=True)
class Fed3RFineTuned(HasHeadRound):
    """An averaging method that starts from an exact classifier."""

    of: str = param("fedavg", "the averaging method; its parameters are inner.…")
    ridge: float | str = param(0.01, "λ >= 0, or gcv", at_least=0, choices=("gcv",))
    temperature: float = param(0.1, "of the softmax (paper: τ)", above=0, space=(0.01, 1.0, "log"))
    train: str = param("features", "what is fine-tuned", choices=PARTS)
    wire: str = param("packed64", "how sums travel", choices=FORMATS)
    inner: Any = param(
        FedAvg(), "the averaging method's parameters", named_by=("of", averaging_method)
    )

    head_round = "first"

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
        """Fed3R's classifier, over the temperature."""
        sums = add_messages({}, updates, FEATURES.tag(state.shared, env), env)
        solved = solve_stats(summed_stats(sums, self.wire), self.ridge, self.wire)
        head = linear_head(normalised(solved.weight, has_bias=True) / self.temperature)
        return with_classifier(state, head, env)
