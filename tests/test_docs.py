"""The documentation is run: code, commands, shown output, links, generated pages, doctests."""

from __future__ import annotations

import argparse
import doctest
import importlib
import itertools
import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import fedcord
from fedcord.cli.main import COMMANDS, main
from fedcord.core import errors
from fedcord.core.rng import torch_generator
from fedcord.experiment.load import load_config, load_data_config
from fedcord.models.registry import network_factory
from fedcord.store.checkpoint import load_newest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob(".github/*.md"), *ROOT.glob("docs/**/*.md")])
SOURCE = ROOT / "src"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced piece of a page; `line` is that of its opening fence."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines()
    start = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
        else:
            text = "\n".join(lines[start + 1 : number]) + "\n"
            found.append(Block(lines[start][3:].strip(), text, start + 1))
            start = None
    assert start is None, f"{page} has a fence that is not closed"
    return found


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


BLOCKS = {page: blocks_of(page) for page in PAGES}
RUNNABLE = [p for p in PAGES if any(b.language in ("python", "console") for b in BLOCKS[p])]


def test_the_pages_were_found() -> None:
    languages = [block.language for blocks in BLOCKS.values() for block in blocks]
    assert len(PAGES) >= 30
    assert len(RUNNABLE) >= 8
    assert languages.count("python") >= 15
    assert languages.count("console") >= 12


