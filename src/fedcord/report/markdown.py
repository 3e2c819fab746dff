"""Tables with pipes."""

from __future__ import annotations

from collections.abc import Sequence


def pipe_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table: the first column to the left, all others to the right."""
    marks = ["---"] + ["---:"] * (len(headings) - 1)
    return "\n".join(_line(line) for line in [headings, marks, *rows])


def _line(cells: Sequence[str]) -> str:
    safe = [cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells]
    return "| " + " | ".join(" ".join(cell.split()) for cell in safe) + " |"
