"""What a client adds to its upload for `fisher`: how sure it is of each of its weights.

    F = mean over examples of Σ_c p_c(x) (∂ log p_c(x) / ∂θ)²

is the diagonal of the Fisher matrix, for p = softmax of z Pᵀ with features z of length one. It
needs the gradients of single examples. They are had layer by layer from a layer's inputs and the
gradients by its outputs, for a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.algorithms.oneshot.servers.kronecker import PROTOTYPES, noting
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.tensors import TensorSpec

Noted = dict[str, tuple[Tensor, Tensor]]
"""A layer's input and output, by its place."""


@dataclass(frozen=True)
class Certainty:
    """How the Fisher information is computed and used."""

    damping: float = param(1e-6, "added to the information on every weight", above=0)
    labels: str = param(
        "all",
        "all classes by their probability, or one drawn for each example, in a C-th of the time",
        choices=("all", "drawn"),
    )
    batch_size: int = param(16, "examples at once; bounds memory", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)


def fisher_spec(network: nn.Module, num_classes: int) -> dict[str, TensorSpec]:
    """Names, shapes and types of what `diagonal_fisher` gives."""
    shapes = {
        f"{path}.{name}": tuple(weight.shape)
        for path, layer in _layers(network).items()
        for name, weight in _weights(layer).items()
    }
    shapes[PROTOTYPES] = (num_classes, int(network.feature_dim))  # type: ignore[arg-type]
    return {name: TensorSpec(shape, torch.float32) for name, shape in shapes.items()}


def diagonal_fisher(
    network: nn.Module, prototypes: Tensor, examples: Examples, env: Env, certainty: Certainty
) -> dict[str, Tensor]:
    """The diagonal of the Fisher matrix by weight, for p = softmax of z Pᵀ, z of length one.

    Args:
        network: the trained encoder; left in evaluation mode.
        prototypes: P [C, D].
        examples: the client's training part.
        env: the client's place.
        certainty: which classes are asked for, and how many examples at once.
    """
    layers = _layers(network.eval())
    spec = fisher_spec(network, prototypes.shape[0])
    sums = {name: torch.zeros(part.shape, dtype=torch.float64) for name, part in spec.items()}
    drawn = env.generator("fisher-labels")
    for start in range(0, len(examples), certainty.batch_size):
        chosen = slice(start, start + certainty.batch_size)
        inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
        features, noted = _noted_features(network, layers, inputs)
        with torch.enable_grad():
            z = F.normalize(features, dim=1)
            log_shares = (z @ prototypes.detach().T).log_softmax(1)
        shares = log_shares.detach().exp()
        for cases, root in _cases(shares, certainty, drawn):
            outputs = [output for _, output in noted.values()]
            total = (log_shares * cases).sum()
            found = torch.autograd.grad(total, outputs, retain_graph=True) if outputs else ()
            for path, gradient in zip(noted, found, strict=True):
                own = example_gradients(layers[path], noted[path][0], gradient)
                for name, rows in own.items():
                    squares = (root * rows.flatten(1)).square().sum(0).cpu().double()
                    sums[f"{path}.{name}"] += squares.view_as(sums[f"{path}.{name}"])
            error = root * (cases - shares)
            sums[PROTOTYPES] += (error.square().T @ z.detach().square()).cpu().double()
    return {name: (total / max(len(examples), 1)).float() for name, total in sums.items()}


def _noted_features(
    network: nn.Module, layers: dict[str, nn.Module], inputs: Tensor
) -> tuple[Tensor, Noted]:
    """Features [B, D] of a batch, and what the layers saw and said."""
    noted: Noted = {}
    hooks = [layer.register_forward_hook(noting(noted, path)) for path, layer in layers.items()]
    try:
        with torch.enable_grad():
            features: Tensor = network.features(inputs)  # type: ignore[operator]
    finally:
        for hook in hooks:
            hook.remove()
    return features, noted


def _cases(
    shares: Tensor, certainty: Certainty, drawn: Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels of a batch as one-hot rows [B, C], and the roots of their weights [B, 1]."""
    one_hot = torch.eye(shares.shape[1], device=shares.device)
    if certainty.labels == "drawn":
        labels = torch.multinomial(shares.cpu(), 1, generator=drawn)[:, 0].to(shares.device)
        yield one_hot[labels], torch.ones_like(shares[:, :1])
        return
    for label, row in enumerate(one_hot):
        yield row.expand_as(shares), shares[:, label, None].sqrt()


def example_gradients(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Tensor]:
    """A layer's gradients example by example, [B, ...] by name.

    Args:
        layer: of one input and one output.
        inputs: [B, ...] of the layer.
        gradients: [B, ...] of the loss by its output.
    """
    weights = _weights(layer)

    def of_one(x: Tensor, gradient: Tensor) -> dict[str, Tensor]:
        def output(own: dict[str, Tensor]) -> Tensor:
            found: Tensor = torch.func.functional_call(layer, own, (x[None],))
            return found

        pull_back = torch.func.vjp(output, weights)[1]
        pulled: dict[str, Tensor] = pull_back(gradient[None])[0]
        return pulled

    if isinstance(layer, nn.EmbeddingBag):  # which cannot be batched
        pairs = zip(inputs, gradients, strict=True)
        each = [of_one(x, gradient) for x, gradient in pairs]
        return {name: torch.stack([one[name] for one in each]) for name in weights}
    rows: dict[str, Tensor] = torch.func.vmap(of_one)(inputs.contiguous(), gradients.contiguous())
    return rows


def _layers(network: nn.Module) -> dict[str, nn.Module]:
    """What has trained weights of its own in the encoder, by its place."""
    head = head_prefix(network)
    return {
        path: module
        for path, module in network.named_modules()
        if _weights(module) and not f"{path}.".startswith(head)
    }


def _weights(layer: nn.Module) -> dict[str, Tensor]:
    """A layer's own trained weights, by name."""
    own = layer.named_parameters(recurse=False)
    return {name: weight.detach() for name, weight in own if weight.requires_grad}
