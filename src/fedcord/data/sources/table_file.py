"""The user's own tables: `csv:PATH` and `parquet:PATH`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError, shown, unknown_name
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.dataset import Dataset, Labels, Split
from fedcord.data.formats.delimited import read_csv
from fedcord.data.formats.parquet import read_parquet
from fedcord.data.locate import Search
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec
from fedcord.data.tables.examine import Examined, examine
from fedcord.data.tables.raw import RawTable, Words, words_of
from fedcord.data.tables.rows import row_names
from fedcord.data.tables.schema import TableSchema

MOST_CLASSES = 1_000
MANY_CLASSES = 50


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """A table with named columns, one of which is to be predicted (`?target=`).

    `?client=` names the column that says who holds a row, and becomes a group of that name. A fixed
    fifth of every client's rows of every class becomes the test part. Columns named under `?drop=`
    are left out, those under `?categorical=` hold names even if they look like numbers, and `?id=`
    names rows. `?missing=` lists further words that stand for a missing cell.
    """
    return table_dataset(
        readable(user_path(spec.path).stem) or spec.name, spec, read_table(spec)[0]
    )


def read_table(spec: DatasetSpec) -> tuple[RawTable, int | None]:
    """All rows of a table of any format, and how many of the first are for training, if it says."""
    path = user_path(spec.path)
    return (read_csv if spec.name == "csv" else read_parquet)(path), None


@dataclass(frozen=True)
class TableOptions:
    """The options of a table, checked against its columns."""

    target: str
    client: str
    drop: tuple[str, ...]
    categorical: tuple[str, ...]
    row_id: str
    missing: tuple[str, ...]

    @classmethod
    def of(cls, spec: DatasetSpec, names: Sequence[str]) -> TableOptions:
        """From what follows the question mark."""
        options = cls(
            spec.text("target"),
            spec.text("client"),
            spec.texts("drop"),
            spec.texts("categorical"),
            spec.text("id"),
            spec.texts("missing"),
        )
        roles: dict[str, str] = {}
        given = {
            "target": (options.target,),
            "client": (options.client,),
            "drop": options.drop,
            "id": (options.row_id,),
            "categorical": options.categorical,
        }
        for role, columns in given.items():
            for name in filter(None, columns):
                if name not in names:
                    problem = unknown_name(f"column of {spec.path} for {role}", name, names)
                    raise DataError(problem)
                if name in roles:
                    raise DataError(
                        f"column {shown(name)} is named under {roles[name]} and under {role}; name "
                        "it under one."
                    )
                roles[name] = role
        return options

    def role(self, name: str) -> str:
        """What a column is for: an input unless something else is said."""
        if name in self.drop:
            return "dropped"
        roles = {self.target: "target", self.client: "client", self.row_id: "id"}
        return roles.get(name, "input")


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
    raw, _ = read_table(spec)
    options = TableOptions.of(spec, raw.names)
    lines = []
    for name in raw.names:
        found = examine(raw, name, categorical=name in options.categorical, missing=options.missing)
        role = options.role(name)
        advice = (found.problem or found.note) if role == "input" else ""
        if advice:
            role = "refused" if found.problem else "left out"
        lines.append(
            ColumnLine(name, role, found.kind, found.missing, found.distinct, found.summary, advice)
        )
    return lines, len(raw)


def examine_inputs(raw: RawTable, options: TableOptions) -> list[Examined]:
    """What every column that may be learnt from holds."""
    return [
        examine(raw, name, categorical=name in options.categorical, missing=options.missing)
        for name in raw.names
        if options.role(name) == "input"
    ]


def table_dataset(
    name: str, spec: DatasetSpec, raw: RawTable, num_training: int | None = None
) -> Dataset:
    """A data set from a table.

    Args:
        name: what reports call it.
        spec: its options.
        raw: all rows.
        num_training: how many of the first rows are the training part; None to divide them here.
    """
    options = TableOptions.of(spec, raw.names)
    target = _target(spec, raw, options)
    notes = []
    kept = target.codes >= 0
    if not kept.all():
        notes.append(f"{_rows(~kept)} left out: the target {shown(options.target)} is missing.")
    groups: dict[str, Labels] = {}
    group_names: dict[str, tuple[str, ...]] = {}
    if options.client:
        holders = _clients(spec, raw, options)
        if (holders.codes[kept] < 0).any():
            lost = kept & (holders.codes < 0)
            notes.append(f"{_rows(lost)} left out: {shown(options.client)} is missing.")
            kept &= ~lost
        holders = holders.kept(kept)
        groups[options.client], group_names[options.client] = holders.codes, holders.words
    target = target.kept(kept)
    if len(target.words) > MANY_CLASSES:
        notes.append(
            f"the target {shown(options.target)} has {len(target.words)} classes; if it is a "
            "quantity, cut it into a few, such as low and high."
        )
    if not kept.any():
        raise DataError(f"{spec.path}: no row has both a target and a client; fill these cells.")
    examined = examine_inputs(raw, options)
    problems = [found.problem for found in examined if found.problem]
    if problems:
        raise DataError(f"{spec.path}: " + "\n  ".join(problems))
    inputs = [found for found in examined if found.is_input]
    notes += [found.note for found in examined if found.note]
    if not inputs:
        raise DataError(
            f"{spec.path} has no column to learn from; "
            + (" ".join(notes) or "it needs one more than the target.")
        )
    row_of = np.flatnonzero(kept)
    values = np.column_stack([found.values[row_of] for found in inputs if found.values is not None])
    labels = target.codes[row_of]
    if num_training is None:
        strata = labels
        for group in groups.values():
            strata = group[row_of] * len(target.words) + labels
        parts = stratified_test_part(strata, "table")
    else:
        parts = np.flatnonzero(row_of < num_training), np.flatnonzero(row_of >= num_training)
    names = row_names(raw, options.row_id) if options.row_id else ()

    def split(part: Labels) -> Split:
        own = row_of[part]
        return Split(
            values[part],
            labels[part],
            {key: group[own] for key, group in groups.items()},
            tuple(names[row] for row in own) if names else (),
            own + 1,
        )

    return Dataset(
        name=name,
        kind="table",
        train=split(parts[0]),
        test=split(parts[1]),
        class_names=target.words,
        group_names=group_names,
        notes=tuple(notes),
        table=TableSchema(
            tuple(found.column for found in inputs),
            options.target,
            options.client,
            options.row_id,
            options.missing,
        ),
    )


def _target(spec: DatasetSpec, raw: RawTable, options: TableOptions) -> Words:
    """Every row's class."""
    if not options.target:
        raise DataError(
            f"{spec.path}: say which column is to be predicted, with --target COLUMN or "
            f"?target=COLUMN; there are {', '.join(raw.names)}."
        )
    array = raw.column(options.target)
    found = examine(raw, options.target, missing=options.missing)
    if found.kind in ("date", "empty") or (found.kind == "unreadable" and not found.summary):
        raise DataError(
            f"{spec.path}: the target {shown(options.target)} must hold classes, and its cells are "
            + ("missing." if found.kind == "empty" else "no words or whole numbers.")
        )
    values = found.values
    is_whole = values is None or bool(np.all((values == np.rint(values)) | np.isnan(values)))
    words = words_of(array, options.missing)
    too_many = len(words.words) > MOST_CLASSES
    if too_many or (not is_whole and found.kind == "numeric") or found.kind == "identifier":
        raise DataError(
            f"{spec.path}: the target {shown(options.target)} has {len(words.words):,} different "
            f"values ({found.summary}); it must hold classes, at most {MOST_CLASSES:,}: name "
            "another column, or cut the numbers into classes such as low and high."
        )
    if len(words.words) < 2:
        raise DataError(
            f"{spec.path}: the target {shown(options.target)} is {shown(words.words[0])} in every "
            "row; at least two classes are needed."
        )
    return words.sorted()


def _clients(spec: DatasetSpec, raw: RawTable, options: TableOptions) -> Words:
    if "," in options.client:
        raise DataError(
            f"{spec.path}: the column of clients is called {shown(options.client)}; rename it, "
            "without a comma."
        )
    return words_of(raw.column(options.client), options.missing).sorted()


def _rows(which: np.ndarray) -> str:
    count = int(which.sum())
    first = int(np.argmax(which)) + 1
    return f"row {first} is" if count == 1 else f"{count:,} rows, from row {first} on, are"
