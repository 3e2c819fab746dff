"""What pages say: links lead somewhere, pictures are shown, generated pages are current."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

import fedcord
from fedcord.cli.main import main
from fedcord.core import errors
from fedcord.experiment.load import load_config
from tests.docs.pages import PAGES, ROOT, name_of, prose

RESULTS = sorted(ROOT.glob("studies/**/*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def test_every_relative_link_leads_somewhere() -> None:
    links = [(page, target) for page in [*PAGES, *RESULTS] for target in LINK.findall(prose(page))]
    inside = [(page, target) for page, target in links if not target.startswith("https://")]
    assert len(inside) >= 120
    assert [
        f"{name_of(page)}: {target}" for page, target in inside if not _leads(page, target)
    ] == []


def _leads(page: Path, target: str) -> bool:
    """Whether the file is there, and in it the heading after the `#`."""
    file, _, anchor = target.partition("#")
    path = page.parent / file if file else page
    return path.is_file() and (  # a folder has no page in the site
        not anchor or anchor in [_slug(heading) for heading in HEADING.findall(prose(path))]
    )


def test_every_picture_is_shown() -> None:
    pictures = {path for path in (ROOT / "docs/images").iterdir() if path.suffix != ".md"}
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in LINK.findall(prose(page))
        if target.endswith((".svg", ".png"))
    }
    assert len(pictures) >= 7
    assert pictures <= shown


def test_no_page_names_a_place_on_our_machines() -> None:
    folders = ("docs/*.py", "examples/*.py", "studies/**/*.*")
    files = [*PAGES, *(file for folder in folders for file in ROOT.glob(folder))]
    assert len(files) > len(PAGES)
    for file in files:
        assert not re.search(r"/(root|work|home|tmp|Users)/", file.read_text()), name_of(file)


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


# --- reference pages -----------------------------------------------------------------------------


def test_generated_pages_are_current() -> None:
    generated = runpy.run_path(str(ROOT / "docs/generate_reference.py"))["pages"]()
    assert len(generated) == 6
    stale = [name for name, text in generated.items() if (ROOT / "docs" / name).read_text() != text]
    assert not stale, f"{stale} are not current; run: python docs/generate_reference.py"


def test_the_run_folder_page_names_every_file_and_key(reader: Path) -> None:
    fedcord.run("fedavg", clients=4, rounds=1, partition="iid", out="run")
    page = (ROOT / "docs/reference-run-folder.md").read_text()
    folder = reader / "run"
    names = {p.name for p in folder.iterdir()} - {".lock"}
    for file in ("result.json", "partition.json", "provenance.json"):
        names |= json.loads((folder / file).read_text()).keys()
    names |= json.loads((folder / "metrics.jsonl").read_text().splitlines()[0]).keys()
    assert len(names) > 40
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_the_errors_page_has_every_error_and_exit_code() -> None:
    page = (ROOT / "docs/reference-errors.md").read_text()
    names = [name for name, value in vars(errors).items() if isinstance(value, type)]
    raised = [name for name in names if issubclass(getattr(errors, name), Exception)]
    assert len(raised) >= 7
    assert [name for name in raised if f"`{name}`" not in page] == []
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert codes == ["0", "1", "2", "130"]


def test_the_numbers_of_the_heterogeneity_page_are_those_of_inspect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs/explanation-heterogeneity.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9:.=,]+)` \|(.+)\|$", page, re.MULTILINE)
    assert len(rows) == 6
    keys = (
        *("mean_entropy_bits", "mean_effective_classes", "mean_earth_movers"),
        *("mean_jensen_shannon", "pairwise_jensen_shannon", "size_gini"),
    )
    for partition, cells in rows:
        assert main(["inspect", "--partition", partition, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        assert [float(cell) for cell in cells.split("|")] == [round(values[k], 2) for k in keys]


def test_every_switch_to_what_released_code_does_is_offered() -> None:
    page = (ROOT / "docs/algorithms/fafi.md").read_text()
    table = page.partition("| released code does | to get it |")[2].partition("\n\n")[0]
    switches = re.findall(r"`([a-z_.]+=[\w-]+)`", table)
    assert {"local.normalization=twice", "server.test_inputs=raw"} <= set(switches)
    assert load_config({"algorithm": "fafi"}, switches).params["server"]["test_inputs"] == "raw"
