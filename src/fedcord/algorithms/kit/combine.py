"""How a server makes one model of many: by their mean, or by a rule that bad clients bend less.

Rules other than the mean count every client that has examples once: the number of examples is the
client's own word, and a liar's word must not be its weight. They need single updates, so such
rounds cannot be masked, and hold all models of a round as float64.

| `rule` | the model | bad clients it withstands |
|---|---|---|
| `mean` | mean by numbers of examples | none |
| `median` | median of every weight | fewer than half |
| `trimmed-mean` | mean of every weight, f smallest and largest left out | f |
| `geometric-median` | least sum of distances | fewer than half |
| `krum` | the client's whose n − f − 2 nearest others are nearest | f, n ≥ 2f + 3 |
| `multi-krum` | mean of the n − f − 2 best by that measure | f, n ≥ 2f + 3 |
| `norm-bound` | mean of changes shortened to a bound | none: bounds what each can do |

f is `bad_share` of the n clients of a round, rounded down. The rules' references are in
`ops.robust_means`; norm bound: Sun et al., "Can You Really Backdoor Federated Learning?", 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.contract import Combination, Updates
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors
from fedcord.ops.robust_means import (
    coordinate_median,
    geometric_median,
    krum_order,
    shortened,
    trimmed_mean,
)
from fedcord.ops.weighted_mean import weighted_mean

MEAN = "mean"
RULES = (
    MEAN,
    "median",
    "trimmed-mean",
    "geometric-median",
    "krum",
    "multi-krum",
    "norm-bound",
)


@dataclass(frozen=True)
class Combine:
    """How clients' models become one."""

    rule: str = param(MEAN, "how models are joined; all but mean are robust", choices=RULES)
    bad_share: float = param(
        0.2, "share of clients that may be bad (trimmed-mean, krum)", at_least=0, below=0.5
    )
    norm_bound: float | None = param(
        None, "longest change of a model (norm-bound); none: a round's median length", above=0
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def needs_only(self) -> Combination | None:
        """What the server must see of the updates: their mean, or single ones."""
        return "mean" if self.rule == MEAN else None

    def join(self, updates: Updates, received: Tensors) -> dict[str, Tensor]:
        """One model of the clients'.

        Args:
            updates: of equal names and shapes.
            received: what clients started from, with at least those names.
        """
        if self.rule == MEAN:
            return weighted_mean((u.tensors, u.weight) for _, u in updates)
        models = [u.tensors for _, u in updates if u.weight > 0]
        if not models:
            raise ProtocolError("no client with examples sent a model; there is nothing to join.")
        start = {name: received[name] for name in models[0]}
        points = torch.stack([_flat(model) for model in models])
        joined = self._middle(points, _flat(start))
        return _like(start, joined) | _counts(models)

    def _middle(self, points: Tensor, start: Tensor) -> Tensor:
        """[P] of models [n, P]; they are compared as they are, changes being but shifted."""
        bad = math.floor(self.bad_share * len(points) + 1e-9)
        if self.rule == "median":
            return coordinate_median(points)
        if self.rule == "trimmed-mean":
            return trimmed_mean(points, bad)
        if self.rule == "geometric-median":
            return geometric_median(points)
        if self.rule == "norm-bound":
            changes = points - start
            bound = self.norm_bound or float(torch.linalg.vector_norm(changes, dim=1).median())
            return start + shortened(changes, bound).mean(0) if bound > 0 else start
        if len(points) < 2 * bad + 3:
            raise ConfigError(
                f"combine.rule = '{self.rule}' with {bad} bad clients (combine.bad_share = "
                f"{self.bad_share:g}) needs at least {2 * bad + 3} clients in a round, and "
                f"{len(points)} sent a model; take more clients, or a lower share."
            )
        kept = 1 if self.rule == "krum" else len(points) - bad - 2
        return points[krum_order(points, bad)[:kept].sort().values].mean(0)


def _flat(model: Tensors) -> Tensor:
    """All real numbers of a model as one float64 vector [P], in the order of names."""
    real = [t.double().flatten() for _, t in sorted(model.items()) if t.is_floating_point()]
    return torch.cat(real)


def _like(model: Tensors, values: Tensor) -> dict[str, Tensor]:
    """The inverse of `_flat`: the real tensors of `model` with other values."""
    real = {name: t for name, t in sorted(model.items()) if t.is_floating_point()}
    parts = values.split([t.numel() for t in real.values()])
    return {
        name: part.view(t.shape).to(t.dtype)
        for (name, t), part in zip(real.items(), parts, strict=True)
    }


def _counts(models: list[Tensors]) -> dict[str, Tensor]:
    """Whole numbers, which count events: their lower medians, that nobody alone decides."""
    names = [name for name, t in models[0].items() if not t.is_floating_point()]
    return {name: torch.stack([m[name] for m in models]).median(dim=0).values for name in names}
