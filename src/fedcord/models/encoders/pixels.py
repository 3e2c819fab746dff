"""The input itself as feature: the baseline every other encoder must beat."""

from __future__ import annotations

import math

from torch import nn

from fedcord.models.frozen import Encoder
from fedcord.models.options import FrozenOptions, Inputs


def load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    """Flattened inputs; images are resized first when a size is given."""
    if options.size and len(inputs.shape) == 3:
        return Encoder(nn.Flatten(), inputs.shape[0] * options.size**2, size=options.size)
    return Encoder(nn.Flatten(), math.prod(inputs.shape))
