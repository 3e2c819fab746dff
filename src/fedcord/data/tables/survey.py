"""Sites that each hold a file of their own agree on what its columns are, and add them up.

Two questions are enough. First every site says what it takes each column for (`TableForm`);
together they agree on one kind each (`agreed_schema`). Then every site sums the cells of its
training rows, read as what was agreed (`site_sums`), and `TablePreparation.from_sums` makes of the
total what a single file with all rows would have given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np

from fedcord.core.errors import ConfigError, DataError, shown
from fedcord.core.names import is_plain
from fedcord.data.tables.cells import listed, read_cells
from fedcord.data.tables.examine import FEW_CODES, Found, examine
from fedcord.data.tables.raw import Codes, RawTable
from fedcord.data.tables.schema import ColumnKind, TableColumn, TableSchema
from fedcord.data.tables.sums import TableSums

_LEFT_OUT = ("identifier", "row number")
_REFUSED: Mapping[Found, str] = {
    "date": "dates",
    "unreadable": "cells that are neither numbers nor words",
}
_WIDEST_FIRST: tuple[ColumnKind, ...] = ("categorical", "numeric", "boolean")


@dataclass(frozen=True)
class TableForm:
    """What a site says of its table before anything is agreed; no cell is in it.

    Attributes:
        target: the column that is to be predicted.
        kinds: what the site takes each of the other columns for.
        missing: words that stand for a missing cell, beyond the usual ones.
        row_id: the column that names rows; empty when there is none.
    """

    target: str
    kinds: Mapping[str, Found]
    missing: tuple[str, ...] = ()
    row_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "target": self.target,
            "kinds": dict(self.kinds),
            "missing": list(self.missing),
            "row_id": self.row_id,
        }

    @classmethod
    def from_json(cls, values: object) -> TableForm:
        """The inverse of `to_json`, of values that anybody may have written."""
        names = {"target", "kinds", "missing", "row_id"}
        if not isinstance(values, Mapping) or set(values) != names:
            raise DataError(f"{shown(values)} is no form of a table.")
        missing = values["missing"]
        words = [values["target"], values["row_id"]]
        words += missing if isinstance(missing, list) else [None]
        if not all(isinstance(word, str) and is_plain(word) for word in words):
            raise DataError(f"{shown(values)} is no form of a table.")
        kinds = _kinds(values["kinds"], get_args(Found))
        return cls(values["target"], cast(dict[str, Found], kinds), tuple(missing), words[1])


def own_kinds(
    raw: RawTable,
    *,
    without: Collection[str],
    categorical: Collection[str] = (),
    missing: Collection[str] = (),
) -> dict[str, Found]:
    """What one site takes its columns for.

    Args:
        raw: its rows.
        without: columns that are no inputs: the target, names of rows, those to leave out.
        categorical: columns whose values are names, even if they look like numbers.
        missing: further words that stand for a missing cell.
    """
    return {
        name: examine(raw, name, categorical=name in categorical, missing=missing).kind
        for name in raw.names
        if name not in without
    }


def agreed_schema(sites: Mapping[str, TableForm]) -> TableSchema:
    """What all sites' tables are, or one ConfigError that names every site that does not fit.

    Args:
        sites: by what messages call it, what each site says of its table.
    """
    (who, first), *others = sites.items()
    problems = []
    for other, form in others:
        if form.target != first.target:
            problems.append(
                f"{other} predicts column {shown(form.target)} and {who} {shown(first.target)}; "
                "name one column under ?target= everywhere."
            )
        if set(form.missing) != set(first.missing):
            problems.append(
                f"{other} takes {_words(form.missing)} for missing cells and {who} "
                f"{_words(first.missing)}; name the same words under ?missing= everywhere."
            )
    if problems:  # the target of one would be an input of the other
        raise ConfigError(problems)
    kinds = agreed_kinds({site: form.kinds for site, form in sites.items()})
    if not kinds:
        raise ConfigError("the sites' tables have no column in common that can be learnt from.")
    row_ids = {form.row_id for form in sites.values()}
    return TableSchema(
        tuple(TableColumn(name, kind) for name, kind in kinds.items()),
        first.target,
        row_id=first.row_id if len(row_ids) == 1 else "",
        missing=first.missing,
    )


def agreed_kinds(sites: Mapping[str, Mapping[str, Found]]) -> dict[str, ColumnKind]:
    """One kind for every column that all sites can learn from.

    Words at one site make words of everybody's numbers; a column that names or numbers rows
    anywhere, or that is empty everywhere, is left out. Whether a column varies is not asked: a site
    with one row could not tell.

    Args:
        sites: by what messages call it, what each site takes its columns for.
    """
    agreed: dict[str, ColumnKind] = {}
    problems = []
    for name in dict.fromkeys(name for kinds in sites.values() for name in kinds):
        found = {site: kinds[name] for site, kinds in sites.items() if name in kinds}
        lacking = [site for site in sites if site not in found]
        if len(lacking) > len(found):
            problems.append(
                f"only {', '.join(found)} has column {shown(name)}; leave it out there with "
                f"?drop={name}, or add it everywhere."
            )
        elif lacking:
            problems.append(
                f"{', '.join(lacking)} has no column {shown(name)}, which others have; add it "
                f"there with empty cells, or leave it out everywhere with ?drop={name}."
            )
        problems += [
            f"column {shown(name)} of {site} holds {_REFUSED[own]}; `fedcord site check` tells "
            f"there what to do, or leave it out everywhere with ?drop={name}."
            for site, own in found.items()
            if own in _REFUSED
        ]
        kinds_found = set(found.values())
        if kinds_found & set(_LEFT_OUT):
            continue
        kind = next((kind for kind in _WIDEST_FIRST if kind in kinds_found), None)
        if kind is not None:
            agreed[name] = kind
    if problems:
        raise ConfigError(problems)
    return agreed


def mixed_columns(sites: Mapping[str, TableForm]) -> list[str]:
    """Which columns hold words at some sites and numbers at others, in words."""
    found = []
    for name in dict.fromkeys(name for form in sites.values() for name in form.kinds):
        by_kind: dict[str, list[str]] = {"categorical": [], "numeric": []}
        for site, form in sites.items():
            by_kind.get(form.kinds[name], []).append(site)
        words, numbers = map(", ".join, by_kind.values())
        if words and numbers:
            found.append(f"column {shown(name)} holds words at {words} and numbers at {numbers}.")
    return found


def as_kinds(values: object) -> dict[str, ColumnKind]:
    """The agreed kinds as a server sent them."""
    return cast(dict[str, ColumnKind], _kinds(values, get_args(ColumnKind)))


def unfit(raw: RawTable, form: TableForm, kinds: Mapping[str, ColumnKind]) -> list[str]:
    """Why a site cannot read its columns as these kinds, without a word of what they hold.

    A site reads no other column than those it has told of. Nor does it take measurements for words:
    their counts would tell every single one.
    """
    lacking = [name for name in kinds if name not in form.kinds]
    problems = [f"it lacks the columns {listed(lacking)}"] if lacking else []
    for name, kind in kinds.items():
        own = form.kinds.get(name, kind)
        if own in _REFUSED:
            problems.append(f"column {shown(name)} holds {_REFUSED[own]} there")
        elif kind != "categorical" and own in ("categorical", "identifier"):
            problems.append(f"column {shown(name)} holds words there, and numbers in the study")
        elif kind == "categorical" and own in ("numeric", "row number"):
            distinct = examine(raw, name, missing=form.missing).distinct
            if distinct > FEW_CODES:
                problems.append(
                    f"column {shown(name)} holds {distinct} different numbers there, and words in "
                    f"the study; write it alike everywhere, or say with ?categorical={name} that "
                    "these numbers are names"
                )
    return problems


def site_sums(
    raw: RawTable, kinds: Mapping[str, ColumnKind], missing: Collection[str], rows: Codes
) -> TableSums:
    """What one site adds up; of the target nothing, as counts of classes are not everybody's.

    Args:
        raw: its rows.
        kinds: of the agreed columns.
        missing: further words that stand for a missing cell.
        rows: the places of the rows it trains on.
    """
    columns, values = read_cells(raw, kinds, missing)
    return TableSums.of(columns, values[rows], (), np.empty(0, np.int64))


def _kinds(values: object, allowed: Collection[str]) -> dict[str, str]:
    if not isinstance(values, Mapping):
        raise DataError(f"{shown(values)} are no columns of a table.")
    for name, kind in values.items():
        if not isinstance(name, str) or not is_plain(name) or kind not in allowed:
            raise DataError(f"{shown(name)}: {shown(kind)} is no column of a table and its kind.")
    return dict(values)


def _words(words: Collection[str]) -> str:
    return ", ".join(map(shown, words)) or "no further words"
