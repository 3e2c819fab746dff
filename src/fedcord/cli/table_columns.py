"""The columns of a table, as `fedcord inspect` shows them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcord.data.sources.table_file import ColumnLine

MAX_COLUMNS = 100
"""Columns printed in the terminal; `--json` has all."""
STYLES = {"target": "green", "client": "green", "refused": "red", "left out": "yellow"}


@dataclass(frozen=True)
class Columns:
    """What was found in a table's columns."""

    lines: list[ColumnLine]
    num_rows: int

    @property
    def has_target(self) -> bool:
        """Whether it is known which column is to be predicted."""
        return any(line.role == "target" for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"rows": self.num_rows, "columns": [asdict(line) for line in self.lines]}


def columns_of(spec: str) -> Columns | None:
    """The columns of a table; None for data of another kind."""
    from fedcord.data.registry import TABLES, check_spec, reading

    if spec.partition(":")[0] not in TABLES:
        return None
    from fedcord.data.sources.table_file import table_columns

    parsed, _ = check_spec(spec)
    with reading(spec):
        return Columns(*table_columns(parsed))


def show_columns(columns: Columns) -> None:
    """Print one line per column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(title=f"{columns.num_rows:,} rows", box=None, pad_edge=False)
    for name in ("column", "used as", "kind"):
        table.add_column(name, no_wrap=True)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("distinct", justify="right", no_wrap=True)
    table.add_column("values")
    for line in columns.lines[:MAX_COLUMNS]:
        share = line.missing / columns.num_rows
        table.add_row(
            Text(line.name),  # a name may hold square brackets, which are not ours
            Text(line.role, style=STYLES.get(line.role, "")),
            line.kind,
            f"{share:.1%}" if line.missing else "–",
            f"{line.distinct:,}",
            Text(line.summary),
        )
    console.print(table)
    if len(columns.lines) > MAX_COLUMNS:
        console.print(f"… and {len(columns.lines) - MAX_COLUMNS} more columns")
    if not columns.has_target:
        for line in columns.lines:  # with a target, whoever loads the table tells
            if line.advice:
                console.print(Text.assemble((line.role, STYLES[line.role]), f" {line.advice}"))
        console.print("\nSay which column is to be predicted with --target COLUMN.")
    console.print()
