"""The cells of columns whose kinds are agreed on, in whichever file they come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fedcord.core.errors import DataError, shown
from fedcord.core.names import readable
from fedcord.data.tables.examine import INPUT_KINDS, examine
from fedcord.data.tables.raw import Floats, RawTable, number_of, words_of
from fedcord.data.tables.schema import ColumnKind, TableColumn

_SHOWN = 5


def read_cells(
    raw: RawTable, kinds: Mapping[str, ColumnKind], missing: Collection[str] = ()
) -> tuple[tuple[TableColumn, ...], Floats]:
    """Columns as numbers, found by their names and read as what they are known to be.

    Args:
        raw: a table, or a part of one; it may have more columns, in any order.
        kinds: what to read, and as what.
        missing: further words that stand for a missing cell.

    Returns:
        What the C columns are, with the words that this table has, and float64 [N, C].
    """
    lacking = [name for name in kinds if name not in raw.names]
    if lacking:
        raise DataError(
            f"the table lacks {listed(lacking)}, of which the model learns; it has "
            f"{listed(raw.names)}: add the missing columns, with empty cells where nothing is "
            "known."
        )
    columns: list[TableColumn] = []
    values = np.empty((len(raw), len(kinds)))
    for place, (name, kind) in enumerate(kinds.items()):
        words, values[:, place] = _cells(raw, name, kind, missing)
        columns.append(TableColumn(name, kind, words))
    return tuple(columns), values


def _cells(
    raw: RawTable, name: str, kind: ColumnKind, missing: Collection[str]
) -> tuple[tuple[str, ...], Floats]:
    is_categorical = kind == "categorical"
    found = examine(raw, name, categorical=is_categorical, missing=missing)
    if found.kind == "empty":
        return (), np.full(len(raw), np.nan)
    if found.problem and (is_categorical or found.kind == "unreadable"):
        raise DataError(found.problem)
    is_number = found.kind in INPUT_KINDS and found.kind != "categorical"
    if is_categorical or is_number or found.kind == "row number":
        assert found.values is not None
        return found.words, found.values
    words = words_of(raw.column(name), missing)
    odd = (word for word in words.words if number_of(word, raw.decimal_comma) is None)
    word = next(odd, words.words[0])
    raise DataError(
        f"column {shown(name)} is {kind}, but row {raw.first_row + words.first_row(word)} holds "
        f"{shown(word)}; correct the cell or leave it empty."
    )


def listed(names: Sequence[str]) -> str:
    """The first few names."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(readable(name) for name in names[:_SHOWN]) + more
