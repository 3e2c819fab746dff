"""The page of `fedcord ui` in a browser, while a run folder grows under it."""

from __future__ import annotations

import time

import pytest

from tests.browser.chromium import PATIENCE, Page
from tests.browser.test_accessibility import axe, found_by
from tests.ui.conftest import GrowingRun, Running, finished_run, growing, running

__all__ = ["axe", "finished_run", "growing", "running"]  # fixtures, which pytest finds by name

pytestmark = pytest.mark.xdist_group("browser")


def says(page: Page, text: str) -> str:
    """The words on the page, once `text` is among them."""
    end = time.monotonic() + PATIENCE
    while text not in (words := str(page.run("document.body.innerText"))):
        assert time.monotonic() < end, f"'{text}' never came: {words}"
        time.sleep(0.05)
    return words


def test_a_run_is_followed_without_being_asked_for(
    running: Running, growing: GrowingRun, page: Page
) -> None:
    page.open(running.server.address)
    says(page, "No run has begun here yet")
    growing.begin()
    growing.add_rounds(1)
    says(page, "1 of 3")
    growing.add_rounds(2)
    assert "1 going on" in says(page, "2 of 3")
    assert page.run("document.querySelectorAll('polyline').length") == 1
    assert page.run("document.querySelector('progress').value") == 2
    growing.finish()
    assert "1 finished" in says(page, "3 of 3")
    assert page.troubles() == []
    assert all(url.startswith(running.server.address) for url in page.requests())


def test_what_files_say_is_text_and_stays_where_the_reader_put_it(
    running: Running, growing: GrowingRun, page: Page
) -> None:
    growing.begin()
    growing.add_rounds(1)
    growing.fail("<img src=x onerror=document.title=1> is no weight")
    page.open(running.server.address, width=400, scheme="dark")
    says(page, "<img src=x onerror=document.title=1> is no weight")
    assert page.run("document.querySelectorAll('img').length") == 0
    page.click("summary")  # fold the runs away
    growing.add_rounds(2)
    end = time.monotonic() + PATIENCE
    while page.run("document.querySelector('progress').value") != 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert page.run("document.querySelector('details').open") is False
    assert page.run("document.activeElement.tagName") == "SUMMARY"
    assert page.run("document.documentElement.scrollWidth") <= 400
    assert page.troubles() == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_axe_finds_nothing(
    running: Running, growing: GrowingRun, page: Page, axe: str, width: int, scheme: str
) -> None:
    growing.begin()
    growing.finish()
    (growing.folder.parents[1] / "report.html").write_text("<p>a report</p>")
    page.open(running.server.address, width=width, scheme=scheme)
    says(page, "report")
    assert found_by(axe, page) == []


def test_the_server_is_missed(running: Running, page: Page) -> None:
    page.open(running.server.address)
    says(page, "No run has begun here yet")
    running.stop()
    says(page, "No answer from fedcord ui")
