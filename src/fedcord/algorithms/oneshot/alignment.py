"""How far prototypes are from their targets, and the pull towards them.

Three forms, with P_c a prototype, T_c its target, m classes taken part in:

| form | value | pull on P_c |
|---|---|---|
| mse | mean of (P−T)² over m·D entries | its gradient, 2 (P_c−T_c) / (m·D) |
| relative | mean over classes of ‖P_c−T_c‖² / (2‖T_c‖²) | ‖T_c‖ times its gradient |
| cosine | mean over classes of 1 − cos(P_c, T_c) | ‖P_c‖ times its gradient |

`mse` is what the versions of docs/algorithms/ladder.md were first run with. Its pull fades with C·D
and mostly shrinks prototypes, so that a weight λ does not carry over from one network to another.
The other two have values near 1 at the start whatever C and D are, and pulls of at most about 1/m:
the size of what the classification loss can exert on one prototype. There λ compares the two
whatever the network.

Only prototypes are pulled; with `on = feature` it is the features, through the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.core.params import check_params, param


@dataclass(frozen=True)
class Alignment:
    """What is drawn to the anchors, and how distance is measured."""

    form: str = param("mse", "measure of distance", choices=("mse", "relative", "cosine"))
    classes: str = param("all", "whose prototypes are drawn", choices=("all", "batch", "client"))
    on: str = param("prototype", "what is drawn", choices=("prototype", "feature"))

    def __post_init__(self) -> None:
        check_params(self)

    def chosen(self, labels: Tensor, counts: Tensor) -> Tensor | None:
        """Numbers of the classes that take part, None for all.

        Args:
            labels: [B] of the batch.
            counts: [C] of the client.
        """
        if self.classes == "all":
            return None
        chosen: Tensor = labels.unique() if self.classes == "batch" else counts.nonzero()[:, 0]
        return chosen

    def pull(
        self, prototypes: Tensor, target: Tensor, chosen: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The value, a scalar, and the direction [C, D] to be descended.

        Args:
            prototypes: [C, D].
            target: [C, D].
            chosen: numbers of the classes that take part, None for all.
        """
        p = prototypes.detach()
        if chosen is None:
            return self._pull(p, target)
        value, part = self._pull(p[chosen], target[chosen])
        return value, torch.zeros_like(p).index_copy_(0, chosen, part)

    def _pull(self, p: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if self.form == "cosine":
            p_unit, t_unit = F.normalize(p, dim=1), F.normalize(target, dim=1)
            cosine = (p_unit * t_unit).sum(1, keepdim=True)
            return 1 - cosine.mean(), (cosine * p_unit - t_unit) / len(p)
        gap = p - target
        if self.form == "mse":
            return gap.square().mean(), gap * (2 / gap.numel())
        length = target.norm(dim=1, keepdim=True)
        return (gap / length).square().sum(1).mean() / 2, gap / (length * len(p))

    def of_features(self, features: Tensor, labels: Tensor, target: Tensor) -> Tensor:
        """Distance of unit features [N, D] from their classes' targets, a scalar with gradient."""
        goal = target[labels]
        if self.form == "cosine":
            return (1 - F.cosine_similarity(features, goal, dim=1)).mean()
        if self.form == "mse":
            return F.mse_loss(features, goal)
        return ((features - goal).square().sum(1) / goal.square().sum(1)).mean() / 2
