"""Results pages say where their figures come from, and have them beside them for programs."""

import csv
import json
import re
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "studies" / "results"
NOT_RUN = "**Not run yet.**"
"""Begins a page that has a plan and no figures."""
PAGES = [page for page in sorted(RESULTS.glob("*.md")) if NOT_RUN not in page.read_text("utf-8")]
HASH = re.compile("[0-9a-f]{64}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_origin_its_tables_and_its_hashes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"\b[0-9a-f]{7,40}\b", text), "no commit"
    assert re.search(r"\b20\d\d-\d\d-\d\d", text), "no date"
    assert re.search(r"torch[ `|:=]+\d+\.\d+", text), "no versions"
    assert re.search(
        r"^ *(\$ )?(fedcord (compare|reproduce)|python studies/\S+) ", text, re.MULTILINE
    ), "no command"
    folder = RESULTS / page.stem
    tables = sorted(folder.glob("*.csv"))
    assert tables
    for table in tables:
        head, *rows = csv.reader(table.read_text(encoding="utf-8").splitlines())
        assert rows
        assert len(set(head)) == len(head)
        assert {len(row) for row in rows} == {len(head)}
    hashes = json.loads((folder / "hashes.json").read_text(encoding="utf-8"))
    assert hashes
    assert all(HASH.fullmatch(found) for part in hashes.values() for found in _leaves(part))


def _leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [] if value is None else [str(value)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_of_a_transcribed_table_are_on_its_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("−", "-").replace(",", "")
    if "transcribed from it" not in text:
        pytest.skip("its tables are as the report wrote them, unrounded")
    for table in (RESULTS / page.stem).glob("*.csv"):
        rows = csv.reader(table.read_text(encoding="utf-8").splitlines()[1:])
        for cell in (cell for row in rows for cell in row):
            if re.fullmatch(r"-?\d+(\.\d+)?", cell):
                assert re.search(rf"(?<![\d.]){re.escape(cell)}(?!\d)", text), (table.name, cell)
