"""Fixed feature maps: what a closed-form method sees of a sample.

    inputs → pixels, or a fixed network's features → unit length → random features → 1 appended

With `layers`, pooled maps of the network's stages stand beside its features. Nothing is trained and
nothing depends on the batch: a map is a function of one sample. Random maps are functions of the
run's seed, so no matrix travels. A network that is not frozen is drawn by the server and sent once.

Networks compute in float32, where rounding depends on the size of the batch; they are therefore
always given batches of one size, the last one filled up, which makes a sample's features the same
in every bit at whichever client it lies. Everything after the network is float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from fedcord.algorithms.analytic.stats import feature_tag
from fedcord.algorithms.kit.encoder import encoder_tensors, held_encoder
from fedcord.algorithms.kit.seen_layers import SeenLayers
from fedcord.core.contract import Env, Review
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.rng import derive_seed
from fedcord.core.task import Network, Task
from fedcord.core.tensors import Tensors, hash_tensors, prefixed, select

MODEL = "model"
FIRST = 0
"""A client; all have the one network that sums are made through."""
NETWORK_BATCH = 64
"""Samples a network sees at once, always."""


@dataclass(frozen=True)
class FeatureMap:
    """A fixed map from a sample to the features that are summed."""

    source: str = param(
        "auto",
        "what features are made from; auto: the network if it is frozen or reads text, else pixels",
        choices=("auto", "pixels", "model"),
    )
    expansion: str = param(
        "relu",
        "random features on top: relu, tanh (DeepAFL's), rff (Gaussian kernel), or none",
        choices=("relu", "tanh", "rff", "none"),
    )
    width: int = param(512, "number of random features", at_least=1)
    bandwidth: float = param(1.0, "length scale of the Gaussian kernel (rff)", above=0)
    unit: bool = param(True, "scale every source vector to length 1 first")
    bias: bool = param(True, "append a constant 1")
    batch_size: int = param(1024, "samples held as features at once; no effect on results", above=0)
    layers: SeenLayers = param(
        SeenLayers(), "what is seen of the network beside its features", unwritten=True
    )
    networks: int = param(
        1,
        "networks drawn independently whose features stand side by side; 1 if they are frozen",
        at_least=1,
        unwritten=True,
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def looks_through_network(self) -> bool:
        """Whether a frozen network's features would be all that is seen of the inputs."""
        return self.source != "pixels" and not self.layers.is_on

    def review(self, task: Task) -> Review:
        """Whether there is a network to look through, if one is needed, and the same at all."""
        if self._source(task) != "model":
            return Review(errors=tuple(self._without_network()))
        errors = []
        if len(task.networks) > 1:
            errors.append(
                "features.source = 'model': clients have different networks, but sums need one "
                "feature map; use one model, or features.source=pixels."
            )
        elif self.networks > 1 and _is_frozen(task):
            errors.append(
                f"features.networks = {self.networks}: the network is frozen, so that all would "
                "be the same; leave it at 1."
            )
        return Review(tuple(errors), self.layers.unseen(task, "features.layers"))

    def shared(self, env: Env) -> dict[str, Tensor]:
        """What clients must be sent to compute features: a drawn network, or nothing."""
        if self._source(env.task) != "model":
            return {}
        first = env.task.initial_network(env.generator("init"))
        drawn = prefixed(MODEL, encoder_tensors(first))
        for number in range(1, self.networks):
            further = env.task.initial_network(env.generator(f"init/{number}"))
            drawn |= prefixed(_place(number), encoder_tensors(further))
        return drawn

    def num_features(self, task: Task) -> int:
        """D, the bias included."""
        width = self._source_width(task) if self.expansion == "none" else self.width
        return width + self.bias

    def tag(self, shared: Tensors, env: Env) -> int:
        """A number that differs between any two maps that differ."""
        task = env.task
        parts: list[object] = [self._source(task), self.expansion, self.unit, self.bias]
        if self.expansion != "none":
            parts += [self.width, env.seed]
        if self.expansion == "rff":
            parts.append(self.bandwidth)
        parts += [task.input_shape, task.prepare if hasattr(task.prepare, "kind") else ""]
        if self._source(task) == "model":
            factory = task.networks[0]
            parts += [getattr(factory, "name", ""), getattr(factory, "options", "")]
            places = [_place(number) for number in range(self.networks)]
            parts += [hash_tensors(select(shared, place)) for place in places]
        if self.layers.is_on:
            parts.append(self.layers)
        return feature_tag("|".join(map(str, parts)))

    def mapping(self, shared: Tensors, env: Env) -> Callable[[Tensor], Tensor]:
        """What makes features [B, D] float64 of prepared inputs [B, ...].

        Args:
            shared: what the server sent.
            env: any place of the run; the map is the same everywhere.
        """
        task = env.task
        see: Callable[[Tensor], Tensor] = partial(torch.flatten, start_dim=1)
        if self._source(task) == "model":
            see = self._seen(shared, task)
        expand = self._expansion(task, env.seed)

        def features(inputs: Tensor) -> Tensor:
            x = see(inputs).cpu().to(torch.float64)
            if self.unit:
                x = x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)
            x = expand(x)
            return torch.cat([x, x.new_ones(x.shape[0], 1)], dim=1) if self.bias else x

        return features

    def batches(self, data: Examples, shared: Tensors, env: Env) -> Iterator[tuple[Tensor, Tensor]]:
        """A client's samples as (features [B, D], labels [B])."""
        features = self.mapping(shared, env)
        for start in range(0, len(data), self.batch_size):
            part = slice(start, start + self.batch_size)
            inputs = env.task.prepare(data.inputs[part]).to(env.task.device)
            yield features(inputs), data.labels[part]

    def all(self, data: Examples, shared: Tensors, env: Env) -> Tensor:
        """All samples' features [N, D]."""
        parts = [features for features, _ in self.batches(data, shared, env)]
        empty = torch.zeros(0, self.num_features(env.task), dtype=torch.float64)
        return torch.cat([empty, *parts])

    def _seen(self, shared: Tensors, task: Task) -> Callable[[Tensor], Tensor]:
        """What makes [B, D] float64 of prepared inputs: all networks' answers side by side."""
        width = sum(self.layers.pieces(task, FIRST).values())
        ask = self.layers.outputs(task, FIRST)
        held = [held_encoder(task, select(shared, _place(n))) for n in range(self.networks)]
        asked = [partial(in_full_batches, partial(ask, network), width) for network in held]
        return lambda inputs: torch.cat([see(inputs) for see in asked], 1)

    def _without_network(self) -> Iterator[str]:
        """What was asked of a network that is not looked through."""
        if self.layers.is_on:
            yield (
                f"features.layers.maps = '{self.layers.maps}': pixels have no stages; use "
                "features.source=model, or features.layers.maps=none."
            )
        if self.networks > 1:
            yield (
                f"features.networks = {self.networks}: features are made from pixels; use "
                "features.source=model, or features.networks=1."
            )

    def _expansion(self, task: Task, seed: int) -> Callable[[Tensor], Tensor]:
        if self.expansion == "none":
            return lambda x: x
        size = self._source_width(task), self.width
        return random_features(self.expansion, size, self.bandwidth, seed)

    def _source(self, task: Task) -> str:
        if self.source != "auto":
            return self.source
        reads_text = not task.prepare(torch.zeros(1, *task.input_shape)).is_floating_point()
        return "model" if reads_text or _is_frozen(task) else "pixels"

    def _source_width(self, task: Task) -> int:
        if self._source(task) == "model":
            return self.networks * sum(self.layers.pieces(task, FIRST).values())
        return math.prod(task.input_shape)


