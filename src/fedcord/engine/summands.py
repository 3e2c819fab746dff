"""An update as whole numbers that can be added up modulo 2⁶⁴, and back from their sum.

Real numbers become fixed point, in the order of names; what is averaged is multiplied by its weight
first. The weight comes last. Sums are exact: no order, and no number of clients, changes a bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcord.core.contract import Algorithm, Combination, Env, SumsSuffice, Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import TensorSpec
from fedcord.ops.fixed_point import from_fixed, to_fixed

Numbers = NDArray[np.uint64]


def needs_only(algorithm: Algorithm, env: Env) -> Combination | None:
    """What is enough of all updates of a round; None: the server needs them one by one."""
    if not algorithm.traits.sums_suffice:
        return None
    return cast(SumsSuffice, algorithm).needs_only(env)


def num_summands(expected: Mapping[str, TensorSpec]) -> int:
    """Numbers of an update, its weight included."""
    uneven = [name for name, spec in expected.items() if spec.announced_by is not None]
    if uneven:
        raise ProtocolError(
            f"{', '.join(uneven)} has as many rows as a client has classes or examples, so it "
            "cannot be added up; this method must not say that sums suffice."
        )
    return sum(math.prod(spec.shape) for spec in expected.values()) + 1


def to_summands(
    update: Update, expected: Mapping[str, TensorSpec], needs: Combination, clients: int
) -> Numbers:
    """The numbers of a checked update.

    Args:
        update: of one client.
        expected: what was agreed.
        needs: whether tensors are added up or averaged by weight.
        clients: how many updates are added up at most.
    """
    parts = []
    for name in sorted(expected):
        tensor = update.tensors[name].detach().cpu()
        if needs == "mean":
            parts.append(to_fixed(tensor.double() * update.weight, summands=clients))
        elif tensor.is_floating_point():
            parts.append(to_fixed(tensor.double(), summands=clients))
        else:
            parts.append(tensor.to(torch.int64))
    weight = torch.tensor([update.weight], dtype=torch.float64)
    parts.append(to_fixed(weight, summands=clients))
    whole = torch.cat([part.reshape(-1) for part in parts])
    return whole.numpy().view(np.uint64)


def from_summands(total: Numbers, expected: Mapping[str, TensorSpec], needs: Combination) -> Update:
    """What all updates come to, from the sum of their numbers.

    Means have the types that were agreed; sums of real numbers are in float64, of whole ones in
    int64.
    """
    whole = torch.from_numpy(total.view(np.int64).copy())
    weight = float(from_fixed(whole[-1]))
    if needs == "mean" and weight <= 0:
        raise ProtocolError(f"a weighted mean needs a positive total weight; it is {weight:g}.")
    tensors: dict[str, Tensor] = {}
    start = 0
    for name in sorted(expected):
        spec = expected[name]
        stop = start + math.prod(spec.shape)
        part = whole[start:stop].view(spec.shape)
        start = stop
        if needs == "mean":
            mean = from_fixed(part) / weight
            is_real = spec.dtype.is_floating_point
            tensors[name] = (mean if is_real else mean.round()).to(spec.dtype)
        else:
            tensors[name] = from_fixed(part) if spec.dtype.is_floating_point else part.clone()
    return Update(tensors, weight)


def nothing(update: Update) -> Update:
    """The update that adds nothing to one like it."""
    return Update({name: torch.zeros_like(t) for name, t in update.tensors.items()}, 0.0)
