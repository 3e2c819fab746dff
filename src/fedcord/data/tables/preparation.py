"""How a table becomes what a network reads, decided by the clients' training rows alone.

Made once from the sums of all clients and kept with the task, so that whoever holds rows, in
training or years later, makes the same numbers of them:

- a numeric column: (x − mean) / standard deviation, of the cells that are there; a missing cell
  becomes the mean, that is 0. If any was missing in training, one more input says so by 1.
- a categorical column: one input per category, of which one is 1; a category that training did not
  have is 0 everywhere, or 1 in the input that rare categories share. If any was missing in
  training, one more input says so.
- a column that never changed in training is not used: a network has learnt nothing of it, and would
  multiply whatever comes later with the weights it started from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError, shown
from fedcord.core.machine import data_limit, gigabytes
from fedcord.data.standardise import is_constant
from fedcord.data.tables.raw import Codes, Floats, in_order
from fedcord.data.tables.schema import ColumnKind, TableColumn, TableSchema
from fedcord.data.tables.sums import NumberSums, TableSums, WordSums

MOST_CATEGORIES = 100
"""Inputs of one column; beyond, the rarest categories share one."""
_RESOLUTION = 2.0**-40
"""Relative spread below which a column of float64 does not vary."""


@dataclass(frozen=True)
class PreparedColumn:
    """What becomes of one column.

    Attributes:
        name: of the column.
        kind: numeric, boolean or categorical.
        mean: subtracted from numbers, and taken for missing ones.
        std: what numbers are divided by; 0 for a number that never changed in training and of which
            only the absence is used.
        categories: one input each.
        has_other: whether one more input stands for all other categories.
        has_missing: whether one more input says that the cell is missing.
    """

    name: str
    kind: ColumnKind
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()
    has_other: bool = False
    has_missing: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the column's inputs are called."""
        names = [self.name] if self.std else []
        if self.kind == "categorical":
            names = [f"{self.name} = {word}" for word in self.categories]
        if self.has_other:
            names.append(f"{self.name} = another")
        if self.has_missing:
            names.append(f"{self.name} is missing")
        return tuple(names)


@dataclass(frozen=True)
class TablePreparation:
    """A table's columns to a network's inputs, as plain values.

    Attributes:
        columns: those that are used, in the order of the inputs.
        class_names: what the target's classes are called, in the order of their numbers.
        target: the column that is predicted.
        client: the column that said who holds a row; may be empty.
        row_id: the column that names rows; may be empty.
        missing: words that stand for a missing cell, beyond the usual ones.
    """

    columns: tuple[PreparedColumn, ...]
    class_names: tuple[str, ...]
    target: str
    client: str = ""
    row_id: str = ""
    missing: tuple[str, ...] = ()

    @classmethod
    def from_sums(
        cls,
        sums: TableSums,
        schema: TableSchema,
        class_names: Sequence[str] | None = None,
    ) -> TablePreparation:
        """From the sums of all clients together.

        Args:
            sums: of every column of `schema`.
            schema: what the columns are; the words of one client's categories play no part.
            class_names: in their order; by default those that the sums have.
        """
        if set(sums.columns) != {column.name for column in schema.columns}:
            raise DataError(
                f"there are sums of the columns {', '.join(sums.columns)}, but the table has "
                f"{', '.join(column.name for column in schema.columns)}."
            )
        prepared = [_prepared(column, sums.columns[column.name]) for column in schema.columns]
        columns = tuple(column for column in prepared if column is not None)
        if not columns:
            raise DataError(
                "no column of the table varies over the clients' training rows, so there is "
                "nothing to learn from; check the columns with fedcord inspect."
            )
        names = in_order(sums.classes) if class_names is None else tuple(class_names)
        return cls(
            columns, names, schema.target, schema.client, schema.row_id, tuple(schema.missing)
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """What each of the D inputs is."""
        return tuple(name for column in self.columns for name in column.inputs)

    def inputs(
        self, columns: Sequence[TableColumn], values: Floats, first_row: int = 1
    ) -> NDArray[np.float32]:
        """Rows that are held as numbers to what a network reads.

        Args:
            columns: what the C columns are, in any order; more than are needed may be there.
            values: float64 [N, C]; NaN where a cell is missing, codes for words.
            first_row: the number of the first row, for messages.

        Returns:
            float32 [N, D].
        """
        width = len(self.input_names)
        size = len(values) * width * np.dtype(np.float32).itemsize
        if size > data_limit():
            raise DataError(
                f"the table becomes {len(values):,} rows of {width:,} inputs, that is "
                f"{gigabytes(size)}; at most {gigabytes(data_limit())}, a quarter of this "
                "machine's memory, are used: keep fewer rows, or leave out columns with many "
                "categories."
            )
        place = {column.name: number for number, column in enumerate(columns)}
        out = np.zeros((len(values), width), np.float32)
        start = 0
        for column in self.columns:
            own = out[:, start : start + len(column.inputs)]
            number = place[column.name]
            if column.kind == "categorical":
                _fill_words(own, column, columns[number].words, values[:, number])
            else:
                _fill_numbers(own, column, values[:, number], first_row)
            start += len(column.inputs)
        return out

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the task."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        columns = [
            {f.name: getattr(column, f.name) for f in fields(column)} for column in self.columns
        ]
        values = own | {"columns": columns}
        return cast(dict[str, Any], _plain(values))

    @classmethod
    def from_json(cls, values: object) -> TablePreparation:
        """The inverse of `to_json`, of values that a file or a message brought."""
        try:
            given = _fields(cls, values)
            columns = tuple(
                _column(_fields(PreparedColumn, column)) for column in _list(given["columns"])
            )
            words = {name: _words(given[name]) for name in ("class_names", "missing")}
            rest = {name: _word(given[name]) for name in ("target", "client", "row_id")}
            if not columns or len(words["class_names"]) < 1:
                raise ValueError("it has no columns or no classes")
            return cls(columns, words["class_names"], missing=words["missing"], **rest)
        except ValueError as error:
            raise DataError(f"this is no preparation of a table: {error}.") from error


