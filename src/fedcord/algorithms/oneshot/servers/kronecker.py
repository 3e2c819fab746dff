"""What a client adds to its upload for `lpa`: Kronecker factors of the curvature of each layer.

For a layer with weights M [out, in] (bias as a last column), inputs a and gradients g with respect
to its outputs, the factors are A = E[a aᵀ] and B = E[g gᵀ]. A convolution is a linear layer on
every patch: A is the mean over patches, B the sum over the patches of an image, averaged over
images, so that A ⊗ B has the scale of the Fisher matrix under the usual independence assumptions.
The prototypes are a layer without bias on normalised features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from fedcord.core.tensors import TensorSpec

PROTOTYPES = "prototypes"
Layer = nn.Linear | nn.Conv2d


def factored_layers(network: nn.Module) -> dict[str, Layer]:
    """Trained linear layers and ordinary convolutions of the encoder, by name.

    Depthwise and grouped convolutions have no such factors and are averaged instead.
    """
    head = head_prefix(network)
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, (nn.Linear, nn.Conv2d))
        and not (name + ".").startswith(head)
        and module.weight.requires_grad
        and (isinstance(module, nn.Linear) or _is_plain(module))
    }


def factor_spec(network: nn.Module, num_classes: int) -> dict[str, TensorSpec]:
    """Names, shapes and types of what `kronecker_factors` gives."""
    sizes = {n: (_num_inputs(m), m.weight.shape[0]) for n, m in factored_layers(network).items()}
    sizes[PROTOTYPES] = (int(network.feature_dim), num_classes)  # type: ignore[arg-type]
    out: dict[str, TensorSpec] = {}
    for name, (inputs, outputs) in sizes.items():
        out[f"{name}.inputs"] = TensorSpec((inputs, inputs), torch.float32)
        out[f"{name}.outputs"] = TensorSpec((outputs, outputs), torch.float32)
    return out


def kronecker_factors(
    network: nn.Module, prototypes: Tensor, examples: Examples, env: Env, batch_size: int
) -> dict[str, Tensor]:
    """`<layer>.inputs` A [in, in] and `<layer>.outputs` B [out, out] in one pass over the data.

    Gradients are those of the cross-entropy of z Pᵀ with the true labels, example by example, with
    running batch-norm statistics.

    Args:
        network: the trained encoder; left in evaluation mode.
        prototypes: [C, D].
        examples: the client's training part.
        env: the client's place.
        batch_size: examples at once; bounds memory, changes nothing else.
    """
    layers = factored_layers(network.eval())
    spec = factor_spec(network, prototypes.shape[0])
    sums = {name: torch.zeros(s.shape, dtype=torch.float64) for name, s in spec.items()}
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    hooks = [layer.register_forward_hook(noting(seen, name)) for name, layer in layers.items()]
    try:
        for start in range(0, len(examples), batch_size):
            chosen = slice(start, start + batch_size)
            inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
            labels = examples.labels[chosen].to(env.task.device)
            with torch.enable_grad():
                z = F.normalize(network.features(inputs), dim=1)  # type: ignore[operator]
                scores = z @ prototypes.T
                loss = F.cross_entropy(scores, labels, reduction="sum")
                outputs = [seen[name][1] for name in layers]
                gradients = torch.autograd.grad(loss, outputs) if outputs else ()
            for (name, layer), gradient in zip(layers.items(), gradients, strict=True):
                a, g = _rows(layer, seen[name][0], gradient)
                sums[f"{name}.inputs"] += (a.T @ a).cpu().double() * (len(labels) / max(len(a), 1))
                sums[f"{name}.outputs"] += (g.T @ g).cpu().double()
            error = scores.detach().softmax(1) - F.one_hot(labels, len(prototypes))
            sums[f"{PROTOTYPES}.inputs"] += (z.detach().T @ z.detach()).cpu().double()
            sums[f"{PROTOTYPES}.outputs"] += (error.T @ error).cpu().double()
            seen.clear()
    finally:
        for hook in hooks:
            hook.remove()
    return {name: (total / max(len(examples), 1)).float() for name, total in sums.items()}


def noting(seen: dict[str, tuple[Tensor, Tensor]], name: str) -> Callable[..., None]:
    """A forward hook that writes down a layer's input and output."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        seen[name] = (inputs[0].detach(), output)

    return hook


def layer_matrix(weight: Tensor, bias: Tensor | None) -> Tensor:
    """M [out, in] of a layer, its bias as the last column."""
    matrix = weight.flatten(1)
    return matrix if bias is None else torch.cat([matrix, bias[:, None]], dim=1)


def _rows(layer: Layer, inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [N, in] and output gradients [N, out]; N counts patches for a convolution."""
    if isinstance(layer, nn.Conv2d):
        patches = F.unfold(
            inputs,
            layer.kernel_size,
            dilation=layer.dilation,
            padding=layer.padding,  # type: ignore[arg-type]
            stride=layer.stride,
        )
        inputs, gradients = patches.transpose(1, 2).flatten(0, 1), gradients.flatten(2)
        gradients = gradients.transpose(1, 2).flatten(0, 1)
    if layer.bias is not None:
        inputs = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1)
    return inputs, gradients


def _num_inputs(layer: Layer) -> int:
    return layer.weight[0].numel() + (layer.bias is not None)


def _is_plain(layer: nn.Conv2d) -> bool:
    return layer.groups == 1 and not isinstance(layer.padding, str)
