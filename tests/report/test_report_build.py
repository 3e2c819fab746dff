import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fedcord
from fedcord.core.errors import PairingError
from fedcord.report import build_report
from tests.report.conftest import shown

StudyWriter = Callable[..., Path]
VALUES = {
    "fedavg": [0.80, 0.82, 0.78, 0.81, 0.79],
    "fedprox": [0.82, 0.83, 0.80, 0.84, 0.80],
}


class Page(HTMLParser):
    """Collects text, tags and addresses; fails on tags that are not closed in order."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_a_report_has_all_its_files_and_the_right_numbers(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    paths = build_report(study)
    assert [path.name for path in paths.plots] == [
        "accuracy-rounds.svg",
        "accuracy-traffic.svg",
        "final-accuracy.svg",
        "clients.svg",
    ]
    for path in (paths.html, paths.csv, paths.markdown, paths.latex, *paths.plots):
        assert path.stat().st_size > 0
    page = Page(paths.html.read_text(encoding="utf-8"))
    assert shown(paths.html.read_text(encoding="utf-8")).count("<svg") == 4
    for words in (
        "fedprox is ahead of fedavg by 1.8 points [0.8, 2.8], p = 0.009, 5 seeds.",
        "fedprox 5 81.80 [79.47, 83.92] best",
        "fedavg 5 80.00 [77.96, 81.89] −1.80 [−2.84, −0.76] 0.009 0.062 78.00 12 kB 2.0 s",
        "never a maximum over rounds",
        "cannot fall below 0.062",
        "fedcord compare fedavg fedprox --dataset digits --partition dirichlet:0.1",
        "--set learning_rate=0.1 --set proximal_weight=0.01",
        "partition-of-see",
        "torch 2.13",
    ):
        assert words in page.text, words


def test_a_report_is_rebuilt_with_equal_bytes(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    paths = build_report(study)
    before = {path: path.read_bytes() for path in (paths.html, paths.csv, *paths.plots)}
    build_report(study)
    assert {path: path.read_bytes() for path in before} == before


def test_the_page_asks_the_network_for_nothing(write_study: StudyWriter) -> None:
    text = build_report(write_study(VALUES)).html.read_text(encoding="utf-8")
    assert not re.search(r"https?://|//[a-z]+\.|@import|<script src|<link|<img|<iframe", text)
    assert all(address.startswith(("#", "data:", "./")) for address in Page(text).addresses)
    assert "default-src 'none'" in text


@pytest.mark.usefixtures("no_matplotlib")
def test_a_browser_may_run_the_pages_own_script_and_no_other(write_study: StudyWriter) -> None:
    text = build_report(write_study(VALUES)).html.read_text(encoding="utf-8")
    data, script = re.findall("<script[^>]*>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert [own["name"] for own in json.loads(data)["methods"]] == ["fedprox", "fedavg"]


@pytest.mark.usefixtures("no_matplotlib")
def test_numbers_lead_to_their_runs_folders_and_commands(
    write_study: StudyWriter, add_run: StudyWriter, tmp_path: Path
) -> None:
    study = write_study({"a method": [0.5, 0.6]})
    for seed in (0, 1):
        add_run(tmp_path / "elsewhere", "other", seed, 0.7)
    text = build_report(study, tmp_path / "elsewhere").html.read_text(encoding="utf-8")
    addresses = Page(text).addresses
    assert "./a%20method/seed-1/" in addresses
    assert (study / "a method" / "seed-1").is_dir()
    assert not any("elsewhere" in address for address in addresses)
    row = text[text.index('id="run-0-1"') :]
    command = "fedcord run &#x27;a method&#x27; --dataset digits"
    assert row.index(command) < row.index("--seed 1") < row.index("</tr>")
    anchors = set(re.findall(' id="([^"]*)"', text))
    assert {own[1:] for own in addresses if own.startswith("#")} <= anchors


@pytest.mark.usefixtures("no_matplotlib")
def test_every_client_stands_under_every_method(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.75]}, result={"client_accuracy": [0.25, None, 1, 0, 1]})
    text = build_report(study).html.read_text(encoding="utf-8")
    table = text[text.index("Accuracy of every client, seed 0") :]
    rows = re.findall(
        r'<tr data-client="(\d)">.*<td[^>]*>([^<]*)</td></tr>', table.replace("</tr>", "</tr>\n")
    )
    assert rows == [("0", "25.0"), ("1", "–"), ("2", "100.0"), ("3", "0.0"), ("4", "100.0")]
    assert 'data-name="seed 1"' in table


def test_everything_read_from_files_is_escaped(write_study: StudyWriter) -> None:
    bad = "<script>alert('x')</script>"
    study = write_study(
        {"<img src=x onerror=alert(1)>": [0.5, 0.6], "fedavg": [0.4, 0.6]},
        class_names=(bad, '"><b>', "&amp;"),
        config={"dataset": bad, "partition": bad, "model": bad, "params": {bad: bad}},
        result={"state_hash": "<b>hash", "per_domain": {bad: 0.5}, f"per_{bad}": {"x": 0.5}},
    )
    for path in study.rglob("provenance.json"):
        path.write_text('{"<i>key": "<i>value", "command": "</pre><script>"}')
    text = build_report(study).html.read_text(encoding="utf-8")
    page = Page(text)
    assert not {"img", "b", "i"} & set(page.tags)
    assert page.tags.count("script") == 2  # the page's own, and its data
    assert "&lt;script&gt;alert" in text
    assert "<img src=x onerror=alert(1)>" in page.text


@pytest.mark.usefixtures("no_matplotlib")
def test_the_heading_is_short_and_the_page_names_no_folder(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    config = {"dataset": "npz:/home/someone/wards/heart.npz?label=sick"}
    study = write_study({f"method-{k}": [0.5, 0.6] for k in range(6)}, config=config)
    for path in study.rglob("provenance.json"):
        path.write_text(
            '{"command": "fedcord compare a --dataset npz:/home/someone/wards/heart.npz"}'
        )
    text = build_report(study).html.read_text(encoding="utf-8")
    heading = re.search("<h1>(.*?)</h1>", text)
    assert heading is not None
    assert heading[1] == "method-0, method-1, method-2 and 3 more on heart.npz"
    assert "/home" not in text
    assert "npz:…/heart.npz" in text
    assert "provenance.json in each run folder has the whole command" in text


@pytest.mark.usefixtures("no_matplotlib")
def test_only_settings_that_differ_are_listed_and_the_rest_is_folded(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    params = {"local": {"lr": 0.1, "epochs": 1}, "decay": 0.5}
    study = write_study({"fedavg": [0.5]}, config={"params": params})
    own = {"params": {"local": {"lr": 0.3, "epochs": 1}, "temperature": 0.5}}
    add_run(study, "moon", 0, 0.6, rounds=2, config={**own, "test_views": "mirror"})
    text = build_report(study).html.read_text(encoding="utf-8")
    listed = text[text.index("Settings in which contenders differ") :]
    table, folded = listed.split("<details><summary>All hyper-parameters", 1)
    assert re.findall('<tr><th scope="row">([^<]*)</th>', table) == [
        *("local.lr", "rounds", "test_views"),
    ]
    assert "temperature = 0.5" in folded
    assert "local.epochs = 1" in folded


@pytest.mark.usefixtures("no_matplotlib")
def test_pages_and_tables_say_code_and_data(write_study: StudyWriter) -> None:
    paths = build_report(write_study({"fedavg": [0.5, 0.6]}))
    text = Page(paths.html.read_text(encoding="utf-8")).text
    assert "fedcord 0.1 commit c0ffee torch 2.13 python 3.11" in text
    assert "data-of-seed-1" in text
    assert paths.markdown.read_text().endswith(
        "Made with fedcord 0.1, commit c0ffee, torch 2.13, python 3.11. "
        "Data hash by seed: 0: data-of-seed-0, 1: data-of-seed-1.\n"
    )


@pytest.mark.usefixtures("no_matplotlib")
def test_notes_are_gathered_and_come_after_the_result(write_study: StudyWriter) -> None:
    values = {f"method-{k}": [0.5, 0.6, 0.7] for k in range(4)}
    study = write_study(values, result={"notes": ["client 3 is empty."]})
    text = Page(build_report(study).html.read_text(encoding="utf-8")).text
    note = "4 methods × 3 seeds: client 3 is empty."
    assert text.count("client 3 is empty") == text.count(note) == 1
    assert text.index("Leaderboard") < text.index(note) < text.index("Costs")


@pytest.mark.usefixtures("no_matplotlib")
def test_many_kinds_of_notes_are_one_line_with_a_count(write_study: StudyWriter) -> None:
    notes = {"notes": ["client 3 is empty.", "one class is rare."]}
    text = build_report(write_study(VALUES, result=notes)).html.read_text(encoding="utf-8")
    folded = re.search("<details><summary>20 notes of 10 runs, of 2 kinds</summary>(.*?)</d", text)
    assert folded is not None
    assert folded[1].count('class="note"') == 2


@pytest.mark.usefixtures("no_matplotlib")
def test_the_recorded_command_is_shown(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    for path in study.rglob("provenance.json"):
        path.write_text('{"command": "fedcord compare quick.toml --seeds 5"}')
    text = Page(build_report(study).html.read_text(encoding="utf-8")).text
    assert "as recorded: fedcord compare quick.toml --seeds 5" in text
    assert "rebuilt from its settings" not in text


@pytest.mark.usefixtures("no_matplotlib")
def test_nested_parameters_and_several_models_become_flags(write_study: StudyWriter) -> None:
    config = {"model": ["cnn", "mlp"], "params": {"local": {"lr": 0.5, "epochs": 2}}, "schema": 1}
    page = Page(build_report(write_study({"fedavg": [0.5]}, config=config)).html.read_text())
    assert "--model cnn --model mlp" in page.text
    assert "--seed 0 --set local.epochs=2 --set local.lr=0.5" in page.text


@pytest.mark.usefixtures("no_matplotlib")
def test_the_rebuilt_command_has_the_rounds_of_the_longest(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.4, 0.5]}, rounds=7)
    for seed in (0, 1):
        add_run(study, "one-shot", seed, 0.8 + seed / 100, rounds=1)
    text = Page(build_report(study).html.read_text(encoding="utf-8")).text
    assert (
        "compare fedavg one-shot --dataset digits --partition dirichlet:0.1 --clients 5 --rounds 7"
        in text
    )


def test_one_seed_and_one_algorithm_make_an_honest_page(write_study: StudyWriter) -> None:
    text = Page(build_report(write_study({"fedavg": [0.5]})).html.read_text()).text
    assert "there is no other algorithm to compare it with" in text
    assert "n = 1, no interval" in text
    assert "nan" not in text.lower().split()


@pytest.mark.usefixtures("no_matplotlib")
def test_unfinished_runs_are_said_on_the_page(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study(VALUES)
    add_run(study, "moon", 0, 0.9, is_finished=False)
    text = Page(build_report(study).html.read_text(encoding="utf-8")).text
    assert "moon, seed 0, is unfinished (4 rounds recorded) and left out" in text


@pytest.mark.usefixtures("no_matplotlib")
def test_several_folders_make_one_report(
    write_study: StudyWriter, add_run: StudyWriter, tmp_path: Path
) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    for seed in (0, 1):
        add_run(tmp_path / "other", "moon", seed, 0.7 + seed / 50)
    paths = build_report(study, tmp_path / "other")
    assert paths.html.parent == study
    assert "moon is" in paths.html.read_text() or "and fedavg" in paths.html.read_text()
    assert not (tmp_path / "other" / "report.html").exists()


@pytest.mark.usefixtures("no_matplotlib")
def test_a_failed_report_leaves_the_old_one(write_study: StudyWriter, add_run: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    before = build_report(study).html.read_bytes()
    add_run(study, "moon", 0, 0.5, partition_hash="elsewhere")
    with pytest.raises(PairingError, match="elsewhere"):
        build_report(study)
    assert (study / "report.html").read_bytes() == before


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_tables_and_page_are_still_made(write_study: StudyWriter) -> None:
    paths = build_report(write_study(VALUES))
    assert paths.plots == ()
    text = Page(paths.html.read_text(encoding="utf-8")).text
    assert 'pip install "fedcord[plots]"' in text
    assert "fedprox is ahead of fedavg" in text


def test_reports_and_statistics_import_neither_torch_nor_matplotlib() -> None:
    program = (
        "import sys, fedcord.report, fedcord.statistics; "
        "print([m for m in ('torch', 'matplotlib', 'scipy.stats') if m in sys.modules])"
    )
    source = str(Path(fedcord.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_whole_report_needs_no_torch(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.6], "moon": [0.5, 0.7]})
    program = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path; "
        "from fedcord.report import build_report; build_report(Path(sys.argv[1]))"
    )
    source = str(Path(fedcord.__file__).parent.parent)
    subprocess.run(
        [sys.executable, "-c", program, str(study)],
        env=os.environ | {"PYTHONPATH": source},
        check=True,
    )
    assert (study / "report.html").exists()
