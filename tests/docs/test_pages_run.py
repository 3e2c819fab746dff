"""Every page is run: its code, its commands, and the output it shows."""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedcord.cli.main import COMMANDS, main
from fedcord.experiment.load import load_config, load_data_config
from tests.cli.command import in_one_process
from tests.docs.pages import PAGES, Block, blocks_of, name_of

BLOCKS = {page: blocks_of(page) for page in PAGES}
RUNNABLE = [p for p in PAGES if any(b.language in ("python", "console") for b in BLOCKS[p])]


def test_the_pages_were_found() -> None:
    languages = [block.language for blocks in BLOCKS.values() for block in blocks]
    assert len(PAGES) >= 30
    assert len(RUNNABLE) >= 8
    assert languages.count("python") >= 15
    assert languages.count("console") >= 12


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
        elif words[0] == "compare" and any(word.endswith(".toml") for word in words):
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
        return main(in_one_process(tuple(words)))
    except SystemExit as stop:  # how argparse ends
        return int(stop.code or 0)


def needs_more_than_a_test_has(words: list[str]) -> bool:
    at_hand = ("digits", "synthetic", "npz:", "folder:", "csv:")
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
    def check(a: argparse.Namespace) -> None:
        study, trials = (
            command.study_from(a),
            getattr(a, "tune", None) or getattr(a, "trials", None),
        )
        _ignore(study if trials is None else command.plan_from(a, study, trials))

    return check


def _check_inspect(command: ModuleType) -> Execute:
    return lambda a: _ignore(load_data_config(command.settings_from(a)))


def _only_parsed(command: ModuleType) -> Execute:
    return _ignore


def _ignore(value: object) -> None:
    assert value is not None


CHECKS: dict[str, Callable[[ModuleType], Execute]] = {
    "run": _check_run,
    "compare": _check_compare,
    "tune": _check_compare,
    "inspect": _check_inspect,
}
"""What `execute` checks before it reads data; other commands are only parsed."""


NUMBER = re.compile(r"[<−-]?\d[\d.,]*")
HASH = re.compile(r"\b[0-9a-f]{8,64}\b")


def plain(text: str) -> str:
    """Output without white space that only arranges it."""
    return " ".join(text.split())


def masked(text: str) -> str:
    """Output also without what differs between machines: numbers, hashes, durations.

    A table is as wide as its longest duration, and so is the rule below its head.
    """
    text = re.sub("─+", "─", NUMBER.sub("#", HASH.sub("#", text)))
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
    assert shows(" time\n ─────\n 12 ms", "  time\n ──────\n 120 ms")
    assert not shows("precision 0.9 …", real)
    assert not shows("state …\naccuracy …", real)
    assert not shows("accuracy 0.9 …", real, plain)
    assert shows("accuracy 0.8858 …", real, plain)
    assert near("accuracy 0.88", "accuracy 0.8858")
    assert not near("2 hashes", "1 hashes")
