"""New rows of a table as a network reads them, by a preparation that was made before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError, shown, unknown_name
from fedcord.data.tables.cells import listed, read_cells
from fedcord.data.tables.preparation import PreparedColumn, TablePreparation
from fedcord.data.tables.raw import ABSENT, Codes, RawTable, words_of
from fedcord.data.tables.schema import TableColumn


@dataclass(frozen=True)
class PreparedRows:
    """Rows ready for a network.

    Attributes:
        inputs: float32 [N, D].
        names: of the rows: the column that names them, else their numbers from 1.
        labels: int64 [N], -1 where the target is missing; None when the table has no target.
        notes: what was found and not used, in plain words.
    """

    inputs: NDArray[np.float32]
    names: tuple[str, ...]
    labels: Codes | None
    notes: tuple[str, ...]


def prepare_rows(preparation: TablePreparation, raw: RawTable) -> PreparedRows:
    """Prepare a table, or a part of one, exactly as the training rows were.

    Columns are found by name, in any order. One that training used must be there; any other is left
    alone. A category that training did not have is told in a note, a class is refused.
    """
    kinds = {column.name: column.kind for column in preparation.columns}
    columns, values = read_cells(raw, kinds, preparation.missing)
    roles = {preparation.target, preparation.client, preparation.row_id}
    unused = [name for name in raw.names if name not in {*kinds, *roles}]
    notes = [_unseen(old, new) for old, new in zip(preparation.columns, columns, strict=True)]
    if unused:
        notes.append(f"columns that the model does not use: {listed(unused)}.")
    return PreparedRows(
        preparation.inputs(columns, values, raw.first_row),
        row_names(raw, preparation.row_id),
        _labels(preparation, raw),
        tuple(note for note in notes if note),
    )


def row_names(raw: RawTable, row_id: str) -> tuple[str, ...]:
    """What rows are called: by their own column, or by their number in the file."""
    if row_id and row_id in raw.names:
        names = words_of(raw.column(row_id))
        if (names.codes < 0).any():
            row = raw.first_row + int(np.argmin(names.codes))
            raise DataError(
                f"column {shown(row_id)} names the rows, but its cell in row {row} is empty; fill "
                "it."
            )
        return tuple(names.words[code] for code in names.codes)
    return tuple(str(raw.first_row + row) for row in range(len(raw)))


def _labels(preparation: TablePreparation, raw: RawTable) -> Codes | None:
    if preparation.target not in raw.names:
        return None
    words = words_of(raw.column(preparation.target), preparation.missing)
    number = {name: place for place, name in enumerate(preparation.class_names)}
    for word in words.words:
        if word not in number:
            row = raw.first_row + words.first_row(word)
            raise DataError(
                f"column {shown(preparation.target)}, row {row}: "
                + unknown_name("class", word, preparation.class_names)
                + " The model was trained on these; remove such rows, or train with them."
            )
    to_label = np.array([*(number[word] for word in words.words), ABSENT], np.int64)
    return to_label[words.codes]


def _unseen(old: PreparedColumn, new: TableColumn) -> str:
    if old.kind != "categorical" or old.has_other:
        return ""
    fresh = [word for word in new.words if word not in old.categories]
    if not fresh:
        return ""
    return (
        f"column {shown(old.name)} has categories that training did not have ({listed(fresh)}); "
        "they are taken for none of the known ones."
    )
