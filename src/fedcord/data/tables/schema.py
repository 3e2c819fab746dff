"""What the columns of a table are and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnKind = Literal["numeric", "boolean", "categorical"]


@dataclass(frozen=True)
class TableColumn:
    """One input column of a table that is held as numbers.

    Attributes:
        name: as in the file's header.
        kind: a boolean column is numeric with the values 0 and 1.
        words: for a categorical column, what its codes 0, 1, … stand for.
    """

    name: str
    kind: ColumnKind
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """The input columns in order, and the columns with a part of their own.

    Attributes:
        columns: of the inputs.
        target: the column that is to be predicted.
        client: the column that says who holds a row; empty when there is none.
        row_id: the column that names rows; empty when there is none.
        missing: words that stand for a missing cell, beyond the usual ones.
    """

    columns: tuple[TableColumn, ...]
    target: str
    client: str = ""
    row_id: str = ""
    missing: tuple[str, ...] = ()
