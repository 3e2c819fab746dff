"""Fixed points, one per class, that every client's prototypes are drawn towards.

Anchors are a function of the run's seed: each client makes the same ones, and nothing more is sent.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.frames import low_coherence_frame, random_frame, simplex_frame
from fedcord.core.contract import Env, Review
from fedcord.core.errors import ConfigError
from fedcord.core.params import check_params, param
from fedcord.core.task import Task


@dataclass(frozen=True)
class Anchors:
    """Which points, and how long they are."""

    kind: str = param(
        "none",
        "the points: random directions, a simplex (etf), or a way from the first prototypes to it",
        choices=("none", "random", "etf", "interpolated"),
    )
    scale: str = param(
        "unit",
        "length of anchors: 1, or the mean length of the first prototypes",
        choices=("unit", "matched"),
    )
    fallback: str = param(
        "error",
        "what to do for more classes than features + 1, where no simplex exists",
        choices=("error", "lowcoherence", "random"),
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_used(self) -> bool:
        """Whether there are any."""
        return self.kind != "none"

    def points(self, first_prototypes: Tensor, env: Env) -> Tensor | None:
        """The anchors [C, D] of this run, the same on the server and every client."""
        if not self.is_used:
            return None
        num_classes, feature_dim = first_prototypes.shape
        everywhere = dataclasses.replace(env, round=0, client=None).generator("anchors")
        points = _unit_points(
            self.kind, self.fallback, num_classes, feature_dim, everywhere.initial_seed()
        )
        points = points.to(first_prototypes.device)
        return points * first_prototypes.norm(dim=1).mean() if self.scale == "matched" else points

    def target(self, points: Tensor, first_prototypes: Tensor, progress: float) -> Tensor:
        """Where prototypes [C, D] are drawn to at this progress: (1−p) P⁰ + p A, or A itself."""
        if self.kind != "interpolated":
            return points
        return torch.lerp(first_prototypes, points, progress)

    def review(self, task: Task) -> Review:
        """Whether there are such anchors for the task's network."""
        if not self.is_used:
            return Review()
        feature_dim = int(task.scratch_network().feature_dim)  # type: ignore[arg-type]
        problem = self.problem(task.num_classes, feature_dim)
        return Review() if problem is None else Review(errors=(problem,))

    def problem(self, num_classes: int, feature_dim: int) -> str | None:
        """Why there are no such anchors for these sizes, or None."""
        if not self.is_used or (self.kind == "random" and num_classes >= 1):
            return None
        if num_classes < 2:
            return f"anchors.kind = '{self.kind}' needs at least 2 classes, not {num_classes}."
        if num_classes > feature_dim + 1 and self.fallback == "error":
            return (
                f"anchors.kind = '{self.kind}': {num_classes} classes do not form a simplex in "
                f"{feature_dim} dimensions (at most {feature_dim + 1} do); use a network with at "
                f"least {num_classes - 1} features, or --set anchors.fallback=lowcoherence."
            )
        return None


@lru_cache(maxsize=8)
def _unit_points(kind: str, fallback: str, num_classes: int, feature_dim: int, seed: int) -> Tensor:
    """[C, D] unit rows; kept, because every visit of every client asks for the same."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "random":
        return random_frame(num_classes, feature_dim, generator)
    problem = Anchors(kind, fallback=fallback).problem(num_classes, feature_dim)
    if problem is not None:
        raise ConfigError(problem)
    if num_classes <= feature_dim + 1:
        return simplex_frame(num_classes, feature_dim, generator)
    spread = low_coherence_frame if fallback == "lowcoherence" else random_frame
    return spread(num_classes, feature_dim, generator)
