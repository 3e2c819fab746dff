"""The global generators of torch, NumPy and Python: watched, and left as the caller had them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fedcord.core.tensors import hash_tensors


def global_randomness() -> dict[str, object]:
    """The state of each library's generator, to be compared."""
    numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - looked at, never drawn from
    return {
        "torch": hash_tensors({"state": torch.get_rng_state()}),
        "numpy": (numpy["state"]["key"].tobytes(), numpy["state"]["pos"], numpy["gauss"]),
        "random": random.getstate(),
    }


@contextmanager
def global_randomness_elsewhere() -> Iterator[None]:
    """Move the generators on by a draw, so that seeding them shows, and restore them afterwards.

    A broken algorithm thus cannot disturb the program that tests it.
    """
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.rand(1)
        np.random.rand()  # noqa: NPY002
        random.random()  # noqa: S311
        try:
            yield
        finally:
            np.random.set_state(numpy)  # noqa: NPY002
            random.setstate(python)
