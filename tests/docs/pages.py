"""The pages of the documentation, and the fenced pieces in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob(".github/*.md"), *ROOT.glob("docs/**/*.md")])


@dataclass(frozen=True)
class Block:
    """A fenced piece of a page; `line` is that of its opening fence."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines()
    start = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
        else:
            text = "\n".join(lines[start + 1 : number]) + "\n"
            found.append(Block(lines[start][3:].strip(), text, start + 1))
            start = None
    assert start is None, f"{page} has a fence that is not closed"
    return found


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
