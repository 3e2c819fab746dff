"""Letters that the house font lacks: another installed font that has them, or a readable escape.

Only pictures made of pixels need this. An SVG keeps text as text, and whoever shows it has fonts of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import Formatter

_NOT_FOR_TEXT = ("Last Resort", "cm", "STIXSize", "STIXNonUnicode")
"""Beginnings of font names: one draws a box for every letter, the others place formula signs where
letters should be."""


@contextmanager
def drawable(fig: Figure, house_font: str) -> Iterator[None]:
    """Every letter of the figure in some font while it is drawn; afterwards it is as before."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    fig.draw_without_rendering()  # only now do labels of ticks have their text
    texts = [text for text in fig.findobj(Text) if isinstance(text, Text)]
    missing = lacking(house_font, {c for text in texts for c in text.get_text()})
    if not missing:
        yield
        return
    families, unknown = fonts_for(missing, installed_fonts())
    before = [(text, text.get_text(), text.get_fontfamily()) for text in texts]
    for text, words, _ in before:
        _show(text, escaped(words, unknown), [house_font, *families])
    # labels of ticks are written anew by every drawing
    named = [
        (axis, axis.get_major_formatter())
        for axes in fig.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), FuncFormatter)
    ]
    for axis, formatter in named:
        axis.set_major_formatter(FuncFormatter(_escaping(formatter, unknown)))
    try:
        yield
    finally:
        for text, words, family in before:
            _show(text, words, family)
        for axis, formatter in named:
            axis.set_major_formatter(formatter)


def _escaping(formatter: Formatter, unknown: set[str]) -> Callable[[float, int | None], str]:
    return lambda value, place: escaped(formatter(value, place), unknown)


def _show(text: Text, words: str, families: Sequence[str]) -> None:
    text.set_text(words)
    text.set_fontfamily(list(families))


def escaped(text: str, unknown: Iterable[str]) -> str:
    r"""`text` with every unknown letter as its number.

    >>> escaped("北 7", {"北"})
    '\\u5317 7'
    """
    letters = set(unknown)
    return "".join(c.encode("unicode_escape").decode() if c in letters else c for c in text)


def fonts_for(letters: set[str], fonts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Font families that together have the letters, and the letters that none has."""
    chosen: list[str] = []
    left = {c for c in letters if not c.isspace()}
    for family in fonts:
        if not left:
            break
        still = lacking(family, left)
        if still < left:
            chosen.append(family)
            left = still
    return chosen, left


def installed_fonts() -> tuple[str, ...]:
    """Families by name, so that equal machines choose alike; those without serifs first."""
    usable = [name for name in _files() if not name.startswith(_NOT_FOR_TEXT)]
    return tuple(sorted(usable, key=lambda name: ("Sans" not in name, name)))


def lacking(family: str, letters: set[str]) -> set[str]:
    """The letters that a font family does not have; all when it is not installed."""
    from matplotlib.font_manager import get_font

    try:
        known = get_font(_files()[family]).get_charmap()
    except (KeyError, RuntimeError, OSError):  # the last two: not a font after all
        return set(letters)
    return {c for c in letters if ord(c) not in known and not c.isspace()}


@lru_cache(maxsize=1)
def _files() -> dict[str, str]:
    """By family, the file of its plain form."""
    from matplotlib.font_manager import fontManager

    plain = (f for f in fontManager.ttflist if f.style == "normal" and f.weight in (400, "normal"))
    return {font.name: font.fname for font in plain}
