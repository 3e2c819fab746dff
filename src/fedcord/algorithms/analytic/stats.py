"""What a closed-form method needs to know of data: sums over samples, which form a group.

    G = Σ w x x'      M = Σ w x y'

Sums do not remember who contributed what. That is all there is to invariance under partition,
order and number of clients, to late joining (+) and to forgetting (−).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.tensors import Tensors, TensorSpec, is_finite
from fedcord.ops.gram import GramAccumulator
from fedcord.ops.ridge_selection import residual_sum
from fedcord.ops.symmetric import packed_length, unpack

TAG_BITS = 30
"""Tags stay below 2^30, so that tag × samples is exact for any federation up to 2^33 samples."""


def feature_tag(description: str) -> int:
    """A number for a feature map: backbone, preprocessing, random seed, everything that matters."""
    digest = hashlib.sha256(description.encode()).digest()
    return 1 + int.from_bytes(digest[:4], "little") % ((1 << TAG_BITS) - 1)


@dataclass(frozen=True)
class SufficientStats:
    """Sums over samples; a commutative group under + with `zero` as neutral element.

    Attributes:
        gram: [D(D+1)/2] float64, packed upper triangle of Σ w x x'.
        moment: [D, C] float64, Σ w x y'.
        class_count: [C] int64, samples of each class; they add up to n.
        target_square: [] float64, Σ w ||y||².
        tag_sum: [] int64, tag × n: a checksum that adds up as the sums do, so that even a sum of
            masked messages shows whether everyone used the same features.
    """

    gram: Tensor
    moment: Tensor
    class_count: Tensor
    target_square: Tensor
    tag_sum: Tensor

    @staticmethod
    def zero(num_features: int, num_classes: int) -> SufficientStats:
        """No sample."""
        return SufficientStats(
            torch.zeros(packed_length(num_features), dtype=torch.float64),
            torch.zeros(num_features, num_classes, dtype=torch.float64),
            torch.zeros(num_classes, dtype=torch.int64),
            torch.zeros((), dtype=torch.float64),
            torch.zeros((), dtype=torch.int64),
        )

    def __add__(self, other: SufficientStats) -> SufficientStats:
        """The sums over both; features of different kinds are refused."""
        self._check_same_kind(other)
        return SufficientStats(
            self.gram + other.gram,
            self.moment + other.moment,
            self.class_count + other.class_count,
            self.target_square + other.target_square,
            self.tag_sum + other.tag_sum,
        )

    def __neg__(self) -> SufficientStats:
        return SufficientStats(*(-part for part in self._parts()))

    def __sub__(self, other: SufficientStats) -> SufficientStats:
        """The sums without `other`'s samples, which must be among them."""
        self._check_same_kind(other)
        missing = self.class_count - other.class_count
        if bool((missing < 0).any()):
            worst = int(missing.argmin())
            raise ProtocolError(
                f"{int(other.class_count[worst])} samples of class {worst} cannot be removed from "
                f"{int(self.class_count[worst])}; only what was added can be removed."
            )
        return self + (-other)

    def scale(self, factor: float) -> SufficientStats:
        """The same samples with all weights times `factor`."""
        return SufficientStats(
            self.gram * factor,
            self.moment * factor,
            self.class_count,
            self.target_square * factor,
            self.tag_sum,
        )

    @property
    def num_features(self) -> int:
        """D."""
        return self.moment.shape[0]

    @property
    def count(self) -> int:
        """n, the number of samples."""
        return int(self.class_count.sum())

    @property
    def tag(self) -> int | None:
        """The features' tag; None when there is no sample. Mixed features are refused."""
        if self.count == 0:
            return None
        tag, rest = divmod(int(self.tag_sum), self.count)
        if rest:
            raise ProtocolError(
                "these sums were made of features of different kinds; let every client use the "
                "same encoder, preprocessing and random features."
            )
        return tag

    def gram_matrix(self) -> Tensor:
        """[D, D] symmetric."""
        return unpack(self.gram)

    def residual_sum(self, weight: Tensor) -> float:
        """Σ w ||y − W'x||² of a model [D, C], exactly and without the samples."""
        return residual_sum(self.gram_matrix(), self.moment, float(self.target_square), weight)

    def tensors(self) -> dict[str, Tensor]:
        """Named tensors; the inverse of `from_tensors`."""
        return dict(zip(_NAMES, self._parts(), strict=True))

    @staticmethod
    def from_tensors(tensors: Tensors) -> SufficientStats:
        """From named tensors; sizes that do not belong together are refused."""
        stats = SufficientStats(*(tensors[name] for name in _NAMES))
        expected = packed_length(stats.num_features)
        if stats.gram.shape != (expected,) or stats.class_count.shape != stats.moment.shape[1:]:
            raise ProtocolError(
                f"gram {list(stats.gram.shape)}, moment {list(stats.moment.shape)} and class_count "
                f"{list(stats.class_count.shape)} do not fit; expected [D(D+1)/2], [D, C] and [C]."
            )
        return stats

    @staticmethod
    def spec(num_features: int, num_classes: int) -> Mapping[str, TensorSpec]:
        """Shapes and types of `tensors`."""
        return {
            "gram": TensorSpec((packed_length(num_features),), torch.float64),
            "moment": TensorSpec((num_features, num_classes), torch.float64),
            "class_count": TensorSpec((num_classes,), torch.int64, counts=True),
            "target_square": TensorSpec((), torch.float64, at_least=0.0),
            "tag_sum": TensorSpec((), torch.int64),
        }

    def _parts(self) -> tuple[Tensor, ...]:
        return (self.gram, self.moment, self.class_count, self.target_square, self.tag_sum)

    def _check_same_kind(self, other: SufficientStats) -> None:
        if self.moment.shape != other.moment.shape:
            raise ProtocolError(
                f"statistics of {self.num_features} features and {self.moment.shape[1]} classes "
                f"cannot be joined with {other.num_features} and {other.moment.shape[1]}; use one "
                "feature map and one list of classes."
            )
        tags = self.tag, other.tag
        if None not in tags and tags[0] != tags[1]:
            raise ProtocolError(
                f"statistics of different features (tags {tags[0]} and {tags[1]}) cannot be "
                "joined; let every client use the same encoder, preprocessing and random features."
            )


