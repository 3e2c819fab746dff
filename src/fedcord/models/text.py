"""Bag of word embeddings, the small text model that FedHPro uses on AG News."""

from __future__ import annotations

from typing import cast

from torch import Generator, Tensor, nn

from fedcord.models.initial import materialise
from fedcord.models.options import Inputs, TextOptions

PADDING = 0
"""Token id that fills short texts and is left out of the mean."""


class BagOfEmbeddings(nn.Module):
    """Mean embedding of a text's tokens, one linear layer, then the classifier.

    Attributes:
        feature_dim: `width`.
    """

    def __init__(self, vocabulary: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=PADDING)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, num_classes)
        self.feature_dim = width

    def features(self, inputs: Tensor) -> Tensor:
        """[B, L] int64 tokens to [B, D] features; a text of padding alone has mean zero."""
        return self.features_and_maps(inputs)[0]

    @property
    def stage_names(self) -> tuple[str, ...]:
        """`embedding`, the mean of a text's tokens."""
        return ("embedding",)

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, L] int64 tokens to [B, D] features and the mean embedding [B, D] under them."""
        mean = self.embedding(inputs)
        return self.hidden(mean), [mean]

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return cast(Tensor, self.head(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, L] int64 tokens to [B, C] class scores."""
        return self.classify(self.features(inputs))


def build_text(
    options: TextOptions, inputs: Inputs, generator: Generator | None
) -> BagOfEmbeddings:
    """A bag of embeddings for `inputs`."""
    return materialise(
        lambda: BagOfEmbeddings(inputs.vocabulary, options.width, inputs.num_classes), generator
    )
