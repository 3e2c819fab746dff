"""What each client adds up over the rows it trains on, and nothing more about them.

A site answers a survey with these numbers; the numbers of all sites together decide how every
column is scaled and which categories there are.

Of a numeric column a client gives how many cells it has, Σx, and Σ(x − its own mean)². The last
says the same as Σx², without losing the spread of a column that lies far from zero; two of them add
by (Chan, Golub and LeVeque 1983)

    S = S₁ + S₂ + (m₂ − m₁)² n₁ n₂ / (n₁ + n₂).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcord.core.errors import DataError, shown
from fedcord.core.names import is_plain
from fedcord.data.tables.raw import Codes, Floats
from fedcord.data.tables.schema import TableColumn

LARGEST_COUNT = 2**53


@dataclass(frozen=True)
class NumberSums:
    """Of one numeric or boolean column.

    Attributes:
        present: cells with a number (n).
        missing: cells without.
        total: Σx.
        squares: Σ(x − total/n)².
    """

    present: int = 0
    missing: int = 0
    total: float = 0.0
    squares: float = 0.0

    @property
    def cells(self) -> int:
        """All of them."""
        return self.present + self.missing

    @classmethod
    def of(cls, values: Floats) -> NumberSums:
        """From cells [n], NaN where missing."""
        numbers = values[~np.isnan(values)]
        if not len(numbers):
            return cls(missing=len(values))
        total = float(numbers.sum())
        squares = float(((numbers - total / len(numbers)) ** 2).sum())
        return cls(len(numbers), len(values) - len(numbers), total, squares)

    def __add__(self, other: NumberSums) -> NumberSums:
        missing, present = self.missing + other.missing, self.present + other.present
        if not self.present or not other.present:
            one = self if self.present else other
            return NumberSums(present, missing, one.total, one.squares)
        apart = other.total / other.present - self.total / self.present
        between = apart * apart * self.present * other.present / present
        squares = self.squares + other.squares + between
        return NumberSums(present, missing, self.total + other.total, squares)


@dataclass(frozen=True)
class WordSums:
    """Of one categorical column: how many cells have each word, and how many are missing."""

    missing: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """All of them."""
        return self.missing + sum(self.counts.values())

    @classmethod
    def of(cls, codes: Floats, words: Sequence[str]) -> WordSums:
        """From codes [n], NaN where missing; only words that occur are told."""
        is_there = ~np.isnan(codes)
        counts = np.bincount(codes[is_there].astype(np.int64), minlength=len(words))
        told = {word: count for word, count in zip(words, counts.tolist(), strict=True) if count}
        return cls(int((~is_there).sum()), told)

    def __add__(self, other: WordSums) -> WordSums:
        return WordSums(
            self.missing + other.missing, dict(Counter(self.counts) + Counter(other.counts))
        )


ColumnSums = NumberSums | WordSums


@dataclass(frozen=True)
class TableSums:
    """Of all input columns and of the target, over one client's training rows or several's.

    Attributes:
        columns: by name, in the order of the inputs.
        classes: how many rows have each value of the target.
    """

    columns: Mapping[str, ColumnSums]
    classes: Mapping[str, int]

    @classmethod
    def of(
        cls,
        columns: Sequence[TableColumn],
        values: Floats,
        class_names: Sequence[str],
        labels: Codes,
    ) -> TableSums:
        """Of rows that are held as numbers.

        Args:
            columns: what the C columns are.
            values: float64 [n, C]; NaN where a cell is missing, codes for words.
            class_names: of the labels.
            labels: int64 [n].
        """
        sums: dict[str, ColumnSums] = {}
        for place, column in enumerate(columns):
            cells = values[:, place]
            sums[column.name] = (
                WordSums.of(cells, column.words)
                if column.kind == "categorical"
                else NumberSums.of(cells)
            )
        return cls(sums, WordSums.of(labels.astype(np.float64), class_names).counts)

    def __add__(self, other: TableSums) -> TableSums:
        columns: dict[str, ColumnSums] = {}
        for name in dict.fromkeys([*self.columns, *other.columns]):
            one, two = self.columns.get(name), other.columns.get(name)
            if one is None or two is None or type(one) is not type(two):
                raise DataError(
                    f"column {shown(name)} is {_kind(one)} for one client and {_kind(two)} for "
                    "another; bring the files of all clients to the same columns, or name it under "
                    "?categorical= or ?drop= everywhere."
                )
            columns[name] = one + two  # type: ignore[operator]  # of one type, as was just seen
        return TableSums(columns, dict(Counter(self.classes) + Counter(other.classes)))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        columns: dict[str, Any] = {}
        for name, sums in self.columns.items():
            if isinstance(sums, NumberSums):
                columns[name] = {
                    "present": sums.present,
                    "missing": sums.missing,
                    "total": sums.total,
                    "squares": sums.squares,
                }
            else:
                columns[name] = {"missing": sums.missing, "counts": dict(sums.counts)}
        return {"columns": columns, "classes": dict(self.classes)}

    @classmethod
    def from_json(cls, values: object) -> TableSums:
        """The inverse of `to_json`, of values that anybody may have written."""
        try:
            if not isinstance(values, Mapping) or set(values) != {"columns", "classes"}:
                raise ValueError("expected the keys columns and classes")
            columns = {
                _name(name): _column_sums(name, sums) for name, sums in _items(values["columns"])
            }
            return cls(columns, _counts("classes", values["classes"]))
        except (ValueError, OverflowError) as error:
            raise DataError(f"these are no sums of a table: {error}.") from error


def _kind(sums: ColumnSums | None) -> str:
    if sums is None:
        return "not there"
    return "numeric" if isinstance(sums, NumberSums) else "categorical"


def _column_sums(name: object, sums: object) -> ColumnSums:
    if isinstance(sums, Mapping) and set(sums) == {"missing", "counts"}:
        return WordSums(_count(name, sums["missing"]), _counts(name, sums["counts"]))
    if not isinstance(sums, Mapping) or set(sums) != {"present", "missing", "total", "squares"}:
        raise ValueError(
            f"column {shown(name)} needs present, missing, total and squares, or missing and counts"
        )
    numbers = [sums["total"], sums["squares"]]
    if any(type(n) not in (int, float) or not math.isfinite(n) for n in numbers) or numbers[1] < 0:
        raise ValueError(f"column {shown(name)} has the total and squares {shown(numbers)}")
    present = _count(name, sums["present"])
    if not present and any(numbers):
        raise ValueError(f"column {shown(name)} has a total and no cells")
    return NumberSums(present, _count(name, sums["missing"]), *map(float, numbers))


def _counts(name: object, counts: object) -> dict[str, int]:
    return {_name(word): _count(name, count, least=1) for word, count in _items(counts)}


def _items(values: object) -> list[tuple[object, object]]:
    if not isinstance(values, Mapping):
        raise ValueError(f"expected a table of values, found {shown(values)}")
    return list(values.items())


def _name(name: object) -> str:
    if not isinstance(name, str) or not is_plain(name):
        raise ValueError(f"{shown(name)} is no name")
    return name


def _count(name: object, count: object, least: int = 0) -> int:
    if type(count) is not int or not least <= count <= LARGEST_COUNT:
        raise ValueError(f"{shown(name)} has the count {shown(count)}")
    return count
