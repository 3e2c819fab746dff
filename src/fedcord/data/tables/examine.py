"""What kind of thing each column of a table holds, found by looking at all of its cells.

A column that would train badly without saying so (a date, a number with a few words in it, a
quantity in place of classes) is refused with advice; one that cannot help (an identifier, nothing
but missing cells) is left out with a note.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from fedcord.core.errors import shown
from fedcord.data.tables.raw import (
    FLAGS,
    Floats,
    RawTable,
    Words,
    is_numeric,
    is_textual,
    number_of,
    plain_numbers,
    pyarrow,
    stored_numbers,
    words_of,
)
from fedcord.data.tables.schema import ColumnKind, TableColumn

Found = Literal[
    "numeric", "boolean", "categorical", "date", "identifier", "row number", "empty", "unreadable"
]
INPUT_KINDS = ("numeric", "boolean", "categorical")

LARGEST_NUMBER = float(np.finfo(np.float32).max)
LONGEST_WORD = 1_000
FEW_CODES = 10
"""Of so few distinct whole numbers, each may stand for a category."""
FEW_ROWS = 20
"""In so few rows, all texts may differ by chance."""
_MOSTLY = 0.5
_SHOWN_WORDS = 3
_SAMPLE = 1_000
"""Of distinct words, enough to tell whether most are dates."""

_DATES = (
    re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?", re.ASCII),
    re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( \d{1,2}:\d{2}.*)?", re.ASCII),
    re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", re.ASCII),
    re.compile(r"\d{1,2}[- ][A-Za-z]{3,9}\.?[- ,]+(\d{4}|\d{2})", re.ASCII),
)


@dataclass(frozen=True)
class Examined:
    """One column and what was found in it.

    Attributes:
        name: of the column.
        kind: what it holds.
        values: float64 [N]; a categorical column's codes; NaN where the cell is missing. None when
            the column is no input.
        words: what codes stand for.
        missing: how many cells are.
        distinct: how many different values there are.
        summary: its range, or its most frequent words.
        problem: why it cannot be used, and what to do; empty when it can.
        note: why it is left out; empty when it is not.
    """

    name: str
    kind: Found
    values: Floats | None = None
    words: tuple[str, ...] = ()
    missing: int = 0
    distinct: int = 0
    summary: str = ""
    problem: str = ""
    note: str = ""

    @property
    def is_input(self) -> bool:
        """Whether the column can be learnt from."""
        return self.values is not None and not self.problem and not self.note

    @property
    def column(self) -> TableColumn:
        """What a schema says of it."""
        return TableColumn(self.name, cast(ColumnKind, self.kind), self.words)


def examine(
    raw: RawTable, name: str, *, categorical: bool = False, missing: Collection[str] = ()
) -> Examined:
    """Look at one column.

    Args:
        raw: the table.
        name: of the column.
        categorical: whether its values are names, even if they look like numbers.
        missing: further words that stand for a missing cell.
    """
    types = pyarrow().types
    array = raw.column(name)
    if types.is_temporal(array.type):
        return _date(name, len(array.unique().drop_null()), array.null_count)
    if types.is_null(array.type):
        return _empty(name, len(array))
    if not (is_textual(array) or is_numeric(array) or types.is_boolean(array.type)):
        return Examined(
            name,
            "unreadable",
            summary=str(array.type),
            problem=f"column {shown(name)} holds {array.type}, neither numbers nor words; leave it "
            f"out with ?drop={name}, or write one column per number.",
        )
    if categorical:
        return _categorical(name, words_of(array, missing).sorted())
    if types.is_boolean(array.type):
        return _numeric(raw, name, stored_numbers(array, missing), "boolean")
    if is_numeric(array):
        return _numeric(raw, name, stored_numbers(array, missing), "numeric")
    return _text(raw, name, array, missing)


def _text(raw: RawTable, name: str, array: Any, missing: Collection[str]) -> Examined:
    values = plain_numbers(array, missing)
    if values is not None:
        return _numeric(raw, name, values, "numeric")
    words = words_of(array, missing)
    if not words.words:
        return _empty(name, len(array))
    if set(words.words) <= set(FLAGS):
        of_word = [FLAGS[word] for word in words.words]
        return _numeric(raw, name, _spread(of_word, words), "boolean")
    found = [number_of(word, raw.decimal_comma) for word in words.words]
    if all(number is not None for number in found):
        has_both = any("," in w for w in words.words) and any("." in w for w in words.words)
        if not has_both:
            return _numeric(raw, name, _spread(cast(list[float], found), words), "numeric")
    sample = words.words[:_SAMPLE]
    looks_dated = sum(any(form.fullmatch(word) for form in _DATES) for word in sample)
    if looks_dated > _MOSTLY * len(sample):
        return _date(name, len(words.words), int((words.codes < 0).sum()))
    problem = _almost_numbers(raw, name, words, found)
    if problem:
        return Examined(name, "unreadable", summary=_frequent(words), problem=problem)
    is_there = int((words.codes >= 0).sum())
    if is_there > FEW_ROWS and len(words.words) == is_there:
        return Examined(
            name,
            "identifier",
            missing=len(array) - is_there,
            distinct=is_there,
            summary=f"{', '.join(word[:20] for word in words.words[:_SHOWN_WORDS])}, …",
            note=f"column {shown(name)} is left out: every row has another text, so nothing can be "
            f"learnt from it; ?id={name} names rows by it.",
        )
    return _categorical(name, words.sorted())


def _numeric(raw: RawTable, name: str, values: Floats, kind: Found) -> Examined:
    is_there = ~np.isnan(values)
    if not is_there.any():
        return _empty(name, len(values))
    present = values[is_there]
    too_large = np.abs(values) > LARGEST_NUMBER  # infinity too
    if too_large.any():
        row = int(np.argmax(too_large))
        return Examined(
            name,
            "unreadable",
            problem=f"column {shown(name)} holds {values[row]:g} in row {raw.first_row + row}; "
            f"numbers must be finite and at most {LARGEST_NUMBER:.2g}: correct the cell or leave "
            "it empty.",
        )
    distinct = len(np.unique(present))
    low, high = float(present.min()), float(present.max())
    is_whole = bool(np.all(present == np.rint(present)))
    summary = f"{low:g} to {high:g}"
    if kind == "boolean":
        summary = f"{present.mean():.1%} true"
    elif is_whole and 2 < distinct <= FEW_CODES:
        summary += f", {distinct} whole numbers: ?categorical={name} if they are codes"
    is_row_number = is_whole and len(values) > FEW_ROWS and bool(np.all(np.diff(values) == 1))
    note = ""
    if is_row_number:
        kind = "row number"
        note = f"column {shown(name)} is left out: it numbers the rows."
    elif distinct == 1 and is_there.all():
        note = f"column {shown(name)} is left out: it is {low:g} in every row."
    return Examined(
        name, kind, values, (), int((~is_there).sum()), distinct, summary=summary, note=note
    )


def _categorical(name: str, words: Words) -> Examined:
    missing = int((words.codes < 0).sum())
    if not words.words:
        return _empty(name, missing)
    longest = max(words.words, key=len)
    if len(longest) > LONGEST_WORD:
        return Examined(
            name,
            "unreadable",
            problem=f"column {shown(name)} holds texts of up to {len(longest):,} characters, first "
            f"in row {words.first_row(longest) + 1}; categories have at most {LONGEST_WORD:,}: "
            f"leave it out with ?drop={name}.",
        )
    note = ""
    if len(words.words) == 1 and not missing:
        note = f"column {shown(name)} is left out: it is {shown(words.words[0])} in every row."
    values = words.codes.astype(np.float64)
    values[words.codes < 0] = np.nan
    return Examined(
        name,
        "categorical",
        values,
        words.words,
        missing,
        len(words.words),
        _frequent(words),
        note=note,
    )


def _date(name: str, distinct: int, missing: int) -> Examined:
    return Examined(
        name,
        "date",
        missing=missing,
        distinct=distinct,
        problem=f"column {shown(name)} holds dates or times, which mean nothing to a network by "
        "themselves; turn them into a number such as an age or the days since admission, or leave "
        f"the column out with ?drop={name}.",
    )


def _empty(name: str, rows: int) -> Examined:
    note = f"column {shown(name)} is left out: all of its cells are missing."
    return Examined(name, "empty", missing=rows, note=note)


def _almost_numbers(raw: RawTable, name: str, words: Words, found: list[float | None]) -> str:
    """Why a column that is mostly numbers is none, or nothing.

    Taken for categories, every measurement would become a word of its own.
    """
    counts = words.counts()
    is_number = np.array([number is not None for number in found])
    many = int(is_number.sum()) > FEW_CODES
    if not many or counts[is_number].sum() <= _MOSTLY * counts.sum():
        return ""
    odd = [word for word, number in zip(words.words, found, strict=True) if number is None]
    advice = f"add ?missing={odd[0]} if that means missing, or " if odd else ""
    if not odd:  # numbers with points and numbers with commas
        odd = [next(w for w in words.words if mark in w) for mark in ".,"]
    cells = ", ".join(
        f"{shown(word)} in row {raw.first_row + words.first_row(word)}"
        for word in odd[:_SHOWN_WORDS]
    )
    more = f" and {len(odd) - _SHOWN_WORDS} more" if len(odd) > _SHOWN_WORDS else ""
    return (
        f"column {shown(name)} holds numbers and also {cells}{more}; correct these cells, {advice}"
        f"say that the values are categories with ?categorical={name}."
    )


def _spread(of_word: list[float], words: Words) -> Floats:
    """Numbers of the distinct words, to the rows."""
    return np.array([*of_word, np.nan])[words.codes]


def _frequent(words: Words) -> str:
    counts = words.counts()
    order = np.argsort(-counts, kind="stable")[:_SHOWN_WORDS]
    listed = ", ".join(f"{words.words[place][:20]} {counts[place]:,}" for place in order)
    more = len(words.words) - _SHOWN_WORDS
    return f"{listed}{f' and {more} more' if more > 0 else ''}"