# --- code and commands ---------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like the one a reader would work in, with the studies beside it."""
    shutil.copytree(ROOT / "studies", tmp_path / "studies")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_a_page_runs_from_top_to_bottom_and_prints_what_it_shows(
    page: Path,
    reader: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace: dict[str, Any] = {"__name__": page.stem}
    printed: str | None = None
    for block in BLOCKS[page]:
        where = f"{name_of(page)}, line {block.line}"
        if block.language == "python":
            printed = run_python(block, namespace, reader, where, capsys)
        elif block.language == "text" and printed is not None:
            assert shows(block.text, printed), f"{where} shows other output than:\n{printed}"
            assert near(block.text, printed), f"{where} shows other numbers than:\n{printed}"
            printed = None
        elif block.language in ("console", "sh"):
            printed = None
            for words, shown in commands_of(block):
                run_command(words, shown, where, capsys, monkeypatch)
        else:
            printed = None


def run_python(
    block: Block,
    namespace: dict[str, Any],
    folder: Path,
    where: str,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run a block, or write it to the file its first line names."""
    named = re.match(r"# (\w+\.py)\n", block.text)
    if named:
        compile(block.text, where, "exec")
        (folder / named[1]).write_text(block.text)
        importlib.invalidate_caches()
        return ""
    capsys.readouterr()
    exec(compile(block.text, where, "exec"), namespace)  # the page is ours
    return capsys.readouterr().out


def commands_of(block: Block) -> list[tuple[list[str], str]]:
    """The `fedcord` commands of a block, each with the output shown below it."""
    found: list[tuple[list[str], str]] = []
    is_console = block.language == "console"
    for line in block.text.splitlines():
        command = line.removeprefix("$ ") if line.startswith("$ ") or not is_console else ""
        if command.startswith("fedcord "):
            found.append((shlex.split(command, comments=True)[1:], ""))
        elif is_console:
            assert found, f"output before any command: {line}"
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found if is_console else [(words, SKETCH) for words, _ in found]


SKETCH = "sketch"
"""In place of output: the command stands in a `sh` block, to be checked and not run."""


def run_command(
    words: list[str],
    shown: str,
    where: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run a command, or, where that would take long or need files, check all its words."""
    capsys.readouterr()
    with monkeypatch.context() as patch:
        if shown == SKETCH or needs_more_than_a_test_has(words):
            command = importlib.import_module(f"fedcord.cli.{COMMANDS[words[0]][0]}")
            check = CHECKS.get(words[0], _only_parsed)
            patch.setattr(command, "execute", check(command))
            code, shown = exit_code(words), ""
        elif any(word.endswith(".toml") for word in words):
            code, shown = exit_code([*words, "--seeds", "2", "--rounds", "1"]), ""
        else:
            code = exit_code(words)
    output = capsys.readouterr()
    expected = 2 if shown.startswith("error:") else 0
    assert code == expected, f"{where}: {shlex.join(words)}\n{output.err}"
    real = output.err if expected else output.out + output.err
    hide = plain if words[0] in ("inspect", "list") else masked  # nothing in these is chance
    assert shows(shown, real, hide), f"{where}: {shlex.join(words)} prints\n{real}"


def exit_code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as stop:  # how argparse ends
        return int(stop.code or 0)


def needs_more_than_a_test_has(words: list[str]) -> bool:
    at_hand = ("digits", "synthetic", "npz:", "folder:")
    if words[0] == "compare" and words[1].endswith(".toml") and len(words) > 2:
        return True  # a variation of a study the page has run already
    for flag, value in itertools.pairwise(words):
        if flag == "--dataset" and not value.startswith(at_hand):
            return True
        if flag == "--engine" and value == "processes":  # starting workers takes seconds
            return True
    return False


Execute = Callable[[argparse.Namespace], None]


def _check_run(command: ModuleType) -> Execute:
    return lambda a: _ignore(
        load_config({**command.settings_from(a), "algorithm": a.algorithm}, a.assignments)
    )


def _check_compare(command: ModuleType) -> Execute:
    return lambda a: _ignore(command._study(a))


def _check_inspect(command: ModuleType) -> Execute:
    return lambda a: _ignore(load_data_config(command.settings_from(a)))


def _only_parsed(command: ModuleType) -> Execute:
    return _ignore


def _ignore(value: object) -> None:
    assert value is not None


CHECKS: dict[str, Callable[[ModuleType], Execute]] = {
    "run": _check_run,
    "compare": _check_compare,
    "inspect": _check_inspect,
}
"""What `execute` checks before it reads data; other commands are only parsed."""


NUMBER = re.compile(r"[<−-]?\d[\d.,]*")
HASH = re.compile(r"\b[0-9a-f]{8,64}\b")


def plain(text: str) -> str:
    """Output without white space that only arranges it."""
    return " ".join(text.split())


def masked(text: str) -> str:
    """Output also without what differs between machines: numbers, hashes, durations."""
    text = NUMBER.sub("#", HASH.sub("#", text))
    return plain(re.sub(r"# (ms|s|min)\b", "# s", text))


def shows(shown: str, real: str, hide: Callable[[str], str] = masked) -> bool:
    """Whether `shown` is in `real` up to what `hide` hides; a `…` in it stands for anything."""
    rest = hide(real)
    for part in shown.split("…"):
        wanted = hide(part)
        place = rest.find(wanted)
        if place < 0:
            return False
        rest = rest[place + len(wanted) :]
    return True


def near(shown: str, real: str) -> bool:
    """Whether the numbers up to the first `…` agree as closely as other machines may."""
    pairs = zip(_numbers(shown.split("…")[0]), _numbers(real), strict=False)
    return all(abs(a - b) <= 0.03 + 0.02 * abs(b) for a, b in pairs)


def _numbers(text: str) -> list[float]:
    found = re.findall(r"[−-]?\d+(?:\.\d+)?", HASH.sub("", text))
    return [float(number.replace("−", "-")) for number in found]


def test_the_comparison_of_outputs_can_fail() -> None:
    real = "accuracy  0.8858 (final round)\ntime 12 ms\nstate 727b49d696e0f8e0\n"
    assert shows("accuracy 0.9 (final round)\ntime 1.2 s\nstate 0123456789abcdef", real)
    assert shows("accuracy 0.9 …\nstate …", real)
    assert not shows("precision 0.9 …", real)
    assert not shows("state …\naccuracy …", real)
    assert not shows("accuracy 0.9 …", real, plain)
    assert shows("accuracy 0.8858 …", real, plain)
    assert near("accuracy 0.88", "accuracy 0.8858")
    assert not near("2 hashes", "1 hashes")


# --- links, pictures, words ----------------------------------------------------------------------


def test_every_relative_link_leads_somewhere() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(_prose(page))]
    inside = [(page, target) for page, target in links if not target.startswith("https://")]
    assert len(inside) >= 120
    assert [
        f"{name_of(page)}: {target}" for page, target in inside if not _leads(page, target)
    ] == []


def _leads(page: Path, target: str) -> bool:
    """Whether the file is there, and in it the heading after the `#`."""
    file, _, anchor = target.partition("#")
    path = page.parent / file if file else page
    return path.exists() and (
        not anchor or anchor in [_slug(heading) for heading in HEADING.findall(_prose(path))]
    )


def test_every_picture_is_shown() -> None:
    pictures = {path for path in (ROOT / "docs/images").iterdir() if path.suffix != ".md"}
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in LINK.findall(_prose(page))
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


def _prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


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


# --- code that documents itself ------------------------------------------------------------------

DOCTESTED = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", DOCTESTED, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_doctests(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    module = importlib.import_module(name)
    examples = [test.examples for test in doctest.DocTestFinder().find(module)]
    assert sum(map(len, examples)) >= 1
    assert doctest.testmod(module).failed == 0


def test_doctests_were_found() -> None:
    assert len(DOCTESTED) >= 9


def test_the_plain_script_is_our_fedavg(reader: Path) -> None:
    script = runpy.run_path(str(ROOT / "examples/plain_fedavg.py"))
    clients, test_images, test_labels = script["load"]()
    ours = fedcord.run("fedavg", rounds=script["ROUNDS"], validation=0.0, test=0.0, out="ours")
    final = load_newest(reader / "ours/checkpoints", ours["config_hash"])
    assert final is not None
    initial = network_factory("mlp:64", kind="image", input_shape=(1, 8, 8), num_classes=10)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    start = initial(torch_generator(0, "init")).parameters()
    for parameter, value in zip(model.parameters(), start, strict=True):
        parameter.data = value.detach().clone()

    def shuffle(round_: int, client: int, num: int) -> torch.Tensor:
        generator = torch_generator(0, "batches", round_, client)
        return torch.randperm(num, generator=generator)

    script["federated_averaging"](model, clients, shuffle)
    assert script["accuracy"](model, test_images, test_labels) == pytest.approx(ours["accuracy"])
    trained = {
        f"model.linear_layers.{layer}.{kind}": getattr(model[2 * layer], kind).detach()
        for layer in (0, 1)
        for kind in ("weight", "bias")
    }
    assert trained.keys() == final.state.shared.keys()
    for name, value in trained.items():
        torch.testing.assert_close(value, final.state.shared[name], rtol=0, atol=1e-5)
