"""Clients' examples, brought from the data set's order into that of clients."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fedcord.core.examples import Examples
from fedcord.data.dataset import Array, Dataset, Split
from fedcord.data.holdout import Indices, split_client
from fedcord.data.partition import Partition
from fedcord.engine.population import Population
from fedcord.experiment.config import RunConfig

PIECES = 16
"""Data that is used up moves in so many pieces, of which one is in memory twice."""


def arrange(
    dataset: Dataset, partition: Partition, config: RunConfig, inputs: list[Array] | None = None
) -> Population:
    """All clients' examples in one block, client by client.

    Args:
        dataset: what is dealt out.
        partition: who holds what.
        config: which shares clients keep for selection and test.
        inputs: the training inputs, where the data set has lost its own. They are taken out of the
            list, and used up if nobody else holds them: most of a run's memory, they are then never
            held twice.
    """
    rows = np.empty(sum(map(len, partition.clients)), dtype=np.int64)
    bounds = np.zeros((partition.num_clients, 4), dtype=np.int64)
    start = 0
    for client, parts in enumerate(parts_of(partition, config)):
        ends = start + np.cumsum([0, *(len(part) for part in parts)])
        np.concatenate(parts, out=rows[start : ends[-1]])
        bounds[client], start = ends, int(ends[-1])
    return Population(
        inputs=taken([dataset.train.inputs] if inputs is None else inputs, rows),
        labels=torch.from_numpy(dataset.train.labels[rows]),
        bounds=torch.from_numpy(bounds),
        test=_examples(dataset.test),
        test_groups={n: torch.from_numpy(g.copy()) for n, g in dataset.test.groups.items()},
        names=dict(enumerate(partition.client_names)),
    )


def parts_of(partition: Partition, config: RunConfig) -> Iterator[tuple[Indices, ...]]:
    """For each client the rows it trains on, chooses by and tests on."""
    named = partition.tests
    for client, indices in enumerate(partition.clients):
        train, chosen, tested = split_client(
            np.setdiff1d(indices, named[client]) if named else indices,
            validation=config.validation,
            test=0.0 if named else config.test,
            seed=config.seed,
            client=client,
        )
        yield train, chosen, named[client] if named else tested


def taken(inputs: list[Array], rows: Indices) -> Tensor:
    """The chosen rows in memory of PyTorch's, whose alignment decides how products are rounded.

    Args:
        inputs: one array, which is taken out of the list.
        rows: which, and in which order.
    """
    source = inputs.pop()
    out = torch.empty(
        (len(rows), *source.shape[1:]), dtype=torch.from_numpy(source[:0].copy()).dtype
    )
    target = out.numpy()
    if not (sys.getrefcount(source) <= 2 and _can_be_used_up(source, rows)):  # here, and the call's
        np.take(source, rows, axis=0, out=target, mode="clip")  # other modes copy once more
        return out
    _reorder(source, rows)
    step = max(1, -(-len(rows) // PIECES))
    for start in (len(rows), *reversed(range(0, len(rows), step))):  # the first drops the rest
        target[start : start + step] = source[start : len(rows)][:step]
        source.resize((start, *source.shape[1:]), refcheck=False)  # nobody else holds it
    return out


def _can_be_used_up(source: Array, rows: Indices) -> bool:
    flags = source.flags
    is_own = flags.owndata and flags.c_contiguous and flags.writeable
    return bool(is_own and len(rows) <= len(source))


def _reorder(source: Array, rows: Indices) -> None:
    """Bring the chosen rows to the front, some columns at a time."""
    if len(rows) and rows[0] == 0 and rows[-1] == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
        return  # they are there
    flat = source.reshape(len(source), -1)
    step = -(-flat.shape[1] // PIECES)
    for start in range(0, flat.shape[1], step):
        columns = flat[:, start : start + step]
        columns[: len(rows)] = columns[rows]


def _examples(split: Split) -> Examples:
    # a copy: the arrays of a data set may be read-only, and tensors cannot say so
    return Examples(torch.tensor(split.inputs), torch.tensor(split.labels))
