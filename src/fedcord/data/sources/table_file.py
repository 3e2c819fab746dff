"""The user's own tables: `csv:PATH`, `parquet:PATH`, and those saved by Hugging Face `datasets`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.dataset import Dataset
from fedcord.data.formats.delimited import read_csv
from fedcord.data.formats.parquet import read_parquet
from fedcord.data.formats.saved_dataset import read_saved
from fedcord.data.locate import Search
from fedcord.data.sources.labelled_rows import TableOptions, labelled_rows
from fedcord.data.spec import DatasetSpec, as_option
from fedcord.data.tables.examine import examine
from fedcord.data.tables.raw import RawTable
from fedcord.data.tables.schema import TableSchema


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """A table with named columns, one of which is to be predicted (`?target=`).

    `?client=` names the column that says who holds a row, and becomes a group of that name. A fixed
    fifth of every client's rows of every class becomes the test part. Columns named under `?drop=`
    are left out, those under `?categorical=` hold names even if they look like numbers, and `?id=`
    names rows. `?missing=` lists further words that stand for a missing cell.
    """
    return table_dataset(read_table(spec))


@dataclass(frozen=True)
class TableSource:
    """A table of any format.

    Attributes:
        spec: its name and options; a format that knows its target adds it.
        raw: all rows.
        num_training: how many of the first are for training; None when the format does not say.
        pictures: columns that hold pictures.
    """

    spec: DatasetSpec
    raw: RawTable
    num_training: int | None = None
    pictures: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What reports call it."""
        return readable(user_path(self.spec.path).stem) or self.spec.name


def read_table(spec: DatasetSpec) -> TableSource:
    """All rows of a table."""
    path = user_path(spec.path)
    if spec.name != "hf":
        return TableSource(spec, (read_csv if spec.name == "csv" else read_parquet)(path))
    saved = read_saved(path)
    if "target" not in spec.options and len(saved.classes) == 1:
        spec = replace(spec, options={**spec.options, "target": as_option(saved.classes[0])})
    return TableSource(spec, saved.raw, saved.num_training, saved.pictures)


@dataclass(frozen=True)
class ColumnLine:
    """What `fedcord inspect` says of a column.

    Attributes:
        name: of the column.
        role: input, left out, refused, dropped, target, client or id.
        kind: what it holds.
        missing: how many cells are.
        distinct: how many different values there are.
        summary: its range or its most frequent words.
        advice: why it is refused or left out.
    """

    name: str
    role: str
    kind: str
    missing: int
    distinct: int
    summary: str
    advice: str


def table_columns(spec: DatasetSpec) -> tuple[list[ColumnLine], int]:
    """Every column of a table and the number of rows, whether or not it can be trained on."""
    source = read_table(spec)
    raw, options = source.raw, TableOptions.of(source.spec, source.raw.names)
    pictures = {name for name in source.pictures if options.role(name) == "input"}
    lines = []
    for name in raw.names:
        role = options.role(name)
        if name in pictures:
            lines.append(ColumnLine(name, role, "pictures", 0, len(raw), "", ""))
            continue
        found = examine(raw, name, categorical=name in options.categorical, missing=options.missing)
        advice = (found.problem or found.note) if role == "input" and not pictures else ""
        if advice:
            role = "refused" if found.problem else "left out"
        elif role == "input" and pictures:
            role = "left out"
        lines.append(
            ColumnLine(name, role, found.kind, found.missing, found.distinct, found.summary, advice)
        )
    return lines, len(raw)


def table_dataset(source: TableSource) -> Dataset:
    """A data set from a table."""
    spec, raw = source.spec, source.raw
    options = TableOptions.of(spec, raw.names)
    labelled = labelled_rows(spec, raw, options)
    examined = [
        examine(raw, name, categorical=name in options.categorical, missing=options.missing)
        for name in raw.names
        if options.role(name) == "input"
    ]
    problems = [found.problem for found in examined if found.problem]
    if problems:
        raise DataError(f"{spec.path}: " + "\n  ".join(problems))
    notes = [*labelled.notes, *(found.note for found in examined if found.note)]
    inputs = [found for found in examined if found.is_input]
    if not inputs:
        raise DataError(
            f"{spec.path} has no column to learn from; "
            + (" ".join(notes) or "it needs one more than the target.")
        )
    columns = [found.values[labelled.rows] for found in inputs if found.values is not None]
    train, test = labelled.splits(np.column_stack(columns), source.num_training)
    return Dataset(
        name=source.name,
        kind="table",
        train=train,
        test=test,
        class_names=labelled.class_names,
        group_names=labelled.group_names,
        notes=tuple(notes),
        table=TableSchema(
            tuple(found.column for found in inputs),
            options.target,
            options.client,
            options.row_id,
            options.missing,
        ),
    )
