"""Rows with a class, and the client that holds them, found by the names of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError, shown, unknown_name
from fedcord.data.dataset import Array, Labels, Split
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec
from fedcord.data.tables.examine import examine
from fedcord.data.tables.raw import RawTable, Words, words_of
from fedcord.data.tables.rows import row_names

MOST_CLASSES = 1_000
MANY_CLASSES = 50


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
class LabelledRows:
    """The rows of a table that have a class and, if clients are named, a client.

    Attributes:
        rows: int64 [N], their places in the table.
        labels: int64 [N].
        class_names: of the labels.
        groups: int64 [N] by name: the column of clients.
        group_names: what its numbers stand for.
        names: of the rows; empty when no column names them.
        notes: what was left out.
    """

    rows: Labels
    labels: Labels
    class_names: tuple[str, ...]
    groups: Mapping[str, Labels]
    group_names: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    notes: tuple[str, ...]

    def splits(self, inputs: Array, num_training: int | None) -> tuple[Split, Split]:
        """Training and test part.

        Args:
            inputs: [N, ...] of the labelled rows.
            num_training: how many of the table's first rows are for training; None to hold out a
                fifth of every client's rows of every class.
        """
        if num_training is None:
            parts = self._held_out()
        else:
            is_training = self.rows < num_training
            parts = np.flatnonzero(is_training), np.flatnonzero(~is_training)
        train, test = (self._split(inputs, part) for part in parts)
        return train, test

    def _held_out(self) -> tuple[Labels, Labels]:
        """Training and test rows, client by client: each keeps what it would keep alone."""
        holders = next(iter(self.groups.values()), np.zeros_like(self.labels))
        is_test = np.zeros(len(holders), dtype=bool)
        for holder in np.unique(holders):
            own = np.flatnonzero(holders == holder)
            is_test[own[stratified_test_part(self.labels[own], "table")[1]]] = True
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def _split(self, inputs: Array, part: Labels) -> Split:
        return Split(
            inputs[part],
            self.labels[part],
            {key: group[part] for key, group in self.groups.items()},
            tuple(self.names[place] for place in part) if self.names else (),
            self.rows[part] + 1,
        )


def labelled_rows(
    spec: DatasetSpec, raw: RawTable, options: TableOptions, least_classes: int = 2
) -> LabelledRows:
    """Find every row's class and client; rows that lack one are left out with a note.

    Args:
        spec: names the table.
        raw: its rows.
        options: what its columns are for.
        least_classes: how many the target must have; one of several sites may have a single one.
    """
    target = _target(spec, raw, options, least_classes)
    notes = []
    kept = target.codes >= 0
    if not kept.all():
        notes.append(f"{_rows(~kept)} left out: the target {shown(options.target)} is missing.")
    groups: dict[str, Labels] = {}
    group_names: dict[str, tuple[str, ...]] = {}
    if options.client:
        holders = _clients(spec, raw, options)
        lost = kept & (holders.codes < 0)
        if lost.any():
            notes.append(f"{_rows(lost)} left out: {shown(options.client)} is missing.")
            kept &= ~lost
        holders = holders.kept(kept)
        groups[options.client] = holders.codes[kept]
        group_names[options.client] = holders.words
    if not kept.any():
        raise DataError(f"{spec.path}: no row has both a target and a client; fill these cells.")
    target = target.kept(kept)
    if len(target.words) > MANY_CLASSES:
        notes.append(
            f"the target {shown(options.target)} has {len(target.words)} classes; if it is a "
            "quantity, cut it into a few, such as low and high."
        )
    rows = np.flatnonzero(kept)
    names = row_names(raw, options.row_id) if options.row_id else ()
    return LabelledRows(
        rows,
        target.codes[rows],
        target.words,
        groups,
        group_names,
        tuple(names[row] for row in rows) if names else (),
        tuple(notes),
    )


def _target(spec: DatasetSpec, raw: RawTable, options: TableOptions, least_classes: int) -> Words:
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
    if len(words.words) < least_classes:
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
