"""What a client tells the server about each of its classes, with the model it received.

All numbers come from the network in evaluation mode and closed forms; there is no backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fedcord.algorithms.hyperprototype.one_of_six import one_of_six
from fedcord.algorithms.kit.linear_head import Head
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param

BATCH = 256
"""Examples per forward pass."""


@dataclass(frozen=True)
class ClassSignal:
    """Rows of zeros stand for classes the client lacks.

    Attributes:
        present: [C] bool, which classes the client holds.
        gradient: [C, D] mean gradient of the cross-entropy by the feature.
        prototype: [C, D] mean feature.
        head_weight: [C, C, D] gradient of the mean cross-entropy by the classifier's weight, where
            it was asked for.
        head_bias: [C, C] likewise by its bias.
    """

    present: Tensor
    gradient: Tensor
    prototype: Tensor
    head_weight: Tensor | None = None
    head_bias: Tensor | None = None


@dataclass(frozen=True)
class Extraction:
    """How a client draws the examples behind its signal."""

    examples: int = param(100, "examples drawn per class (code: batch_real)", at_least=1)
    repeats: int = param(1, "draws to average (code: repeat_num)", at_least=1)
    augment: bool = param(True, "one of six random changes per draw; images only")
    scale: str = param(
        "per_sample",
        "mean gradient, or divided once more by the number drawn as in the code",
        choices=("per_sample", "reference"),
    )

    def __post_init__(self) -> None:
        check_params(self)

    def extract(
        self, network: nn.Module, head: Head, held: Examples, env: Env, with_head: bool
    ) -> ClassSignal:
        """The signal of every class in `held`.

        Args:
            network: as received, in evaluation mode.
            head: its classifier.
            held: the client's training part.
            env: the client's place.
            with_head: whether the classifier's gradients are wanted, which are C times as large.
        """
        classes, dim = head.weight.shape
        signal = ClassSignal(
            torch.zeros(classes, dtype=torch.bool),
            torch.zeros(classes, dim),
            torch.zeros(classes, dim),
            torch.zeros(classes, classes, dim) if with_head else None,
            torch.zeros(classes, classes) if with_head else None,
        )
        pick, change = env.generator("signal-examples"), env.generator("signal-augment")
        for label in held.labels.unique().tolist():
            signal.present[label] = True
            own = (held.labels == label).nonzero()[:, 0]
            for _ in range(self.repeats):
                drawn = own[torch.randperm(len(own), generator=pick)[: self.examples]]
                z = self._features(network, held.inputs[drawn], change, env)
                residual = head.residuals(z, torch.full((len(z),), label))  # [n, C]
                mean = residual.mean(0)
                gradient = mean @ head.weight
                if self.scale == "reference":
                    gradient = gradient / len(z)
                signal.gradient[label] += gradient / self.repeats
                signal.prototype[label] += z.mean(0) / self.repeats
                if signal.head_weight is not None and signal.head_bias is not None:
                    signal.head_weight[label] += residual.T @ z / (len(z) * self.repeats)
                    signal.head_bias[label] += mean / self.repeats
        return signal

    def _features(
        self, network: nn.Module, stored: Tensor, generator: Generator, env: Env
    ) -> Tensor:
        inputs = env.task.prepare(stored)
        if self.augment and inputs.dim() == 4:
            inputs = one_of_six(inputs, generator)
        with torch.no_grad():
            parts = [features_of(network, part.to(env.task.device)) for part in inputs.split(BATCH)]
        return torch.cat(parts).cpu()
