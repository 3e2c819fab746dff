"""The report in a real browser: what it shows, what it does, and what it leaves alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedcord.report import build_report
from tests.browser.chromium import Page

pytestmark = pytest.mark.xdist_group("browser")

VISIBLE_ROWS = """[...document.querySelector('[aria-label="Leaderboard"] tbody').rows]
    .filter(row => row.checkVisibility()).map(row => row.cells[0].innerText)"""
COLUMN = """[...document.querySelector('[aria-label="Leaderboard"] tbody').rows]
    .map(row => parseFloat(row.cells[%d].dataset.value))"""
TIP = "(t => t.classList.contains('on') ? t.textContent : null)(document.querySelector('.tip'))"


def chip(name: str) -> str:
    return f'.bar .chip[data-number="{"abcdefghijkl".index(name[-1])}"]'


def choose(page: Page, label: str, option: str) -> None:
    """As by hand: the value changes, and the element says so."""
    page.run(
        f"""(() => {{
        const select = [...document.querySelectorAll('label.choice')]
            .find(own => own.textContent.startsWith({json.dumps(label)})).querySelector('select');
        select.value = {json.dumps(option)};
        select.dispatchEvent(new Event('change'));
        }})()"""
    )


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_large_page_shows_without_errors_and_asks_for_nothing(
    large_report: Path, page: Page, width: int, scheme: str
) -> None:
    page.open(large_report, width=width, scheme=scheme)
    assert page.troubles() == []
    assert page.requests() == [large_report.as_uri()]
    # tables and wide figures scroll by themselves; the page does not
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.run("document.querySelectorAll('svg[data-figure]').length") == 6
    # letters of figures can be read
    smallest = """Math.min(...[...document.querySelectorAll('svg text')].filter(
        own => own.textContent.trim()).map(own => own.getBoundingClientRect().height))"""
    assert page.run(smallest) >= 9
    # and no figure is blown up beyond the scale that all share
    scales = """Math.max(...[...document.querySelectorAll('svg[data-figure]')].map(
        own => own.getBoundingClientRect().width / own.viewBox.baseVal.width))"""
    assert page.run(scales) <= 1.46
    assert page.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 23, 29)"
    )


@pytest.mark.parametrize("width", [1280, 400])
def test_one_method_and_one_seed_make_a_whole_page(
    small_report: Path, page: Page, width: int
) -> None:
    page.open(small_report, width=width)
    assert page.troubles() == []
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.run("document.querySelectorAll('.chip, .budget').length") == 0
    assert page.run(VISIBLE_ROWS) == ["fedavg"]
    choose(page, "Metric", "macro F1")
    assert "macro F1" in page.run("document.querySelector('.verdict').innerText")


def test_without_script_everything_is_there_and_nothing_is_dead(
    large_report: Path, page: Page
) -> None:
    page.without_script()
    page.open(large_report)
    assert page.run("document.querySelectorAll('button, select, input').length") == 0
    text = page.run("document.body.innerText")
    for words in ("is ahead of", "Leaderboard", "Accuracy of every client", "Costs", "method-l"):
        assert words in text


def test_without_figures_the_page_does_the_rest(
    small_report: Path, page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fedcord.report.build.has_matplotlib", lambda: False)
    shutil.copytree(small_report.parent, tmp_path / "study")
    page.open(build_report(tmp_path / "study").html)
    assert page.troubles() == []
    assert page.run("document.querySelectorAll('svg').length") == 0
    assert page.run("document.querySelectorAll('.copy').length") > 3


def test_a_click_sorts_the_leaderboard_up_and_down(large: Page) -> None:
    assert large.run(VISIBLE_ROWS)[0] == "method-a"
    heading = '[aria-label="Leaderboard"] th:nth-child(8) button'
    large.click(heading)
    sizes = large.run(COLUMN % 7)
    assert sizes == sorted(sizes, reverse=True)
    large.click(heading)
    assert large.run(COLUMN % 7) == sorted(sizes)
    assert large.run(VISIBLE_ROWS)[0] == "method-l"
    said = "document.querySelector('[aria-label=\"Leaderboard\"] th:nth-child(8)').ariaSort"
    assert large.run(said) == "ascending"


def test_a_method_is_hidden_everywhere_and_comes_back(large: Page) -> None:
    shown = """[...document.querySelectorAll('[data-method="2"]:not([data-part="legend"])')]
        .filter(own => own.getClientRects().length > 0).length"""
    before = large.run(shown)
    assert before > 20
    large.click(chip("method-c"))
    assert large.run(shown) == 0
    assert "method-c" not in large.run(VISIBLE_ROWS)
    large.click('svg[data-figure="rounds"] [data-method="2"][data-part="legend"]')
    assert large.run(shown) == before


def test_another_metric_changes_verdict_table_and_winner(large: Page) -> None:
    choose(large, "Metric", "log-loss")
    assert large.run(VISIBLE_ROWS)[0] == "method-l"
    assert "method-l" in large.run("document.querySelector('.verdict').innerText")
    assert "method-l has the best log-loss" in large.run(
        "document.querySelector('.budget output').textContent"
    )
    large.click('[aria-label="Leaderboard"] th:nth-child(3) button')  # the new table sorts, too
    assert large.run(VISIBLE_ROWS)[0] == "method-a"
    choose(large, "Metric", "accuracy")
    assert large.run(VISIBLE_ROWS)[0] == "method-a"


SHOWN_FIGURES = """Object.fromEntries([...document.querySelectorAll('svg[data-figure]')]
    .map(own => [own.dataset.figure, own.dataset.key]))"""


def test_another_metric_changes_every_figure_that_shows_it(large: Page) -> None:
    before = large.run(SHOWN_FIGURES)
    assert before == {name: name for name in FIGURES}
    large.click(chip("method-c"))
    choose(large, "Metric", "log-loss")
    other = {name: f"{name}-log_loss" for name in ("rounds", "traffic", "final", "pareto")}
    assert large.run(SHOWN_FIGURES) == before | other
    for name in other:
        svg = f"document.querySelector('svg[data-figure={name}]')"
        assert "log-loss" in large.run(f"{svg}.getAttribute('aria-label')")
        # who is hidden stays so, and the legend of the new figure brings it back
        assert not large.run(f"{svg}.querySelector('[data-method=\"2\"].off') === null")
    large.click('svg[data-figure="rounds"] [data-method="2"][data-part="legend"]')
    assert "method-c" in large.run(VISIBLE_ROWS)
    assert "Not beaten in both log-loss and bytes" in large.run("document.body.innerText")
    # the limit of the slider is drawn into the figure that is seen
    assert large.run("document.querySelectorAll('svg[data-figure=pareto] .limit').length") == 1
    choose(large, "Metric", "macro F1")
    assert "rounds" not in large.run(SHOWN_FIGURES)
    assert "Macro F1 was measured of the final model only" in large.run("document.body.innerText")
    choose(large, "Metric", "accuracy")
    assert large.run(SHOWN_FIGURES) == before
    assert large.troubles() == []


def test_figures_of_another_metric_tell_its_values(large: Page) -> None:
    choose(large, "Metric", "log-loss")
    said = "document.querySelector('[role=status]').textContent"
    assert large.run(said) == "Metric: log-loss"
    for told in ("seed 0: 2.0000", "seed 1: 2.0100"):  # nothing comes twice when it comes back
        large.run("document.querySelector('svg[data-figure=\"final\"]').focus()")
        large.press("ArrowRight")
        assert large.run(said).startswith(f"method-a, {told}")
        label = "document.querySelector('svg[data-figure=\"final\"]').ariaLabel"
        assert large.run(label).count("Arrow keys") == 1
        choose(large, "Metric", "accuracy")
        choose(large, "Metric", "log-loss")


def test_the_slider_says_who_wins_within_a_budget(large: Page) -> None:
    said = "document.querySelector('.budget output').textContent"
    assert "method-a has the best accuracy" in large.run(said)
    large.click(chip("method-a"))
    assert "method-b has the best accuracy" in large.run(said)
    assert "11 of 11 methods fit, hidden ones not counted" in large.run(said)
    large.click(chip("method-a"))
    large.run("document.querySelector('.budget input').focus()")
    for _ in range(25):
        large.press("ArrowLeft")
    # half of method-a's bytes buy method-b, and so on down
    assert large.run("document.querySelector('.budget input').ariaValueText") == "2.53 MB"
    assert "method-b has the best accuracy" in large.run(said)
    assert "11 of 12 methods fit" in large.run(said)
    large.run(
        "(own => { own.value = 0; own.dispatchEvent(new Event('input')); })"
        "(document.querySelector('.budget input'))"
    )
    assert "no method that is shown fits" in large.run(said)


FIGURES: dict[str, Any] = {
    "rounds": "round 4: ",
    "traffic": "kB: ",
    "final": "seed ",
    "pareto": " for ",
    "clients": "client 4, class eel: ",
    "alignment": "λ ",
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_tell_the_value_under_the_pointer(large: Page, name: str) -> None:
    figure = f'svg[data-figure="{name}"]'
    large.run(
        f"""(() => {{ const svg = document.querySelector('{figure}');
        const own = JSON.parse(document.getElementById('fedcord-data').textContent).figures.{name};
        const points = (own.points ?? []).filter(
            point => '{name}' !== 'final' || point[3].startsWith('seed'));
        const place = own.box ? [own.box[2] - 3, own.box[3] - 3] : points.at(-1).slice(1, 3);
        const dot = document.createElementNS(svg.namespaceURI, 'circle');
        dot.id = 'there'; dot.style.pointerEvents = 'none';
        for (const [key, value] of [['cx', place[0]], ['cy', place[1]], ['r', 1]])
            dot.setAttribute(key, value);
        svg.append(dot); }})()"""
    )
    large.mouse("#there")
    told = large.run(TIP)
    assert told is not None
    assert FIGURES[name] in told
    large.mouse("h1")
    assert large.run(TIP) is None


def test_points_lie_where_they_are_drawn(large: Page) -> None:
    """The end of a curve, as drawn and as told."""
    far = """(() => { const svg = document.querySelector('svg[data-figure="rounds"]');
        const data = JSON.parse(document.getElementById('fedcord-data').textContent);
        const [, x, y] = data.figures.rounds.points.filter(own => own[0] === 5).at(-1);
        const told = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        const box = svg.querySelector('[data-method="5"][data-part="end"]').getBoundingClientRect();
        return Math.hypot(box.x + box.width / 2 - told.x, box.y + box.height / 2 - told.y); })()"""
    assert large.run(far) < 1.5


def test_arrow_keys_read_a_figure_aloud(large: Page) -> None:
    large.run("document.querySelector('svg[data-figure=\"rounds\"]').focus()")
    said = "document.querySelector('[role=status]').textContent"
    large.press("ArrowRight")
    assert large.run(said).startswith("method-a, round 1: ")
    large.press("ArrowRight")
    assert large.run(said).startswith("method-a, round 2: ")
    large.press("ArrowDown")
    assert large.run(said).startswith("method-b, round 2: ")
    large.press("Enter")
    assert large.run("location.hash") == "#runs-of-1"
    assert large.run("document.getElementById('runs-of-1').checkVisibility()")


def test_methods_are_reached_and_hidden_by_keyboard_alone(large: Page) -> None:
    for _ in range(4):  # metric, then the methods in the order of the leaderboard
        large.press("Tab")
    assert large.run("document.activeElement.textContent") == "method-c"
    large.press("Enter")
    assert large.run("document.activeElement.ariaPressed") == "false"
    assert "method-c" not in large.run(VISIBLE_ROWS)


def test_a_client_of_the_table_is_shown_in_the_heat_map_and_back(large: Page) -> None:
    large.mouse('tr[data-client="3"] td')
    assert large.run("document.querySelectorAll('svg[data-figure=clients] .frame.on').length") == 1
    large.run("document.querySelector('svg[data-figure=clients]').focus()")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        large.press(key)
    assert large.run("document.activeElement.dataset.client") == "1"
    choose(large, "Split", "seed 3")
    name = "document.querySelector('[aria-label^=\"Accuracy of every client\"]').ariaLabel"
    assert large.run(name) == "Accuracy of every client, seed 3"


def test_the_confusion_matrix_is_there_for_every_method(large: Page) -> None:
    choose(large, "Method", "method-k")
    table = "document.querySelector('[aria-label=\"Answers of method-k by class\"] tbody')"
    assert large.run(f"{table}.rows.length") == 3


def test_tables_are_copied_as_text(large: Page) -> None:
    large.run("navigator.clipboard.writeText = async text => { window.copied = text; }")
    large.click(chip("method-l"))
    for kind in ("Markdown", "LaTeX", "CSV"):
        large.click(f'[aria-label="Copy Leaderboard as {kind}"]')
        text = str(large.run("window.copied"))
        lines = text.strip().split("\n")
        if kind == "Markdown":
            assert lines[0].startswith("| algorithm | seeds | accuracy, % | to the best, points |")
            assert lines[2].startswith("| method-a | 5 | 92.00 [89.80, 93.76] | best")
            assert len(lines) == 13  # what is hidden is not copied
        elif kind == "LaTeX":
            assert lines[2].startswith(r"algorithm & seeds & accuracy, \% & to the best, points &")
            assert lines[4].endswith(r"4.1 MB & 2.0 s \\")
        else:
            assert lines[1].startswith("method-a,5,0.92,0,")


def test_a_link_opens_the_run_it_is_of(large: Page, large_report: Path) -> None:
    large.click('[aria-label="Leaderboard"] tr[data-method="6"] td:nth-child(3) a')
    assert large.run("location.hash") == "#runs-of-6"
    assert large.run("document.getElementById('runs-of-6').checkVisibility()")
    address = large.run("document.querySelector('#run-6-2 a').getAttribute('href')")
    assert (large_report.parent / address / "config.toml").exists()


def test_the_page_prints_without_its_controls(large: Page) -> None:
    assert large.pdf().startswith(b"%PDF")
    large.browser.send("Emulation.setEmulatedMedia", large._session, media="print")
    assert not large.run("document.querySelector('.bar').checkVisibility()")
    assert large.run("document.querySelector('.verdict').checkVisibility()")
