"""What the head sees of a sample: several encoders' features side by side.

    inputs → every encoder's block → unit length each → joined → narrowed or expanded → 1 added

A block is an encoder's features and, with `layers`, pooled maps of the stages under them. Encoders
may have different architectures: they are only ever asked for these. A public encoder, which
everybody has, can be one more behind those of the clients; it shows its features only. Each block
has length 1/√(number of blocks), so that a joined vector has length 1 whatever their number, unless
`scaling` leaves them as they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedcord.algorithms.analytic.features import (
    in_full_batches,
    network_features,
    random_features,
    random_map,
)
from fedcord.algorithms.analytic.stats import feature_tag
from fedcord.algorithms.kit.encoder import held_encoder
from fedcord.algorithms.kit.seen_layers import SeenLayers
from fedcord.core.contract import ClientId, Env, Review
from fedcord.core.errors import ConfigError
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, hash_tensors, prefixed, select
from fedcord.ops.number_format import grow

CHOSEN, ENCODER = "chosen", "encoder"
BATCH = 1024
"""Samples held as features at once; no effect on results."""


@dataclass(frozen=True)
class JointFeatures:
    """How the chosen encoders' features become one vector."""

    combine: str = param(
        "concat", "features side by side, or their mean", choices=("concat", "mean")
    )
    public: str = param(
        "",
        "frozen encoder that everybody has, one more block that never travels: what may follow "
        "frozen: in --model, such as efficientnet-lite0,size=96; empty: none",
    )
    layers: SeenLayers = param(
        SeenLayers(), "what the head sees of encoders beside their features", unwritten=True
    )
    scaling: str = param(
        "unit",
        "length of a sample's features: every encoder's block alike, every piece of it (features, "
        "pooled map) alike too, or as they come",
        choices=("unit", "piecewise", "none"),
        unwritten=True,
    )
    projection: int = param(
        0, "narrow the joined features to this width by a random matrix; 0: do not", at_least=0
    )
    expansion: str = param(
        "none",
        "random features on top: relu, rff (Gaussian kernel)",
        choices=("none", "relu", "rff"),
    )
    width: int = param(2048, "number of random features", at_least=1)
    bandwidth: float = param(1.0, "length scale of the Gaussian kernel (rff)", above=0)
    width_limit: int = param(
        6000, "widest head allowed; its Gram matrix takes 8 x width² bytes", at_least=1
    )

    def __post_init__(self) -> None:
        check_params(self)
        problems = []
        if self.projection and self.expansion != "none":
            problems.append(
                "projection and expansion: random features already set the width; choose one."
            )
        if self.public and self.combine == "mean":
            problems.append(
                f"public = {self.public!r} and combine = 'mean': a public encoder has a width of "
                "its own; use combine=concat."
            )
        if problems:
            raise ConfigError(problems)

    @property
    def keeps_blocks(self) -> bool:
        """Whether every encoder has columns of its own in the joined vector."""
        return self.combine == "concat" and not self.projection and self.expansion == "none"

    @property
    def is_bounded(self) -> bool:
        """Whether the head gets no wider than `width_limit` by more encoders."""
        narrowed = 0 < self.projection <= self.width_limit
        return self.combine == "mean" or narrowed or self.expansion != "none"

    def num_blocks(self, chosen: list[ClientId]) -> int:
        """Blocks side by side: the chosen clients' and the public one."""
        return len(chosen) + bool(self.public)

    def review(self, task: Task) -> Review:
        """What does not fit the task's networks, whichever clients are chosen."""
        try:
            self.public_width(task)
        except ConfigError as error:
            found = (f"joint.public = {self.public!r}: {why}" for why in error.problems)
            return Review(tuple(found))
        places = range(len(task.networks))
        widths = sorted({self.block_width(task, client) for client in places})
        if self.combine == "mean" and len(widths) > 1:
            differing = (
                f"joint.combine = 'mean' needs encoders of one width, but the networks have "
                f"{', '.join(map(str, widths))}; use --set joint.combine=concat."
            )
            return Review(errors=(differing,))
        problem = self.too_wide(1, task)
        return Review() if problem is None else Review(errors=(problem,))

    def unseen(self, task: Task) -> tuple[str, ...]:
        """What to say of networks that show nothing but their features."""
        return self.layers.unseen(task, "joint.layers")

    def too_wide(self, num_encoders: int, task: Task) -> str | None:
        """Why a head on so many encoders would not fit, however narrow; None when it does."""
        times = num_encoders if self.combine == "concat" else 1
        public = self.public_width(task)
        narrowest = min(
            (self.layers.pieces(task, client) for client in range(len(task.networks))),
            key=lambda pieces: sum(pieces.values()),
        )
        block = sum(narrowest.values())
        width = self._head_width(times * block + public)
        if width <= self.width_limit:
            return None
        memory = 8 * width * width / 2**20
        beside = f" and the public one of width {public}" if public else ""
        pieces, fewer = "", ""
        if self.layers.is_on:
            pieces = f" ({', '.join(f'{name} {size}' for name, size in narrowest.items())})"
            fewer = "joint.layers.maps=last, a smaller joint.layers.grid, "
        return (
            f"{num_encoders} encoder(s) of width {block}{pieces}{beside} make a head of {width} "
            f"features, above joint.width_limit = {self.width_limit} (a Gram matrix of "
            f"{memory:.0f} MiB); set joint.projection={self.width_limit}, {fewer}fewer encoders "
            "(selection.max_encoders), or a higher joint.width_limit."
        )

    def block_width(self, task: Task, client: ClientId) -> int:
        """Columns of a client's encoder: its features and the pooled maps that are seen."""
        return sum(self.layers.pieces(task, client).values())

    def block_columns(self, chosen: list[ClientId], task: Task, client: ClientId) -> slice:
        """Where a chosen encoder's block is in the joined vector."""
        before = chosen[: chosen.index(client)]
        start = sum(self.block_width(task, other) for other in before)
        return slice(start, start + self.block_width(task, client))

    def columns_of(self, task: Task, client: ClientId) -> int:
        """Columns that one more encoder adds to the head."""
        return 0 if self.is_bounded else self.block_width(task, client)

    def columns_left(self, task: Task) -> int:
        """Columns of the head that clients' encoders may fill."""
        return self.width_limit - (0 if self.is_bounded else self.public_width(task))

    def num_features(self, chosen: list[ClientId], task: Task) -> int:
        """Width of the joined vector, the constant included."""
        return self._head_width(self._joined_width(chosen, task)) + 1

    def tag(self, shared: Tensors, env: Env) -> int:
        """A number that differs between any two maps that differ."""
        task = env.task
        parts: list[object] = [self.combine, self.projection, self.expansion]
        if self.projection or self.expansion != "none":
            parts += [env.seed, self.width, self.bandwidth]
        parts += [task.input_shape, task.prepare if hasattr(task.prepare, "kind") else ""]
        if self.public:
            parts += [self.public, task.fixed_network(self.public).fingerprint]
        if self.layers.is_on:
            parts.append(self.layers)
        if self.scaling != "unit":
            parts.append(self.scaling)
        parts.append(
            hash_tensors({CHOSEN: shared[CHOSEN], **prefixed(ENCODER, select(shared, ENCODER))})
        )
        return feature_tag("|".join(map(str, parts)))

    def blocks(self, shared: Tensors, env: Env) -> Callable[[Tensor], list[Tensor]]:
        """What makes blocks [B, D] float64 of prepared inputs, one of each encoder.

        Those of the chosen clients' encoders in their order, then that of the public one. Unless
        `scaling` is none they are all of one length, and a vector of all of them has length 1.
        """
        task, chosen = env.task, chosen_clients(shared)
        asked: list[tuple[Callable[[Tensor], Tensor], list[int]]] = []
        for client in chosen:
            widths = list(self.layers.pieces(task, client).values())
            network = held_encoder(task, received_encoder(shared, client), client)
            ask = partial(self.layers.outputs(task, client), network)
            asked.append((partial(in_full_batches, ask, sum(widths)), widths))
        if self.public:
            fixed = task.fixed_network(self.public)
            asked.append((partial(network_features, fixed), [fixed.feature_dim]))
        return lambda inputs: [
            self.scaled(see(inputs), widths, len(asked), _shortened) for see, widths in asked
        ]

    def scaled(
        self,
        block: Tensor,
        widths: Sequence[int],
        num_blocks: int,
        shortened: Callable[[Tensor, float], Tensor],
    ) -> Tensor:
        """A block [B, D] as it is joined to the others.

        Args:
            block: as the encoder gives it.
            widths: of its pieces.
            num_blocks: of the joined vector.
            shortened: makes rows [B, D] of length 1/r, of rows and r.
        """
        if self.scaling == "none":
            return block
        pieces = block.split(list(widths), 1) if self.scaling == "piecewise" else (block,)
        root = math.sqrt(num_blocks * len(pieces))
        return torch.cat([shortened(piece, root) for piece in pieces], 1)

    def growth(self, num_blocks: int) -> float:
        """What remains is multiplied by when one of so many blocks is taken out."""
        return 1.0 if self.scaling == "none" else math.sqrt(num_blocks / (num_blocks - 1))

    def mapping(self, shared: Tensors, env: Env) -> Callable[[Tensor], Tensor]:
        """What makes joint features [B, D] float64 of prepared inputs [B, ...]."""
        blocks = self.blocks(shared, env)
        reshaped = self._reshaping(self._joined_width(chosen_clients(shared), env.task), env.seed)

        def features(inputs: Tensor) -> Tensor:
            found = blocks(inputs)
            if self.combine == "concat":
                x = torch.cat(found, dim=1)
            else:
                # blocks that are scaled have 1/√M in them already
                times = len(found) if self.scaling == "none" else math.sqrt(len(found))
                x = torch.stack(found).sum(0) / times
            return torch.cat([reshaped(x), x.new_ones(x.shape[0], 1)], dim=1)

        return features

    def batches(self, data: Examples, shared: Tensors, env: Env) -> Iterator[tuple[Tensor, Tensor]]:
        """A client's samples as (features [B, D], labels [B])."""
        features = self.mapping(shared, env)
        for start in range(0, len(data), BATCH):
            part = slice(start, start + BATCH)
            inputs = env.task.prepare(data.inputs[part]).to(env.task.device)
            yield features(inputs), data.labels[part]

    def public_width(self, task: Task) -> int:
        """Columns of the public encoder; 0 without one."""
        return task.fixed_network(self.public).feature_dim if self.public else 0

    def _joined_width(self, chosen: list[ClientId], task: Task) -> int:
        widths = [self.block_width(task, client) for client in chosen]
        joined = sum(widths) if self.combine == "concat" else widths[0]
        return joined + self.public_width(task)

    def _head_width(self, joined: int) -> int:
        """Features of the head but the constant, from the width of what is joined."""
        if self.expansion != "none":
            return self.width
        return min(self.projection, joined) if self.projection else joined

    def _reshaping(self, joined: int, seed: int) -> Callable[[Tensor], Tensor]:
        """What narrows or expands joined features [B, `joined`]."""
        if self.expansion != "none":
            return random_features(self.expansion, (joined, self.width), self.bandwidth, seed)
        if not 0 < self.projection < joined:
            return lambda x: x
        matrix, _ = random_map(seed, "projection", joined, self.projection)
        root = math.sqrt(self.projection)
        return lambda x: x @ matrix / root


def _shortened(features: Tensor, root: float) -> Tensor:
    """Rows [B, D] of length 1/root."""
    x = features.cpu()
    length: Tensor = x.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return x / (length * root)


def chosen_clients(shared: Tensors) -> list[ClientId]:
    """Whose encoders are used, ascending."""
    clients: list[ClientId] = shared[CHOSEN].tolist()
    return clients


def received_encoder(shared: Tensors, client: ClientId) -> dict[str, Tensor]:
    """One chosen client's encoder, ready to be used."""
    return grow(select(shared, f"{ENCODER}.{client}"))


def packed_encoders(models: Mapping[ClientId, Tensors]) -> dict[str, Tensor]:
    """Encoders as they are handed on; `received_encoder` unpacks one."""
    return {
        name: tensor
        for client, model in models.items()
        for name, tensor in prefixed(f"{ENCODER}.{client}", model).items()
    }
