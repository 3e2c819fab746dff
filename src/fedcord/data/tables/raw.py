"""A table as a file has it, and its cells column by column, whatever their Arrow type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.core.names import readable

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MISSING_WORDS = ("", "?", ".", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null")
"""Cells that say nothing, in any column. "None" is not among them: it can be an answer."""
FLAGS = {"false": 0.0, "true": 1.0}
ABSENT = -1
"""The code of a missing cell."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"(-?\d+)\.0+", re.ASCII)


def pyarrow() -> ModuleType:
    """The library that reads tables, an extra of this package."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise DataError(
            "tables are read with pyarrow, which is not installed; get it with: "
            "pip install 'fedcord[tables]'."
        ) from error
    found: ModuleType = pyarrow
    return found


@dataclass(frozen=True)
class RawTable:
    """Rows as they were read, before anything is known of their columns.

    Attributes:
        table: a `pyarrow.Table`; the columns of a CSV file are all text.
        decimal_comma: whether `1,5` can be a number, as in files whose cells are divided by
            something else.
        first_row: the number of the first row in its file, for messages; rows count from 1 and the
            header is none.
    """

    table: Any
    decimal_comma: bool = False
    first_row: int = 1

    @classmethod
    def of_frame(cls, frame: object) -> RawTable:
        """A pandas data frame, without its index."""
        return cls(pyarrow().Table.from_pandas(frame, preserve_index=False))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, in the file's order."""
        return tuple(self.table.column_names)

    def column(self, name: str) -> Any:
        """One column as a single Arrow array; dictionaries of text stay dictionaries."""
        pa = pyarrow()
        chunked = self.table.column(name)
        array = chunked.unify_dictionaries().combine_chunks()
        # of no chunks or several, combine_chunks may still give a list of chunks
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
        return array


@dataclass(frozen=True)
class Words:
    """A column by its distinct texts.

    Attributes:
        words: each once, in no particular order.
        codes: int64 [N], the place of each row's word; -1 where the cell is missing.
    """

    words: tuple[str, ...]
    codes: Codes

    def first_row(self, word: str) -> int:
        """The place of the first row that has the word."""
        return int(np.argmax(self.codes == self.words.index(word)))

    def counts(self) -> Codes:
        """How many rows have each word."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.words))

    def kept(self, rows: NDArray[np.bool_]) -> Words:
        """The same rows, of which all others become missing; only words that are left."""
        codes = np.where(rows, self.codes, ABSENT)
        used, places = np.unique(codes[codes >= 0], return_inverse=True)
        if len(used) < len(self.words):
            codes[codes >= 0] = places
        return Words(tuple(self.words[place] for place in used), codes)

    def sorted(self) -> Words:
        """The same cells, words in the order of `in_order`."""
        names = in_order(self.words)
        place = {word: number for number, word in enumerate(names)}
        to_new = np.array([*(place[word] for word in self.words), ABSENT], np.int64)
        return Words(names, to_new[self.codes])


def in_order(words: Iterable[str]) -> tuple[str, ...]:
    """Whole numbers by size, then everything else by its letters.

    >>> in_order(["b", "10", "9", "a"])
    ('9', '10', 'a', 'b')
    """

    def key(word: str) -> tuple[bool, int, str]:
        is_whole = re.fullmatch(r"-?\d{1,18}", word, re.ASCII) is not None
        return not is_whole, int(word) if is_whole else 0, word

    return tuple(sorted(words, key=key))


def canonical(text: str) -> str:
    """A cell's text as a word, the same for what programs write in several ways.

    >>> canonical("1.0"), canonical("TRUE"), canonical(" A ")
    ('1', 'true', 'A')
    """
    text = text.strip()
    if text.lower() in FLAGS:
        return text.lower()
    whole = _WHOLE.fullmatch(text)
    text = whole[1] if whole else text
    return text if text.isprintable() else readable(text)  # the check is fast, the rest is not


def is_textual(array: Any) -> bool:
    """Whether an Arrow array holds text, in full or by a dictionary."""
    types = pyarrow().types
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_numeric(array: Any) -> bool:
    """Whether an Arrow array holds numbers."""
    types = pyarrow().types
    kind = array.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def words_of(array: Any, missing: Collection[str] = ()) -> Words:
    """The distinct texts of a column of text, numbers or true and false.

    Args:
        array: an Arrow array.
        missing: further words that stand for a missing cell.
    """
    pa = pyarrow()
    if is_numeric(array) and not pa.types.is_integer(array.type):
        return _words_of_numbers(stored_numbers(array, missing))
    if not is_textual(array):
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    absent = {*MISSING_WORDS, *missing}
    place: dict[str, int] = {}
    to_code = np.full(len(array.dictionary) + 1, ABSENT, np.int64)
    for number, text in enumerate(array.dictionary.to_pylist()):
        if text is not None and text.strip() not in absent:
            to_code[number] = place.setdefault(canonical(text), len(place))
    indices = array.indices.cast(pa.int64()).fill_null(len(array.dictionary))
    codes = to_code[indices.to_numpy(zero_copy_only=False)]
    return Words(tuple(place), codes).kept(codes >= 0)  # of a dictionary, some may not be used


def _words_of_numbers(values: Floats) -> Words:
    is_there = ~np.isnan(values)
    found, places = np.unique(values[is_there], return_inverse=True)
    codes = np.full(len(values), ABSENT, np.int64)
    codes[is_there] = places
    return Words(tuple(canonical(repr(float(value))) for value in found), codes)


def stored_numbers(array: Any, missing: Collection[str] = ()) -> Floats:
    """A column of numbers, or of true and false, as float64; NaN is a missing cell."""
    pa = pyarrow()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    cells = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values: Floats = np.array(cells, np.float64)
    for word in missing:
        if _NUMBER.fullmatch(word):
            values[values == float(word)] = np.nan
    return values


def plain_numbers(array: Any, missing: Collection[str] = ()) -> Floats | None:
    """A column of text that holds nothing but numbers, or None: the fast way for a million rows."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        return None  # made of few distinct texts, which are read one by one
    text = pa.compute.utf8_trim_whitespace(array)
    absent = pa.compute.is_in(text, pa.array([*MISSING_WORDS, *missing], text.type))
    try:
        values = pa.compute.if_else(absent, pa.scalar(None, text.type), text).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.array(values.to_numpy(zero_copy_only=False), np.float64)


def number_of(word: str, decimal_comma: bool) -> float | None:
    """The number a cell's text stands for, or None.

    >>> number_of("1,5", True), number_of("1,5", False)
    (1.5, None)
    """
    if _NUMBER.fullmatch(word):
        return float(word)
    if decimal_comma and _COMMA_NUMBER.fullmatch(word):
        return float(word.replace(",", "."))
    return None
