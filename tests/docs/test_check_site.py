"""The checker of the built site finds what it is for."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

faults: Callable[[Path], list[str]] = runpy.run_path(str(ROOT / "docs/check_site.py"))["faults"]

GOOD = """<link rel="stylesheet" href="a.css"><a id="top" href="b/c.html#here">c</a>
<a href="#top">top</a><a href="https://example.org">elsewhere</a><img src="data:image/png,x">
<link rel="canonical" href="https://example.org/">"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b/c.html").write_text('<h2 id="here">x</h2><a href="../index.html">up</a>')
    (tmp_path / "a.css").write_text("body { background: url(data:x) }")
    return tmp_path


def test_a_sound_site_has_no_fault(site: Path) -> None:
    assert faults(site) == []


@pytest.mark.parametrize(
    ("element", "fault"),
    [
        ('<a href="b/d.html">', "index.html: b/d.html leads nowhere"),
        ('<a href="b/c.html#there">', "index.html: b/c.html#there leads nowhere"),
        ('<a href="../outside.html">', "index.html: ../outside.html leads nowhere"),
        ('<img src="none.png">', "index.html: none.png leads nowhere"),
        (
            '<script src="https://cdn.example/x.js">',
            "index.html: asks for https://cdn.example/x.js",
        ),
        ('<link rel="preconnect" href="//fonts.example">', "index.html: asks for //fonts.example"),
        (
            "<style>@import 'https://f.example/x'</style>",
            "index.html: asks for https://f.example/x",
        ),
        ('<pre class="mermaid">', "index.html: asks for //mermaid"),
    ],
)
def test_a_broken_link_or_an_outside_request_is_a_fault(
    site: Path, element: str, fault: str
) -> None:
    (site / "index.html").write_text(GOOD + element)
    assert faults(site) == [fault]


def test_a_style_sheet_that_asks_outside_is_a_fault(site: Path) -> None:
    (site / "a.css").write_text("@font-face { src: url('https://fonts.example/a.woff2') }")
    assert faults(site) == ["a.css: asks for https://fonts.example/a.woff2"]


def test_an_empty_site_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path) == [f"{tmp_path}: no page in it; build it with: make docs"]
