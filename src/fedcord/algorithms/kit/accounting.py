"""Noise, and the privacy loss of many noisy releases by the Rényi accountant of Opacus.

Opacus (the extra `dp`) is imported where a loss is computed and not before: it takes seconds.
"""

from __future__ import annotations

import importlib.util
import warnings

import torch
from torch import Generator, Tensor

from fedcord.core.contract import Review

LIBRARY = "opacus"
ORDERS = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *range(12, 64),
    *(64, 96, 128, 192, 256, 384, 512, 768, 1024),
)
"""Rényi orders to choose the best of; the large ones matter where ε is small."""


def accountant_review() -> Review:
    """An error where there is nothing to account by, before anything is computed."""
    if importlib.util.find_spec(LIBRARY) is not None:
        return Review()
    wrong = (
        f"noise for differential privacy is accounted for by the package {LIBRARY}, which is not "
        "installed here; install it with: pip install 'fedcord[dp]'."
    )
    return Review(errors=(wrong,))


def epsilon_of(noise: float, sampling: float, steps: int, delta: float) -> float:
    """ε of `steps` releases of a sum with Gaussian noise over a Poisson sample.

    Neighbours differ by one member, added or removed.

    Args:
        noise: standard deviation in units of what one member can add to the sum.
        sampling: chance of every member to be in a release's sample, independently of the others.
        steps: how many releases.
        delta: δ of all of them together.
    """
    from opacus.accountants.analysis import rdp

    if steps == 0 or sampling == 0:
        return 0.0
    orders = list(ORDERS)
    losses = rdp.compute_rdp(q=sampling, noise_multiplier=noise, steps=steps, orders=orders)
    with warnings.catch_warnings():
        # at the last order there is, ε is larger than need be, and still true
        warnings.simplefilter("ignore")
        epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=losses, delta=delta)
    return float(epsilon)


def normal_like(tensor: Tensor, deviation: float, generator: Generator) -> Tensor:
    """Normal noise of the shape of `tensor`, in float64; zeros for deviation 0."""
    return deviation * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
