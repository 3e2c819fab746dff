"""Triangular factors as messages: `wire=rfactor` of afl.

Every client's message has the same shape, so a factor with fewer rows than features is filled up
with zeros: D(D+1)/2 + DC numbers, as many as packed sums. What is gained is accuracy, since the
server solves with the condition of the samples instead of its square. Its cost is a factorisation
per client where sums are added.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import Solved
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.rfactor import RFactor
from fedcord.algorithms.analytic.sum_messages import check_tag
from fedcord.core.contract import Env, Update, Updates
from fedcord.core.errors import NumericalError
from fedcord.core.examples import Examples
from fedcord.core.tensors import Tensors, TensorSpec, is_finite, prefixed, select
from fedcord.ops.ridge_selection import best_ridge
from fedcord.ops.symmetric import pack, packed_length, unpack

FACTOR = "factor"


def factor_spec(num_features: int, num_classes: int) -> Mapping[str, TensorSpec]:
    """Shapes and types of a message."""
    return {
        f"{FACTOR}.r": TensorSpec((packed_length(num_features),), torch.float64),
        f"{FACTOR}.z": TensorSpec((num_features, num_classes), torch.float64),
        f"{FACTOR}.class_count": TensorSpec((num_classes,), torch.int64, counts=True),
        f"{FACTOR}.tag_sum": TensorSpec((), torch.int64),
    }


def factor_update(
    features: FeatureMap, shared: Tensors, data: Examples, env: Env, class_weight: Tensor | None
) -> Update:
    """A client's message: its samples factored batch by batch."""
    size, classes = features.num_features(env.task), env.task.num_classes
    total = _nothing(size, classes)
    for rows, labels in features.batches(data, shared, env):
        targets = F.one_hot(labels, classes).to(torch.float64)
        if class_weight is not None:
            root = class_weight.sqrt()[labels][:, None]
            rows, targets = rows * root, targets * root
        if not is_finite(rows):
            raise NumericalError("features are not finite; check the inputs and the encoder.")
        total = total.merge(RFactor.of(rows, targets))
    count = torch.bincount(data.labels, minlength=classes)
    filled = _filled(total)
    tensors = {
        "r": pack(filled.r),
        "z": filled.z,
        "class_count": count,
        "tag_sum": count.sum() * features.tag(shared, env),
    }
    return Update(prefixed(FACTOR, tensors), weight=len(data))


def merged(updates: Updates, size: tuple[int, int], tag: int, env: Env) -> dict[str, Tensor]:
    """One message's worth of everybody's samples; nothing is held but that."""
    total, count = _nothing(*size), torch.zeros(size[1], dtype=torch.int64)
    for client, update in updates:
        message = select(update.tensors, FACTOR)
        check_tag(message, tag, env.said(client))
        r, z = unpack(message["r"]).triu_(), message["z"]
        told = r.any(1) | z.any(1)  # the rest is what the message was filled up with
        total = total.merge(RFactor(r[told], z[told]))
        count = count + message["class_count"]
    filled = _filled(total)
    tensors = {"r": pack(filled.r), "z": filled.z, "class_count": count}
    return prefixed(FACTOR, tensors)


def solve_factor(merged: Tensors, ridge: float | str, class_weight: Tensor | None) -> Solved:
    """The linear model of merged factors.

    Args:
        merged: what `merged` returned.
        ridge: λ, or `gcv`.
        class_weight: [C] weight of a sample by its class; 1 when not given.
    """
    parts = select(merged, FACTOR)
    count = parts["class_count"]
    factor = RFactor(unpack(parts["r"]).triu_(), parts["z"].clone())
    if isinstance(ridge, str):
        square = count if class_weight is None else count * class_weight
        ridge = best_ridge(factor.path(float(square.sum()), float(count.sum())))
    weight, report = factor.solve(ridge)
    return Solved(weight, count > 0, report)


def _nothing(num_features: int, num_classes: int) -> RFactor:
    """The factor of no sample."""
    empty = torch.zeros(0, num_features, dtype=torch.float64)
    return RFactor(empty, torch.zeros(0, num_classes, dtype=torch.float64))


def _filled(factor: RFactor) -> RFactor:
    """The same with as many rows as features."""
    rows, size = factor.r.shape
    filling = (0, 0, 0, size - rows)
    return RFactor(F.pad(factor.r, filling), F.pad(factor.z, filling))
