"""Sites that each hold a file of their own agree on what its columns are, and add them up.

Two questions are enough. First every site says what it takes each column for; together they agree
on one kind each (`agreed_kinds`). Then every site sums the cells of its training rows, read as what
was agreed (`site_sums`), and `TablePreparation.from_sums` makes of the total what a single file
with all rows would have given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedcord.core.errors import DataError, shown
from fedcord.data.tables.cells import read_cells
from fedcord.data.tables.examine import Found, examine
from fedcord.data.tables.raw import Codes, RawTable, words_of
from fedcord.data.tables.schema import ColumnKind, TableSchema
from fedcord.data.tables.sums import TableSums

_LEFT_OUT = ("identifier", "row number")
_WIDEST_FIRST: tuple[ColumnKind, ...] = ("categorical", "numeric", "boolean")


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


def agreed_kinds(sites: Mapping[str, Mapping[str, Found]]) -> dict[str, ColumnKind]:
    """One kind for every column that all sites can learn from.

    Words at one site make words of everybody's numbers; a column that names or numbers rows
    anywhere, or that is empty everywhere, is left out. Whether a column varies is not asked: a site
    with one row could not tell.

    Args:
        sites: for each site by name, what it takes its columns for.
    """
    agreed: dict[str, ColumnKind] = {}
    for name in dict.fromkeys(name for kinds in sites.values() for name in kinds):
        found = {site: kinds.get(name) for site, kinds in sites.items()}
        for site, own in found.items():
            if own is None:
                raise DataError(
                    f"{shown(site)} has no column {shown(name)}, which others have; add it there "
                    "with empty cells, or leave it out everywhere."
                )
            if own in ("date", "unreadable"):
                raise DataError(
                    f"column {shown(name)} of {shown(site)} holds "
                    f"{'dates' if own == 'date' else 'cells that are neither numbers nor words'}; "
                    "change it there, or leave it out everywhere."
                )
        kinds_found = set(found.values())
        if kinds_found & set(_LEFT_OUT):
            continue
        kind = next((kind for kind in _WIDEST_FIRST if kind in kinds_found), None)
        if kind is not None:
            agreed[name] = kind
    return agreed


def site_sums(raw: RawTable, schema: TableSchema, rows: Codes) -> TableSums:
    """What one site adds up.

    Args:
        raw: its rows.
        schema: the agreed columns; their words are not looked at.
        rows: the places of the rows it trains on, all of which have a target.
    """
    kinds = {column.name: column.kind for column in schema.columns}
    columns, values = read_cells(raw, kinds, schema.missing)
    if schema.target not in raw.names:
        raise DataError(f"the table lacks the target {shown(schema.target)}; add the column.")
    target = words_of(raw.column(schema.target), schema.missing)
    return TableSums.of(columns, values[rows], target.words, target.codes[rows])
