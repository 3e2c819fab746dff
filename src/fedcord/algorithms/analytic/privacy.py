"""Differential privacy of one sample in the sums, and what may be said of it.

A sample with ||x|| ≤ B and a one-hot label moves v = (svec(G), M) by at most
B·√(B²+1) when it is added or removed, and by √2·(B² + ½) (or 2B for B² < ½) when it is replaced.
Gaussian noise on v is calibrated to that. Everything computed from the noisy sums afterwards costs
nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.core.params import check_params, param
from fedcord.ops.gaussian_mechanism import gaussian_noise
from fedcord.ops.ridge import SolveReport, solve_ridge
from fedcord.ops.symmetric import decompose, svec, unsvec


def sensitivity(clip: float, relation: str) -> float:
    """How far one sample can move (svec(G), M).

    Args:
        clip: B, longest feature vector, the bias included.
        relation: `add-remove` or `replace`: what makes two data sets neighbours.
    """
    if relation == "add-remove":
        return clip * math.sqrt(clip**2 + 1)
    return math.sqrt(2) * (clip**2 + 0.5) if clip**2 >= 0.5 else 2 * clip


@dataclass(frozen=True)
class Privacy:
    """Noise on the sums; none unless `epsilon` is set."""

    epsilon: float | None = param(None, "privacy loss ε; not private when not set", above=0)
    delta: float = param(1e-5, "chance δ of a larger loss", above=0, below=1)
    clip: float = param(1.0, "longest feature vector B; longer ones are shortened", above=0)
    relation: str = param(
        "add-remove", "what makes two data sets neighbours", choices=("add-remove", "replace")
    )
    noise_at: str = param(
        "server",
        "who adds it: a trusted server once; every client its share (for masked sums); every "
        "client all of it",
        choices=("server", "distributed", "local"),
    )
    honest: int = param(2, "clients surely honest and present (distributed noise)", at_least=1)
    ridge_floor: float = param(1.0, "least ridge in units of the noise's spectral norm", at_least=0)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_on(self) -> bool:
        """Whether anything is done."""
        return self.epsilon is not None

    @property
    def noise(self) -> float:
        """Standard deviation that the sum must carry; 0 when not private."""
        if self.epsilon is None:
            return 0.0
        return gaussian_noise(self.epsilon, self.delta) * sensitivity(self.clip, self.relation)

    @property
    def client_noise(self) -> float:
        """Standard deviation that each client adds to its own message."""
        share = {"server": 0.0, "distributed": 1 / math.sqrt(self.honest), "local": 1.0}
        return self.noise * share[self.noise_at]

    @property
    def server_noise(self) -> float:
        """Standard deviation that the server adds to the sum."""
        return self.noise if self.noise_at == "server" else 0.0

    def total_noise(self, num_clients: int) -> float:
        """Standard deviation in the sum of all messages."""
        return math.sqrt(self.server_noise**2 + num_clients * self.client_noise**2)

    def clipped(self, features: Tensor) -> Tensor:
        """Rows [B, D] no longer than `clip`; unchanged when not private."""
        if not self.is_on:
            return features
        length = features.norm(dim=1, keepdim=True).clamp(min=1e-300)
        return features * torch.clamp(self.clip / length, max=1.0)

    def least_ridge(self, num_features: int, num_clients: int) -> float:
        """The noise matrix has about this spectral norm; a smaller ridge would fit the noise."""
        return self.ridge_floor * self.total_noise(num_clients) * math.sqrt(2 * num_features)

    def statement(self) -> str:
        """What may be claimed, in words for the user."""
        if self.epsilon is None:
            return (
                "No differential privacy: a client's sums are sent as they are. With one sample "
                "they reveal its features up to sign, with fewer samples than features their span, "
                "and to somebody with a list of candidates who is in them."
            )
        holder = {
            "server": "towards everybody but the server, which is trusted with the exact sums",
            "distributed": f"towards everybody, if at least {self.honest} clients are honest and "
            "present and only the masked sum can be read",
            "local": "towards everybody, the server included",
        }[self.noise_at]
        return (
            f"({self.epsilon:g}, {self.delta:g})-differentially private for one sample "
            f"({self.relation}), {holder}. Features are shortened to length {self.clip:g}; the "
            f"noise in the sums has standard deviation {self.noise:.4g}. Class counts are taken as "
            "public. Noise is drawn in floating point from the run's seed: for simulation, not for "
            "an adversary who knows the seed."
        )


def add_noise(stats: SufficientStats, deviation: float, generator: Generator) -> SufficientStats:
    """Sums with Gaussian noise on svec(G) and M; unchanged for deviation 0."""
    if deviation == 0:
        return stats

    def noise(like: Tensor) -> Tensor:
        return deviation * torch.randn(like.shape, generator=generator, dtype=torch.float64)

    gram = unsvec(svec(stats.gram) + noise(stats.gram))
    return replace(stats, gram=gram, moment=stats.moment + noise(stats.moment))


def solve_noisy(gram: Tensor, moment: Tensor, ridge: float) -> tuple[Tensor, SolveReport]:
    """W [D, C] from noisy sums: eigenvalues below a tenth of the ridge are lifted to it."""
    lifted = _lifted(gram, ridge)
    if lifted is None:
        return solve_ridge(gram, moment, ridge)
    values, vectors = lifted
    weight = vectors @ ((vectors.T @ moment) / values[:, None])
    condition = float(values.max() / values.min())
    residual = float((gram @ weight + ridge * weight - moment).norm() / moment.norm())
    return weight, SolveReport("lifted", ridge, 0.0, condition, len(values), residual)


def noisy_system(gram: Tensor, ridge: float) -> Tensor:
    """[D, D] that `solve_noisy` inverts: G + λI, its low eigenvalues lifted."""
    lifted = _lifted(gram, ridge)
    if lifted is None:
        return gram + ridge * torch.eye(len(gram), dtype=gram.dtype)
    values, vectors = lifted
    return (vectors * values) @ vectors.T


def _lifted(gram: Tensor, ridge: float) -> tuple[Tensor, Tensor] | None:
    """Eigenvalues [D] of G + λI after lifting, and eigenvectors [D, D]; None if all are sound."""
    values, vectors = decompose(gram)
    lifted = (values + ridge).clamp(min=0.1 * ridge)
    if ridge == 0 or torch.equal(lifted, values + ridge):
        return None
    return lifted, vectors