def random_features(
    kind: str, size: tuple[int, int], bandwidth: float, seed: int
) -> Callable[[Tensor], Tensor]:
    """[B, I] to [B, W] by `random_map`, for (I, W) = `size`.

    relu(xA + b), tanh(xA + b), or √(2/W) cos(xA/bandwidth + b) for rff.
    """
    matrix, offset = random_map(seed, kind, *size)
    if kind == "relu":
        return lambda x: torch.relu(x @ matrix + offset)
    if kind == "tanh":
        return lambda x: torch.tanh(x @ matrix + offset)
    scale = math.sqrt(2 / size[1])
    return lambda x: scale * torch.cos(x @ matrix / bandwidth + offset)


@lru_cache(maxsize=4)
def random_map(seed: int, kind: str, num_inputs: int, width: int) -> tuple[Tensor, Tensor]:
    """Matrix [I, W] and offset [W] of random features, the same in every process; do not change.

    For unit-length inputs: `relu` draws directions from N(0, I) and offsets from U(−½, ½), `rff`
    frequencies from N(0, I) and phases from U(0, 2π). For inputs whose entries are of order one:
    `tanh` draws both from U(−1/√I, 1/√I), as DeepAFL's released code does.
    """
    seed_ = derive_seed(seed, f"random-features/{kind}/{num_inputs}/{width}")
    generator = np.random.Generator(np.random.Philox(seed_))  # counter-based
    if kind == "tanh":
        limit = 1 / math.sqrt(num_inputs)
        layer = generator.uniform(-limit, limit, (num_inputs + 1, width))
        return torch.from_numpy(layer[:-1]), torch.from_numpy(layer[-1])
    matrix = generator.standard_normal((num_inputs, width))
    offset = generator.random(width)
    offset = offset - 0.5 if kind == "relu" else 2 * math.pi * offset
    return torch.from_numpy(matrix), torch.from_numpy(offset)


def network_features(network: nn.Module | Network, inputs: Tensor) -> Tensor:
    """Prepared inputs [B, ...] to [B, D] float64 on the CPU, with the same bits in any company."""
    known = cast(Network, network)
    return in_full_batches(known.features, known.feature_dim, inputs)


def in_full_batches(ask: Callable[[Tensor], Tensor], width: int, inputs: Tensor) -> Tensor:
    """What a network answers, [B, `width`] float64 on the CPU, with the same bits in any company.

    An exported graph takes batches of any size as they come, at the price of the last bits.
    """
    if torch.compiler.is_exporting():
        return ask(inputs).to(torch.float64)
    outputs = []
    with torch.inference_mode():
        for part in inputs.split(NETWORK_BATCH):
            filling = part.new_zeros(NETWORK_BATCH - len(part), *part.shape[1:])
            answer = ask(torch.cat([part, filling]))
            outputs.append(answer[: len(part)].cpu().to(torch.float64))
    # outside inference mode, so that the result can be used anywhere
    return torch.cat([torch.zeros(0, width, dtype=torch.float64), *outputs])


def _place(number: int) -> str:
    """The prefix of a network's tensors."""
    return MODEL if number == 0 else f"{MODEL}-{number}"


def _is_frozen(task: Task) -> bool:
    return not encoder_tensors(task.scratch_network())
