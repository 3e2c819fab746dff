"""Named random streams: every draw is a function of (seed, purpose, round, client).

No global generator is ever seeded or read, so two streams cannot disturb each other, nothing about
generators has to be saved, and a resumed run draws what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

SERVER = -1
"""The client number that stands for the server in a stream's address."""


def derive_seed(seed: int, purpose: str, round_: int = 0, client: int = SERVER) -> int:
    """A 63-bit seed for one stream; different addresses give unrelated seeds."""
    address = f"{seed}/{purpose}/{round_}/{client}".encode()
    return int.from_bytes(hashlib.sha256(address).digest()[:8], "little") >> 1


def numpy_generator(
    seed: int, purpose: str, round_: int = 0, client: int = SERVER
) -> np.random.Generator:
    """A NumPy generator for one stream."""
    return np.random.default_rng(derive_seed(seed, purpose, round_, client))


def torch_generator(
    seed: int, purpose: str, round_: int = 0, client: int = SERVER
) -> torch.Generator:
    """A PyTorch CPU generator for one stream."""
    import torch  # deferred: data and reports work without it

    return torch.Generator().manual_seed(derive_seed(seed, purpose, round_, client))
