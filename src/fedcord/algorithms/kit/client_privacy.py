"""A sum of clients' changes that hides whether any one client is in it.

Every change is shortened to `clip`, which is then the most that one client can add to the sum, and
the sum carries normal noise of `noise` times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.kit.accounting import accountant_review, epsilon_of, normal_like
from fedcord.core.contract import Env, Review
from fedcord.core.errors import ConfigError
from fedcord.core.params import check_params, param
from fedcord.core.privacy import PrivacySpent
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class ClientPrivacy:
    """Clipping, sampling and noise for the privacy of clients."""

    clip: float = param(
        1.0, "longest change of a client (paper: S)", above=0, space=(0.1, 10, "log")
    )
    noise: float = param(1.0, "noise of the sum in units of the clip (paper: z)", at_least=0)
    sampling: float = param(1.0, "chance to contribute in a round (paper: q)", above=0, at_most=1)
    delta: float = param(1e-5, "chance δ of a larger loss; below 1/clients", above=0, below=1)
    noise_at: str = param(
        "server",
        "who adds it: a trusted server once; every client its share (for masked sums)",
        choices=("server", "distributed"),
    )
    honest: int = param(2, "clients surely honest and present (distributed noise)", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """Whether the noise can be accounted for."""
        return accountant_review() if self.noise > 0 else Review()

    def contributes(self, env: Env) -> bool:
        """Whether the client of `env` is in this round's sample; drawn by itself."""
        return float(torch.rand((), generator=env.generator("contributes"))) < self.sampling

    def sent(self, changes: Tensors, env: Env) -> dict[str, Tensor]:
        """A client's changes as they leave it: shortened, and with its share of the noise."""
        length = math.sqrt(sum(float((t.double() ** 2).sum()) for t in changes.values()))
        kept = self.clip / max(length, self.clip)
        is_ours = self.noise_at == "distributed"
        deviation = self.noise * self.clip / math.sqrt(self.honest) if is_ours else 0.0
        noise = env.generator("dp-noise")
        return {
            name: (kept * t.double() + normal_like(t, deviation, noise)).float()
            for name, t in sorted(changes.items())
        }

    def released(self, mean: Tensors, count: float, env: Env) -> dict[str, Tensor]:
        """What the server may go on with: the noisy sum of changes, over q times `count`.

        Args:
            mean: of what `count` clients sent.
            count: who answered.
            env: the server's place.
        """
        if self.noise_at == "distributed" and count < self.honest:
            raise ConfigError(
                f"privacy.honest = {self.honest}: only {count:g} clients answered, so their sum "
                "has less noise than promised; lower it, or take more clients."
            )
        deviation = self.noise * self.clip / count if self.noise_at == "server" else 0.0
        noise = env.generator("dp-noise")
        return {
            name: (t.double() + normal_like(t, deviation, noise)) / self.sampling
            for name, t in sorted(mean.items())
        }

    def spent(self, rounds: int) -> PrivacySpent:
        """ε of so many rounds, for one client added or removed."""
        epsilon = epsilon_of(self.noise, self.sampling, rounds, self.delta)
        trusted = "the server is trusted with single changes"
        if self.noise_at == "distributed":
            trusted = f"{self.honest} clients are honest and present and only sums can be read"
        statement = (
            f"({epsilon:.4g}, {self.delta:g})-differentially private for one client added or "
            f"removed, over {rounds} rounds, if {trusted}. Tests on clients' own parts are not "
            "covered, and the noise comes from the run's seed: for simulation."
        )
        return PrivacySpent(epsilon, self.delta, "client", statement)
