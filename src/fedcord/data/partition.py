"""Which client holds which examples, and the names under which partitions are known.

A partition is written `name[:argument][,key=value]…`, such as `dirichlet:0.1,min=10`. Two options
are of all of them: the long-tail filter, `nid1:0.5,longtail=100`, and the control of the same sizes
without heterogeneity, `dirichlet:0.1,examples=iid`.

>>> labels = np.repeat(np.arange(3), 4)
>>> partition = make_partition("classes:1", labels, num_classes=3, num_clients=3, seed=0)
>>> partition.sizes
(4, 4, 4)
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError, DataError, unknown_name
from fedcord.core.params import build
from fedcord.data.longtail import longtail_pool, longtail_problem
from fedcord.data.partitioners.from_file import hash_clients
from fedcord.data.partitioners.iid import redistributed
from fedcord.data.partitioners.partitioner import (
    Indices,
    NamesClients,
    NamesTests,
    Partitioner,
    Source,
)
from fedcord.data.partitioners.table import PARTITIONS, PartitionInfo
from fedcord.data.partitioners.text import PartitionText, text_of, value_of
from fedcord.data.subset import subset_pool

__all__ = ["PARTITIONS", "Partition", "PartitionInfo", "check_spec", "make_partition"]

_NO_GROUPS: Mapping[str, NDArray[Any]] = MappingProxyType({})
_NO_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Partition:
    """Which training examples each client holds; compare two by their `hash`.

    Attributes:
        spec: the partition's text in its one canonical spelling.
        clients: for each client, ascending indices into the training split; may be empty.
        client_names: what each client is called, such as its hospital; none when it is a number.
        tests: for each client, which of its examples it keeps for its own test; none when a run
            draws a share of them.
    """

    spec: str
    clients: tuple[Indices, ...]
    client_names: tuple[str, ...] = ()
    tests: tuple[Indices, ...] = ()

    @property
    def num_clients(self) -> int:
        """How many clients there are (K)."""
        return len(self.clients)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many examples each client holds."""
        return tuple(len(indices) for indices in self.clients)

    @property
    def hash(self) -> str:
        """SHA-256 of the indices alone: equal assignments are equal however they were made."""
        return hash_clients(self.clients, self.tests)

    @property
    def has_overlap(self) -> bool:
        """Whether some example is with more than one client."""
        together = np.concatenate(self.clients)
        return len(np.unique(together)) < len(together)

    def counts(self, labels: Indices, num_classes: int) -> Indices:
        """[K, C] how many examples of each class each client holds, from labels [N]."""
        rows = [np.bincount(labels[indices], minlength=num_classes) for indices in self.clients]
        return np.stack(rows).astype(np.int64, copy=False)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file that `file:PATH` reads back."""
        return {
            "spec": self.spec,
            "hash": self.hash,
            "overlap": self.has_overlap,
            "clients": [indices.tolist() for indices in self.clients],
            "test": [indices.tolist() for indices in self.tests],
            "client_names": list(self.client_names),
        }


def check_spec(spec: str, num_clients: int) -> list[str]:
    """Everything that is wrong with a partition's text, as far as it shows without data.

    Args:
        spec: the text.
        num_clients: K; 0 leaves the number to the data, where the partition allows it.
    """
    return _read(spec, num_clients).problems


def make_partition(
    spec: str,
    labels: Indices,
    *,
    num_classes: int,
    num_clients: int,
    seed: int,
    groups: Mapping[str, NDArray[Any]] = _NO_GROUPS,
    group_names: Mapping[str, tuple[str, ...]] = _NO_NAMES,
    longtail: float = 1.0,
    subset: int | None = None,
) -> Partition:
    """Distribute the training examples to clients.

    Args:
        spec: the partition's text, see `PARTITIONS`.
        labels: [N] class of each training example.
        num_classes: C.
        num_clients: K; 0 leaves the number to the data, where the partition allows it.
        seed: the run's seed; equal arguments give equal partitions.
        groups: by key, [N] a value per example, for `domain` and `natural`.
        group_names: by key, the name of each integer value.
        longtail: ρ of the long-tail filter, if not already in the text.
        subset: how many examples to keep, drawn at random before anything else; None for all.
    """
    asked = _read(spec, num_clients)
    partitioner, ratio, problems = asked.partitioner, asked.ratio, asked.problems
    problem = longtail_problem(longtail)
    if problem is not None:
        problems.append(problem)
    elif longtail != 1 and ratio not in (1, longtail):
        problems.append(
            f"partition '{spec}' says longtail={text_of(ratio)}, but longtail = "
            f"{text_of(float(longtail))} was asked for too; give it once."
        )
    if problems:
        raise ConfigError(problems)
    assert partitioner is not None
    ratio = longtail if ratio == 1 else ratio
    _check_labels(labels, num_classes, groups)
    kept = subset_pool(len(labels), size=subset, seed=seed)
    tail = longtail_pool(labels[kept], num_classes=num_classes, ratio=ratio, seed=seed)
    pool = kept[tail]
    if num_clients > len(pool):
        raise DataError(
            f"{num_clients} clients were asked for, but there are only {len(pool)} training "
            f"examples to distribute; use at most {len(pool)} clients or more data."
        )
    source = Source(labels, pool, num_classes, groups, group_names)
    parts = partitioner.split(source, num_clients, seed)
    if asked.is_redistributed:
        parts = redistributed(parts, seed)
    # order means nothing to a client; sorted, equal assignments have equal hashes
    clients = tuple(np.sort(part).astype(np.int64, copy=False) for part in parts)
    if not any(len(part) for part in clients):
        raise DataError(
            f"partition '{spec}' leaves every client without examples; give at least one client "
            "an example."
        )
    text = _canonical(spec, partitioner, ratio, asked.is_redistributed)
    if asked.is_redistributed:  # names and tests were of the examples that clients had
        return Partition(text, clients)
    names: tuple[str, ...] = ()
    if isinstance(partitioner, NamesClients):
        names = partitioner.client_names(source, clients)
    tests = partitioner.client_tests(clients) if isinstance(partitioner, NamesTests) else ()
    return Partition(text, clients, names, tests)


@dataclass(frozen=True)
class _Asked:
    """What a text asks for.

    Attributes:
        partitioner: None where it cannot be made.
        ratio: the long-tail factor, 1 for none.
        is_redistributed: whether clients get random examples instead, as many as they would have.
        problems: all that is wrong with the text.
    """

    partitioner: Partitioner | None
    ratio: float
    is_redistributed: bool
    problems: list[str]


def _read(spec: str, num_clients: int) -> _Asked:
    text = PartitionText.parse(spec)
    if text.name not in PARTITIONS:
        unknown = unknown_name("partition", text.name, PARTITIONS, "fedcord list partitions")
        return _Asked(None, 1.0, False, [unknown])
    info = PARTITIONS[text.name]
    problems = [f"{key} is given twice; give it once." for key in text.repeated]
    options = dict(text.options)
    if text.argument is not None:
        if info.argument is None:
            problems.append(f"'{text.argument}' follows the colon, but {text.name} takes nothing.")
        elif info.argument in options:
            problems.append(f"{info.argument} is given twice; give it once.")
        else:
            options[info.argument] = text.argument
    needed = None if info.is_optional else info.argument
    is_missing = needed is not None and not options.get(needed)
    if is_missing:
        problems.append(f"{needed} is missing.")
        options.pop(str(needed), None)
    ratio, problem = _ratio(options.pop("longtail", "1"))
    problems += [problem] if problem is not None else []
    examples = options.pop("examples", None)
    if examples not in (None, "iid"):
        problems.append(f"examples = '{examples}': must be iid, or be left out.")
    partitioner: Partitioner | None = None
    hints = typing.get_type_hints(info.kind)
    values = {k: v if hints.get(k) is str else value_of(v) for k, v in options.items()}
    try:
        partitioner = build(info.kind, values)
    except ConfigError as error:
        problems += error.problems
    if num_clients < 0 or (num_clients == 0 and info.needs_clients):
        problems.append(f"clients = {num_clients}: must be >= 1.")
    elif partitioner is not None and not is_missing:
        problems += partitioner.problems(num_clients)
    hint = f"Form: {info.form}[,examples=iid][,longtail=RHO], for example {info.example}."
    problems = [f"partition '{spec}': {problem} {hint}" for problem in problems]
    return _Asked(partitioner, ratio, examples is not None, problems)


def _ratio(text: str) -> tuple[float, str | None]:
    value = value_of(text)
    if isinstance(value, (bool, str)):
        return 1.0, f"longtail = '{text}': must be a number >= 1."
    return float(value), longtail_problem(float(value))


def _check_labels(labels: Indices, num_classes: int, groups: Mapping[str, NDArray[Any]]) -> None:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels are {labels.dtype} with shape {list(labels.shape)}; a partition needs one "
            "whole number per example, int64 [N]."
        )
    if len(labels) == 0:
        raise DataError("there are no training examples to distribute; give at least one.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise DataError(
            f"labels run from {low} to {high}, but {num_classes} classes allow 0 to "
            f"{num_classes - 1}; correct the labels or the number of classes."
        )
    for key, group in groups.items():
        if group.shape != labels.shape:
            raise DataError(
                f"group '{key}' has shape {list(group.shape)}, the labels {list(labels.shape)}; "
                "give one value per example."
            )


def _canonical(spec: str, partitioner: Any, ratio: float, is_redistributed: bool) -> str:
    """The one spelling of a partition: parameters at their default are left out."""
    name = PartitionText.parse(spec).name
    info = PARTITIONS[name]
    text = name
    for field in dataclasses.fields(partitioner):
        value = getattr(partitioner, field.name)
        if field.name == info.argument and not (info.is_optional and value == field.default):
            text += f":{text_of(value)}"
        elif value != field.default:
            text += f",{field.name}={text_of(value)}"
    text += ",examples=iid" if is_redistributed else ""
    return text if ratio == 1 else f"{text},longtail={text_of(float(ratio))}"
