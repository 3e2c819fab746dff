"""Ridge regression on pre-trained features, from sums that clients add up.

Reference: Fanì et al., "Accelerating Heterogeneous Federated Learning with Closed-form
Classifiers", ICML 2024 (arXiv 2406.01116).

Travels: up A_k = Σ z z' and b_k = Σ z e_y' of the client's features, D(D+1)/2 + DC numbers, with
class counts; down nothing, unless the feature map is a network that is not frozen. Stays: samples
and features.

| paper | here |
|---|---|
| Z_k, Y_k | features and one-hot labels of client k |
| A_k = Z_k'Z_k, b_k = Z_k'Y_k | `stats.gram` (one triangle), `stats.moment` |
| W = (A + λI)⁻¹ b | `head.weight`; λ is `ridge`, 0.01 in the authors' settings |
| w_c / ‖w_c‖, in the authors' code | `normalise` |
| random features (Fed3R-RF) | `features.expansion=rff`, the preset `fed3r-rf` |

Deviations: the paper visits clients over several rounds and adds up; here all that take part are
heard in one round, which gives the same sums. Random features are drawn for vectors of length one,
which `fed3r-rf` therefore makes of them first, and their number, 2048, is ours.
The constant feature is ridged like the others, as in the authors' code. A class that nobody has
cannot be predicted.

Limits: `normalise=false` is `afl` with the same ridge and features, bit for bit. Any partition
gives the same sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from fedcord.algorithms.analytic.closed_form import SolvesFromSums, solve_stats
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.core.contract import Combination, Env, Traits
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class Fed3R(SolvesFromSums):
    """Federated recursive ridge regression."""

    ridge: float | str = param(
        0.01, "λ >= 0, or gcv", at_least=0, choices=("gcv",), space=(1e-4, 100.0, "log")
    )
    normalise: bool = param(True, "scale every class's weights to length one")
    features: FeatureMap = param(FeatureMap(expansion="none", unit=False), "what is summed")
    wire: str = param("packed64", "how sums travel", choices=FORMATS)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round of sums."""
        return self.traits_of_sums()

    def needs_only(self, env: Env) -> Combination | None:
        """The sum of everybody's sums is all that is solved from."""
        return "sum"

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """The solution, with classes of one length where that is asked for."""
        solved = solve_stats(self.stats_of(sums), self.ridge, self.wire)
        if self.normalise:
            solved = replace(solved, weight=normalised(solved.weight, self.features.bias))
        return solved.tensors()


def normalised(weight: Tensor, has_bias: bool) -> Tensor:
    """Columns [D, C] over the lengths of their weights; the bias, last, has no part in a length.

    A column of zeros stays as it is.
    """
    length: Tensor = (weight[:-1] if has_bias else weight).norm(dim=0)
    return weight / length.masked_fill(length == 0, 1.0)
