"""Papers: code and pages cite the same ones, rightly, and nothing that a reader cannot find."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from fedcord.algorithms.registry import ALGORITHMS
from tests.docs.pages import ROOT, name_of, prose

PAGES = sorted((ROOT / "docs/algorithms").glob("*.md"))
MODULES = sorted({info.path.partition(":")[0] for info in ALGORITHMS.values()})
META_LEARNING = {"Analytic Personalized Federated Meta-Learning", "2502.06915"}
PAPERS = {
    "deepafl": {"DeepAFL: Deep Analytic Federated Learning", "2603.00579"},
    "fafi": {
        "Does One-shot Give the Best Shot? Mitigating Model Inconsistency in One-shot Federated "
        "Learning"
    },
    "fedacnnl": META_LEARNING,
    "fedhpro": {
        "FedHPro: Federated Hyper-Prototype Learning via Gradient Matching",
        "2605.13475",
    },
    "pfedacnnl": META_LEARNING,
    "safle": {"Single-Round Scalable Analytic Federated Learning", "2512.03336"},
}
"""Titles and arXiv numbers by page, as the papers' own first pages have them."""


def cited(text: str) -> set[str]:
    """Titles in quotation marks, and arXiv numbers."""
    flat = " ".join(text.split())
    return {*re.findall(r'"([^"]+)"', flat), *re.findall(r"arXiv (\d{4}\.\d{5})", flat)}


def head(page: Path) -> str:
    """What stands above a page's first section."""
    return prose(page).partition("\n## ")[0]


@pytest.mark.parametrize("name", MODULES)
def test_an_algorithm_and_its_page_cite_the_same(name: str) -> None:
    module = importlib.import_module(name)
    paragraphs = (module.__doc__ or "").split("\n\n")
    references = [part for part in paragraphs if part.startswith("Reference: ")]
    assert len(references) == 1
    file = "/".join(name.split(".")) + ".py"
    linking = [page for page in PAGES if f"src/{file})" in head(page)]
    assert linking, f"no page of docs/algorithms links to {file} above its first section"
    assert cited(references[0]) in [cited(head(page)) for page in linking]


@pytest.mark.parametrize("name", PAPERS)
def test_titles_and_numbers_are_the_papers_own(name: str) -> None:
    assert cited(head(ROOT / f"docs/algorithms/{name}.md")) == PAPERS[name]


def test_nothing_is_cited_that_is_not_here() -> None:
    """Equations of papers and pages of docs/, never sections of documents kept elsewhere."""
    elsewhere = re.compile(r"§|\bspecs?[ /](oneshot|prototype|analytic)\b|\bthe log\)")
    code = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.py"), *ROOT.glob("tests/**/*.py")]
    files = [*code, *ROOT.glob("docs/**/*.md"), *ROOT.glob("studies/**/*.*"), ROOT / "README.md"]
    assert len(files) > 500
    own = Path(__file__).resolve()
    found = [
        f"{name_of(file)}: {line.strip()}"
        for file in files
        if file.resolve() != own
        for line in file.read_text(encoding="utf-8").splitlines()
        if elsewhere.search(line)
    ]
    assert found == []
