"""Tables of the page: every cell knows its number, every row and column its method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import method_numbers

Texts = Sequence[str]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        html: trusted markup.
        value: what to sort by; None where there is no number.
        method: whose column it stands in.
        shade: from 0 to 1, where the cell is shaded by its number.
    """

    html: str
    value: float | None = None
    method: int | None = None
    shade: float | None = None


@dataclass(frozen=True)
class Line:
    """One row of a table.

    Attributes:
        cells: the first is its heading.
        method: whose row it is.
        is_best: whether it stands out.
        data: further `data-` attributes.
        anchor: its id, to be linked to.
    """

    cells: Sequence[Cell]
    method: int | None = None
    is_best: bool = False
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    anchor: str = ""


def table(label: str, head: Sequence[Cell], lines: Sequence[Line], *, kind: str = "") -> str:
    """A table that scrolls by itself where it is too wide.

    Args:
        label: what a screen reader calls it; plain text.
        head: the headings.
        lines: the rows.
        kind: classes; `sortable` gets buttons in its headings.
    """
    heading = "".join(f'<th scope="col"{_attributes(cell)}>{cell.html}</th>' for cell in head)
    body = "".join(map(_line, lines))
    name = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table{name}><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _line(line: Line) -> str:
    first, *others = line.cells
    opening = f' id="{line.anchor}"' if line.anchor else ""
    opening += ' class="best"' if line.is_best else ""
    opening += "" if line.method is None else f' data-method="{line.method}"'
    opening += "".join(f' data-{key}="{escape(str(own))}"' for key, own in line.data.items())
    cells = "".join(f"<td{_attributes(cell)}>{cell.html}</td>" for cell in others)
    return f'<tr{opening}><th scope="row"{_attributes(first)}>{first.html}</th>{cells}</tr>'


def _attributes(cell: Cell) -> str:
    text = "" if cell.method is None else f' data-method="{cell.method}"'
    text += "" if cell.value is None else f' data-value="{cell.value:.10g}"'
    return text + ("" if cell.shade is None else f' style="--shade:{cell.shade:.3f}"')


def text_table(board: Leaderboard, label: str, head: Texts, lines: Sequence[Texts]) -> str:
    """A table of plain texts; rows that begin with a method's name are that method's."""
    numbers = methods_of(board)
    by_label = {row.label: numbers[row.name] for row in board.rows} | numbers
    rows = []
    for first, *others in lines:
        method = by_label.get(first)
        name = escape(first) if method is None else to_runs(escape(first), method, is_name=True)
        rows.append(Line([Cell(name), *(Cell(escape(text)) for text in others)], method))
    return table(label, [Cell(escape(text)) for text in head], rows)


def methods_of(board: Leaderboard) -> dict[str, int]:
    """By name, the number under which the page knows a method."""
    return method_numbers(row.name for row in board.rows)


def to_runs(html: str, method: int, *, is_name: bool = False) -> str:
    """A number that leads to the runs it is of; by keyboard the method's name is enough."""
    skipped = "" if is_name else ' tabindex="-1"'
    return f'<a href="#runs-of-{method}"{skipped}>{html}</a>'


def choice(key: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    """Views of which one is shown; with the page's script the reader chooses.

    Args:
        key: of the choice; several places may share it.
        label: what is chosen.
        options: names and trusted markup; the first is what is shown.
    """
    (name, shown), *others = options
    hidden = "".join(
        f'<template data-of="{key}" data-name="{escape(other)}">{html}</template>'
        for other, html in others
    )
    return (
        f'<div data-choice="{key}" data-label="{escape(label)}" data-name="{escape(name)}">{shown}'
        f"</div>{hidden}"
    )