_NAMES = ("gram", "moment", "class_count", "target_square", "tag_sum")


class StatsAccumulator:
    """Adds samples batch by batch; how they are cut into batches does not matter.

    Args:
        num_features: D.
        num_classes: C.
        tag: from `feature_tag`.
        class_weight: [C] weight of a sample by its class; 1 when not given.
    """

    def __init__(
        self, num_features: int, num_classes: int, tag: int, class_weight: Tensor | None = None
    ) -> None:
        self._gram = GramAccumulator(num_features)
        self._moment = torch.zeros(num_classes, num_features, dtype=torch.float64)
        self._count = torch.zeros(num_classes, dtype=torch.int64)
        self._tag = tag
        ones = torch.ones(num_classes, dtype=torch.float64)
        self._is_weighted = class_weight is not None
        self._weight = ones if class_weight is None else class_weight.to(torch.float64)

    def add(self, features: Tensor, labels: Tensor) -> None:
        """Add samples: features [B, D], labels [B] int64."""
        rows = features.detach().cpu().to(torch.float64)
        labels = labels.cpu()
        if self._is_weighted:
            weight = self._weight[labels][:, None]
            self._gram.add(rows * weight.sqrt())
            rows = rows * weight
        else:
            self._gram.add(rows)
        self._moment.index_add_(0, labels, rows)  # Y is one-hot: no product is needed
        self._count += torch.bincount(labels, minlength=len(self._count))

    def stats(self) -> SufficientStats:
        """The sums so far."""
        out = SufficientStats(
            self._gram.packed(),
            self._moment.T.contiguous(),
            self._count.clone(),
            (self._count * self._weight).sum(),
            self._count.sum() * self._tag,
        )
        if not (is_finite(out.gram) and is_finite(out.moment)):
            raise NumericalError("the sums of features overflowed; scale the features down.")
        return out
