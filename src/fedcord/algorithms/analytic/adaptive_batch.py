"""A batch size per client so that nobody is late; sums, and so models, do not depend on it.

A client takes ceil(n/b)·(o + u·b) seconds: o per batch, u per sample. Both follow from timing its
first two batches, of different sizes. The deadline is the median of the clients' best times. A
client takes the smallest power of two that meets it and fits its memory, else the largest that
fits.

Layers differ in cost, and a deadline exists only after everybody was heard: a layer's batches
follow from the timings of the layer before, the first layer's from memory alone.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from fedcord.core.contract import Review, Update, Updates
from fedcord.core.errors import ConfigError
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors

SECONDS, DEADLINE = "pace.seconds", "pace.deadline"
PER_BATCH, PER_SAMPLE = "pace.per_batch", "pace.per_sample"


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

    @property
    def best_seconds(self) -> float:
        """The least time that any size takes."""
        return min(map(self.seconds, self.sizes))

    def batch_for(self, deadline: float) -> int:
        """The smallest batch that meets the deadline, or the largest that fits."""
        meeting = (b for b in self.sizes if self.seconds(b) <= deadline)
        return next(meeting, self.sizes[-1])


class TimedBatches:
    """Slices of a client's samples; the first two differ in size, and how long they take is kept.

    Args:
        samples: n.
        batch: size of all but the second slice.
        clock: seconds since any moment.
    """

    def __init__(
        self, samples: int, batch: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._samples, self._batch, self._clock = samples, batch, clock
        self.timings: list[tuple[int, float]] = []

    def __iter__(self) -> Iterator[slice]:
        self.timings = []
        done = 0
        for size in self._first_sizes():
            start = self._clock()
            yield slice(done, done + size)
            self.timings.append((size, self._clock() - start))
            done += size
        yield from even_batches(done, self._samples, self._batch)

    def pace(self, most_samples: int) -> Pace | None:
        """What the timings tell, after all slices are through; None with too few samples."""
        if len(self.timings) < 2:
            return None
        return Pace.timed(self._samples, self.timings, most_samples)

    def _first_sizes(self) -> tuple[int, ...]:
        """Two sizes, the larger twice the smaller and at most the batch."""
        small = min(self._batch // 2, self._samples // 3)
        return (2 * small, small) if small else ()


def even_batches(start: int, stop: int, batch: int) -> Iterator[slice]:
    """Slices of `batch` samples from `start` to `stop`; the last may be shorter."""
    for first in range(start, stop, batch):
        yield slice(first, min(first + batch, stop))


@dataclass(frozen=True)
class Batches:
    """How many samples are held at once; models do not depend on it."""

    rule: str = param(
        "memory",
        "memory: as many samples at once as fit; adaptive: as few as the median client's time "
        "allows, by the clock",
        choices=("memory", "adaptive"),
    )
    memory: float = param(32.0, "megabytes for a batch, beside the sums", above=0)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_adaptive(self) -> bool:
        """Whether batches follow the clock."""
        return self.rule == "adaptive"

    def review(self, task: Task) -> Review:
        """What the clock does to reproducibility."""
        note = (
            "batches.rule = adaptive: batches follow the clock, so two runs agree up to rounding "
            "but not in every bit."
        )
        return Review(notes=(note,) if self.is_adaptive else ())

    def most(self, sample_bytes: int) -> int:
        """Samples that fit the memory, at least one."""
        return max(1, int(self.memory * 1e6) // sample_bytes)

    def size(self, samples: int, most: int, shared: Tensors, memory: Tensors) -> int:
        """The client's batch, by what the round before has shown.

        Args:
            samples: n.
            most: largest batch that fits.
            shared: with the deadline, if there is one.
            memory: with the client's pace, if it has been timed.
        """
        if not self.is_adaptive:
            return most
        if DEADLINE not in shared or PER_BATCH not in memory:
            return 1 << (most.bit_length() - 1)
        rates = float(memory[PER_BATCH]), float(memory[PER_SAMPLE])
        return Pace(samples, *rates, most).batch_for(float(shared[DEADLINE]))


def pace_memory(pace: Pace | None) -> Tensors:
    """What a client keeps of its timings."""
    if pace is None:
        return {}
    rates = {PER_BATCH: pace.per_batch, PER_SAMPLE: pace.per_sample}
    return {name: torch.tensor(rate, dtype=torch.float64) for name, rate in rates.items()}


def with_seconds(updates: Updates, heard: list[float]) -> Iterator[tuple[int, Update]]:
    """The updates as they come, noting the best times of clients that could be timed."""
    for client, update in updates:
        seconds = float(update.tensors.get(SECONDS, torch.zeros(())))
        if seconds > 0:
            heard.append(seconds)
        yield client, update


def deadline_of(heard: Sequence[float]) -> Tensors:
    """The deadline for everybody: the median of best times; nothing when nobody was timed."""
    if not heard:
        return {}
    return {DEADLINE: torch.tensor(statistics.median(heard), dtype=torch.float64)}
