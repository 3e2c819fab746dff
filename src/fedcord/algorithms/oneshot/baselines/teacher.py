"""Several clients' models as one teacher whose scores can be differentiated by its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.ensemble import is_linear_only
from fedcord.core.contract import ClientId, Env
from fedcord.core.tensors import Tensors


class Teacher:
    """The clients' models with fixed weights; gradients reach inputs and ensemble weights only."""

    def __init__(self, models: Mapping[ClientId, Tensors], env: Env) -> None:
        self._task = env.task
        self._models = {
            client: {n: _laid_out(t).to(env.task.device) for n, t in model.items()}
            for client, model in models.items()
        }
        one = env.task.scratch_network(next(iter(models)))
        self._stacked: dict[str, Tensor] | None = None
        if len(env.task.networks) == 1 and is_linear_only(one):
            stacked = {
                name: torch.stack([model[name] for model in models.values()])
                for name in next(iter(models.values()))
            }
            self._stacked = {name: tensor.to(env.task.device) for name, tensor in stacked.items()}

    @property
    def num_members(self) -> int:
        """K."""
        return len(self._models)

    def mean_scores(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Σ w_k f_k(x) [B, C] with weights w [K] whose sum is 1."""
        return torch.einsum("k,kbc->bc", weights, self.member_scores(inputs))

    def member_scores(self, inputs: Tensor) -> Tensor:
        """[K, B, C] of prepared inputs [B, ...]."""
        return self.scores_and_statistics_gap(inputs, measure=False)[0]

    def scores_and_statistics_gap(
        self, inputs: Tensor, measure: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Scores [K, B, C], and how far the batch is from what batch normalisation remembers.

        The gap is the mean over members of Σ_layers ‖μ(x) − μ‖ + ‖σ²(x) − σ²‖, 0 for networks
        without batch normalisation or when it is not measured.
        """
        if self._stacked is not None:
            network = self._task.scratch_network(next(iter(self._models))).eval()

            def one(tensors: dict[str, Tensor]) -> Tensor:
                return _called(network, tensors, inputs)

            return torch.func.vmap(one)(self._stacked), inputs.new_zeros(())
        scores, gaps = [], [inputs.new_zeros(())]
        for client, tensors in self._models.items():
            network = self._task.scratch_network(client).eval()
            layers = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d) and measure]
            hooks = [layer.register_forward_hook(_measure(gaps)) for layer in layers]
            try:
                scores.append(_called(network, tensors, inputs))
            finally:
                for hook in hooks:
                    hook.remove()
        return torch.stack(scores), torch.stack(gaps).sum() / self.num_members


def statistics_gap(maps: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """‖μ(x) − μ‖ + ‖σ²(x) − σ²‖ of maps [B, C, H, W] and remembered [C] values."""
    found, spread = maps.mean((0, 2, 3)), maps.var((0, 2, 3), unbiased=False)
    gap: Tensor = (found - mean).norm() + (spread - variance).norm()
    return gap


def _measure(gaps: list[Tensor]) -> Callable[..., None]:
    def hook(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.BatchNorm2d)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        gaps.append(statistics_gap(inputs[0], layer.running_mean, layer.running_var))

    return hook


def _called(network: nn.Module, tensors: Tensors, inputs: Tensor) -> Tensor:
    scores: Tensor = torch.func.functional_call(network, dict(tensors), (inputs,))
    return scores


def _laid_out(tensor: Tensor) -> Tensor:
    """Convolution weights with channels innermost, as the library's networks keep them."""
    if tensor.ndim == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor
