"""What axe-core, the usual checker, has to say about the page."""

from pathlib import Path

import pytest

from tests.browser.chromium import Page
from tests.browser.test_report_page import choose

pytestmark = pytest.mark.xdist_group("browser")

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("axe-core is not there; run: npm ci --ignore-scripts --prefix tests/browser")
    return AXE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_axe_finds_nothing(
    large_report: Path, page: Page, axe: str, width: int, scheme: str
) -> None:
    page.open(large_report, width=width, scheme=scheme)
    page.run("document.querySelectorAll('details').forEach(own => { own.open = true; })")
    assert found_by(axe, page) == []
    choose(page, "Metric", "log-loss")
    assert found_by(axe, page) == []


def test_axe_finds_nothing_on_a_page_of_one_run(small_report: Path, page: Page, axe: str) -> None:
    page.open(small_report)
    assert found_by(axe, page) == []


def test_axe_would_find_something(small_report: Path, page: Page, axe: str) -> None:
    page.open(small_report)
    page.run("document.querySelector('svg').removeAttribute('aria-label')")
    page.run("document.querySelector('.small').style.color = '#bbb'")
    assert any("color-contrast" in found for found in found_by(axe, page))


def found_by(axe: str, page: Page) -> list[str]:
    page.run(f"{axe}; 0")
    found = page.run(
        f"""axe.run(document, {{runOnly: {RULES}, resultTypes: ['violations']}}).then(done =>
        done.violations.map(own => own.id + ': ' + own.help + ' at ' +
            own.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')))"""
    )
    assert isinstance(found, list)
    return found
