"""A small model that joins the scores of several models into one decision.

weights   one number per model: Σ_m w_m s_m                     starts as the mean
linear    a matrix on all scores side by side, and a bias       starts as the mean
mlp       one hidden layer on all scores side by side           starts drawn
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from fedcord.algorithms.kit.descent import linear_start
from fedcord.core.task import load_into, tensors_of
from fedcord.core.tensors import Tensors

KINDS = ("weights", "linear", "mlp")


class ScoreAggregator(nn.Module):
    """Scores [B, M·C] of M models, model by model, to scores [B, C].

    Args:
        kind: one of `KINDS`.
        num_models: M.
        num_classes: C.
        hidden: hidden units per model, of `mlp`.
    """

    def __init__(self, kind: str, num_models: int, num_classes: int, hidden: int) -> None:
        super().__init__()
        self.kind, self.num_models, self.num_classes = kind, num_models, num_classes
        width = num_models * num_classes
        if kind == "weights":
            self.weight = nn.Parameter(torch.full((num_models,), 1 / num_models))
            return
        if kind == "mlp":
            self.hidden = nn.utils.skip_init(nn.Linear, width, num_models * hidden)
            width = num_models * hidden
        self.out = nn.utils.skip_init(nn.Linear, width, num_classes)

    def start(self, generator: Generator) -> dict[str, Tensor]:
        """First weights; only `mlp` draws."""
        with torch.no_grad():
            if self.kind == "linear":
                self.out.weight.copy_(torch.eye(self.num_classes).repeat(1, self.num_models))
                self.out.weight /= self.num_models
                self.out.bias.zero_()
            elif self.kind == "mlp":
                for layer in (self.hidden, self.out):
                    size = layer.out_features, layer.in_features
                    weight, bias = linear_start(*size, generator)
                    layer.weight.copy_(weight)
                    layer.bias.copy_(bias)
        return self.tensors()

    def tensors(self) -> dict[str, Tensor]:
        """Copies of the weights."""
        return tensors_of(self)

    def holding(self, tensors: Tensors) -> ScoreAggregator:
        """Itself, with these weights."""
        load_into(self, tensors)
        return self

    def forward(self, scores: Tensor) -> Tensor:
        """[B, M·C] to [B, C]."""
        if self.kind == "weights":
            by_model = scores.view(len(scores), self.num_models, self.num_classes)
            joined: Tensor = (by_model * self.weight[:, None]).sum(dim=1)
            return joined
        hidden = torch.relu(self.hidden(scores)) if self.kind == "mlp" else scores
        out: Tensor = self.out(hidden)
        return out