def _prepared(column: TableColumn, sums: NumberSums | WordSums) -> PreparedColumn | None:
    """What becomes of a column, or None for one that says nothing."""
    if isinstance(sums, NumberSums) == (column.kind == "categorical"):
        raise DataError(f"column {shown(column.name)} is {column.kind}, but its sums are not.")
    has_missing = sums.missing > 0
    if isinstance(sums, WordSums):
        by_count = sorted(sums.counts, key=lambda word: (-sums.counts[word], word))
        has_other = len(by_count) > MOST_CATEGORIES
        kept = in_order(by_count[: MOST_CATEGORIES - 1] if has_other else by_count)
        if len(kept) + has_missing < 2:
            return None
        return PreparedColumn(
            column.name, column.kind, 0.0, 1.0, kept, has_other=has_other, has_missing=has_missing
        )
    if not sums.present:
        return None
    mean = sums.total / sums.present
    std = math.sqrt(sums.squares / sums.present)
    if not math.isfinite(mean) or not math.isfinite(std):
        raise DataError(
            f"the sums of column {shown(column.name)} are too large to be added; give it a smaller "
            "unit."
        )
    if is_constant(mean, std, _RESOLUTION):
        if not has_missing:
            return None
        std = 0.0
    return PreparedColumn(column.name, column.kind, mean, std, has_missing=has_missing)


def _fill_numbers(
    out: NDArray[np.float32], column: PreparedColumn, values: Floats, first_row: int
) -> None:
    is_missing = np.isnan(values)
    if column.has_missing:
        out[:, -1] = is_missing
    if not column.std:
        return
    with np.errstate(over="ignore"):  # what overflows is told by row
        out[:, 0] = np.where(is_missing, 0.0, (values - column.mean) / column.std)
    is_finite = np.isfinite(out[:, 0])
    if not is_finite.all():
        row = int(np.argmin(is_finite))
        raise DataError(
            f"column {shown(column.name)} holds {values[row]:g} in row {first_row + row}, where "
            f"training had {column.mean:g} give or take {column.std:g}; correct the cell or leave "
            "it empty."
        )


def _fill_words(
    out: NDArray[np.float32], column: PreparedColumn, words: Sequence[str], codes: Floats
) -> None:
    number = {word: place for place, word in enumerate(column.categories)}
    other = len(column.categories) if column.has_other else -1
    to_input: Codes = np.array([*(number.get(word, other) for word in words), -1], np.int64)
    is_missing = np.isnan(codes)
    inputs = to_input[np.where(is_missing, len(words), codes).astype(np.int64)]
    rows = np.flatnonzero(inputs >= 0)
    out[rows, inputs[rows]] = 1.0
    if column.has_missing:
        out[:, -1] = is_missing


def _plain(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: _plain(value) for name, value in values.items()}
    return [_plain(value) for value in values] if isinstance(values, list | tuple) else values


def _fields(kind: type[Any], values: object) -> Mapping[str, object]:
    names = {f.name for f in fields(kind)}
    if not isinstance(values, Mapping) or set(values) != names:
        raise ValueError(f"expected {', '.join(sorted(names))}, found {shown(values)}")
    return values


def _column(values: Mapping[str, object]) -> PreparedColumn:
    kind, mean, std = values["kind"], values["mean"], values["std"]
    if kind not in get_args(ColumnKind):
        raise ValueError(f"a column's kind is {shown(kind)}")
    for number in (mean, std):
        if not isinstance(number, float) or not math.isfinite(number):
            raise ValueError(f"a column has the mean {shown(mean)} and the deviation {shown(std)}")
    if cast(float, std) < 0:
        raise ValueError(f"a column has the deviation {shown(std)}")
    flags = {name: values[name] for name in ("has_other", "has_missing")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"has_other and has_missing are {shown(list(flags.values()))}")
    return PreparedColumn(
        _word(values["name"]),
        cast(ColumnKind, kind),
        cast(float, mean),
        cast(float, std),
        _words(values["categories"]),
        **cast(dict[str, bool], flags),
    )


def _list(values: object) -> Sequence[object]:
    if not isinstance(values, list):
        raise ValueError(f"expected a list, found {shown(values)}")
    return values


def _words(values: object) -> tuple[str, ...]:
    return tuple(_word(value) for value in _list(values))


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {shown(value)}")
    return value
