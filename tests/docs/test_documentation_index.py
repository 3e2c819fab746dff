"""Every page can be found, the Python interface is described whole, and words are the field's."""

from __future__ import annotations

import re

import fedcord
from tests.docs.pages import PAGES, ROOT, name_of, prose

DOCS = sorted((ROOT / "docs").glob("*.md"))
PRIVATE = re.compile(r"\b(rungs?|bent|bends|dealt|dealing|strengths? of mixing)\b", re.IGNORECASE)
"""Words of ours that a stranger would stumble over, where the field has its own."""


def test_the_index_and_the_site_have_every_page() -> None:
    index, site = (ROOT / "docs/README.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    names = [page.name for page in DOCS if page.name != "README.md"]
    assert len(names) >= 30
    assert [name for name in names if f"({name})" not in index] == []
    patterns = re.findall(r"^ +- (?:[\w ]+: )?([\w./*-]+\.md)$", site, re.MULTILINE)
    shown = {page for pattern in patterns for page in ROOT.glob(pattern)}
    assert [name_of(page) for page in PAGES if page not in shown] == [
        *(name_of(page) for page in sorted(ROOT.glob(".github/*.md"))),
        "docs/images/README.md",
    ]


def test_the_python_interface_is_described_whole() -> None:
    page = (ROOT / "docs/reference-api.md").read_text()
    described = re.findall(r"^::: fedcord\.(\w+)$", page, re.MULTILINE)
    assert sorted(described) == sorted(set(fedcord.__all__) - {"__version__"})


def test_the_readme_takes_thirty_seconds() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_pages_have_no_private_words() -> None:
    studies = [*ROOT.glob("studies/**/*.md"), *ROOT.glob("studies/*.toml")]
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    assert len(studies) > 20
    found = [
        f"{name_of(page)}: {match[0]}"
        for page in [*pages, *studies]
        for match in PRIVATE.finditer(prose(page))
    ]
    assert found == []
