"""A data set that was passed as an object, for other processes: plain values and a file of arrays.

Data that has a name is not handed over: every process reads it itself, and uses up what it has read
as it deals it out, so that each run holds its examples once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedcord.data.dataset import Array, Dataset, Split
from fedcord.data.grey_range import GreyRange
from fedcord.data.vocabulary import Vocabulary
from fedcord.engine.shared_block import map_block, nameless_file, write_block

PARTS = ("train", "test")
MADE_OF_VALUES: Mapping[str, Any] = {"words": Vocabulary, "grey": GreyRange}
"""Entries of a data set that are objects, and can say what they are in plain values."""


@dataclass(frozen=True)
class HandedOver:
    """Where a data set is for others: an open file, and what is in it."""

    file: int
    plain: Mapping[str, Any]


@contextlib.contextmanager
def handed_over(dataset: Dataset | None) -> Iterator[HandedOver | None]:
    """A file that holds the data set as long as it is open; None where there is none."""
    if dataset is None:
        yield None
        return
    values, arrays = _taken_apart(dataset)
    # PyTorch warns of memory that must not be written to
    tensors = {n: torch.from_numpy(a if a.flags.writeable else a.copy()) for n, a in arrays.items()}
    with nameless_file(tensors) as file:
        layout = write_block(tensors, file)
        yield HandedOver(file.fileno(), {"values": values, "layout": layout})


def can_be_handed_over(dataset: Dataset | None) -> bool:
    """Whether all that the data set has can be said in plain values and arrays."""
    try:
        json.dumps(None if dataset is None else _taken_apart(dataset)[0])
    except TypeError:
        return False
    return True


def dataset_from(descriptor: int, plain: Mapping[str, Any]) -> Dataset:
    """The data set again; its arrays are views of the file."""
    tensors = map_block(descriptor, plain["layout"])
    values = {name: _tuples(value) for name, value in plain["values"].items()}
    for part in PARTS:
        own = dict(values[part])
        own["groups"] = {n: tensors[f"{part}.groups.{n}"].numpy() for n in own["groups"]}
        own |= {n: tensors[f"{part}.{n}"].numpy() for n in own.pop("arrays")}
        values[part] = Split(**own)
    for name, kind in MADE_OF_VALUES.items():
        values[name] = None if values[name] is None else kind.from_json(values[name])
    return Dataset(**values)


def _taken_apart(dataset: Dataset) -> tuple[dict[str, Any], dict[str, Array]]:
    values = {f.name: getattr(dataset, f.name) for f in dataclasses.fields(dataset)}
    arrays: dict[str, Array] = {}
    for part in PARTS:
        split: Split = values[part]
        own = {f.name: getattr(split, f.name) for f in dataclasses.fields(split)}
        found = {name: value for name, value in own.items() if isinstance(value, np.ndarray)}
        groups = {f"groups.{name}": array for name, array in split.groups.items()}
        arrays |= {f"{part}.{name}": array for name, array in (found | groups).items()}
        plain = {name: value for name, value in own.items() if name not in found}
        values[part] = {**plain, "groups": list(split.groups), "arrays": list(found)}
    values["group_names"] = dict(dataset.group_names)
    for name in MADE_OF_VALUES:
        values[name] = None if values[name] is None else values[name].to_json()
    return values, arrays


def _tuples(value: Any) -> Any:
    """What JSON made lists of; data sets have tuples."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value
