"""A table that is dealt out to clients, as the vectors they train on."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import replace

from fedcord.data.dataset import Dataset, Labels, Split
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.sums import TableSums


def prepared(dataset: Dataset, training_rows: Sequence[Labels]) -> Dataset:
    """Make vectors of a table, by the sums of what each client trains on.

    Args:
        dataset: of kind "table".
        training_rows: for each client, which rows of the training part it trains on; validation and
            test rows have no say.

    Returns:
        The data set of kind "vector", which needs no further scaling and knows how it was made.
    """
    schema = dataset.table
    assert schema is not None
    train = dataset.train
    sums = [
        TableSums.of(schema.columns, train.inputs[rows], dataset.class_names, train.labels[rows])
        for rows in training_rows
    ]
    total = functools.reduce(operator.add, sums)
    preparation = TablePreparation.from_sums(total, schema, dataset.class_names)

    def vectors(split: Split) -> Split:
        return replace(split, inputs=preparation.inputs(schema.columns, split.inputs))

    return replace(
        dataset,
        kind="vector",
        train=vectors(train),
        test=vectors(dataset.test),
        scale="none",
        table=None,
        preparation=preparation,
    )
