"""A batch size per client so that nobody is late; sums, and so models, do not depend on it.

A client takes ceil(n/b)·(o + u·b) seconds: o per batch, u per sample. Both follow from two timed
batches. The deadline is the median of the clients' best times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fedcord.core.errors import ConfigError


@dataclass(frozen=True)
class Pace:
    """How fast a client is.

    Attributes:
        samples: n.
        per_batch: o, seconds every batch costs.
        per_sample: u, seconds every sample costs.
        most_samples: largest batch that fits its memory.
    """

    samples: int
    per_batch: float
    per_sample: float
    most_samples: int

    @staticmethod
    def timed(samples: int, timings: Sequence[tuple[int, float]], most_samples: int) -> Pace:
        """From two (batch size, seconds) of different sizes."""
        (small, first), (large, second) = sorted(timings)
        if small == large:
            raise ConfigError(f"two batches of {small} samples tell no pace; time two sizes.")
        per_sample = max((second - first) / (large - small), 0.0)
        return Pace(samples, max(first - per_sample * small, 0.0), per_sample, most_samples)

    def seconds(self, batch: int) -> float:
        """Time for all samples in batches of this size."""
        return math.ceil(self.samples / batch) * (self.per_batch + self.per_sample * batch)

    @property
    def sizes(self) -> list[int]:
        """Powers of two that fit the memory."""
        return [2**k for k in range(max(self.most_samples, 1).bit_length())]


def choose_batches(paces: Sequence[Pace]) -> list[int]:
    """The smallest batch with which each client meets the deadline, or the largest that fits."""
    deadline = statistics.median(min(map(pace.seconds, pace.sizes)) for pace in paces)
    return [
        next((b for b in pace.sizes if pace.seconds(b) <= deadline), pace.sizes[-1])
        for pace in paces
    ]
