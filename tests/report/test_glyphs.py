"""Letters that the house font lacks."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.text import Text

from fedcord.report import glyphs
from fedcord.report.canvas import HOUSE_FONT, house_style, inline_svg, save_figure
from fedcord.report.heatmap import heatmap_figure

CLASSES = ("gesund", "病")
CLIENTS = ("Köln", "北京")


def _heatmap() -> Figure:
    return heatmap_figure(np.array([[3, 4], [5, 0]]), CLASSES, "医院", CLIENTS)


def _texts(fig: Figure) -> set[str]:
    return {text.get_text() for text in fig.findobj(Text) if isinstance(text, Text)}


def test_the_house_font_has_umlauts_and_needs_no_other() -> None:
    assert glyphs.lacking(HOUSE_FONT, set("Köln äöüß éñ Привет")) == set()
    assert glyphs.lacking(HOUSE_FONT, {"北"}) == {"北"}


def test_a_font_that_has_the_letter_is_found() -> None:
    families, unknown = glyphs.fonts_for({"ᶁ"}, ["no such font", HOUSE_FONT, "STIXGeneral"])
    assert (families, unknown) == (["STIXGeneral"], set())
    assert not any(name.startswith("Last Resort") for name in glyphs.installed_fonts())


def test_without_a_font_letters_become_escapes_and_the_figure_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glyphs, "installed_fonts", lambda: (HOUSE_FONT,))
    fig = _heatmap()
    with house_style(), glyphs.drawable(fig, HOUSE_FONT):
        fig.draw_without_rendering()
        shown = _texts(fig)
    assert {"Köln", "\\u5317\\u4eac", "\\u75c5", "\\u533b\\u9662"} <= shown
    with house_style():
        fig.draw_without_rendering()
    assert {*CLIENTS, "病", "医院"} <= _texts(fig)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(fig, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_with_a_font_letters_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "installed_fonts", lambda: (HOUSE_FONT, "STIXGeneral"))
    fig = heatmap_figure(np.array([[3, 4]]), ("a", "b"), "", ["ᶁ"])
    with house_style(), glyphs.drawable(fig, HOUSE_FONT):
        fig.draw_without_rendering()
        families = {t.get_text(): t.get_fontfamily() for t in fig.findobj(Text)}
        assert families["ᶁ"] == [HOUSE_FONT, "STIXGeneral"]


def test_svg_keeps_names_as_text() -> None:
    page = inline_svg(_heatmap(), "clients", "who holds what")
    assert all(name in page for name in (*CLIENTS, *CLASSES, "医院"))
