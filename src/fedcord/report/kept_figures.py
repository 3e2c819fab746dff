"""Published figures on a page that is written again: each part has its rows once, the newest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcord.report.numbers import NOTHING
from fedcord.report.published import PART


@dataclass(frozen=True)
class _Table:
    """A pipe table whose first column is the part, and what stands below it.

    Attributes:
        head: its first two lines.
        rows: part and line.
        words: below the table.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    words: str


def merged_figures(
    old: str | None,
    new: str | None,
    before: Sequence[str],
    here: Sequence[str],
    parts: Sequence[str],
) -> str | None:
    """The section's content; None where no part has figures.

    Args:
        old: of the page before; None where it had none.
        new: of this sitting, likewise.
        before: parts that were on the page.
        here: parts of this sitting.
        parts: all of the study, in its order.
    """
    kept = {part for part in before if part not in here}
    if old is None or not kept:
        return new
    earlier = _read(old, before)
    later = _read(new, here) if new is not None else _Table(earlier.head, (), earlier.words)
    rows = [own for own in earlier.rows if own[0] in (*kept, NOTHING)]
    known = {part for part, _ in rows}
    rows += [own for own in later.rows if own[0] not in kept & known]
    if not rows:
        return None
    rows.sort(key=lambda own: parts.index(own[0]) if own[0] in parts else len(parts))
    table = "\n".join(["", *(later.head or earlier.head), *(line for _, line in rows)])
    return f"{table}\n\n{later.words}".rstrip("\n") + "\n"


def _read(text: str, shown: Sequence[str]) -> _Table:
    """A section; rows that name no part are of the only one that is shown, where it is one."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    words = "\n".join(line for line in text.splitlines() if not line.startswith("|")).strip("\n")
    has_head = len(lines) > 1 and lines[1].startswith("| ---")  # people may have changed it
    head, rows = (lines[:2], lines[2:]) if has_head else ([], lines)
    if not has_head or _first_cell(head[0]) != PART:
        part = shown[0] if len(shown) == 1 else NOTHING
        head = [f"| {PART} {head[0]}", head[1].replace("| ---", "| --- | ---:", 1)] if head else []
        rows = [f"| {part} {row}" for row in rows]
    return _Table(tuple(head), tuple((_first_cell(row), row) for row in rows), words)


def _first_cell(line: str) -> str:
    return line.split("|")[1].strip()
