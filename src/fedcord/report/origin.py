"""How the numbers were obtained: settings, seeds, partitions, versions, commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run
from fedcord.report.markup import Cell, Line, methods_of, table
from fedcord.report.numbers import NOTHING
from fedcord.report.subject import command_without_folders, without_folders

FLAGS = (
    *("dataset", "subset", "partition", "longtail", "clients", "rounds", "participation", "model"),
    *("validation", "test", "evaluate_every", "secure", "attack", "test_views"),
    *("threads", "device"),
)
"""Settings that have a flag of their own on the command line, in the order to write them."""

OWN_SETTINGS = ("model", "rounds", "participation", "evaluate_every")
"""What a contender may have of its own beside hyper-parameters."""
UNWRITTEN = ("secure", "attack", "test_views")
"""Likewise; a run without one has none written down."""


UNKNOWN = "not recorded"


def origin_section(board: Leaderboard) -> str:
    """The last section of the page."""
    first = board.best.runs[0]
    facts = {
        key: without_folders(_text(value))
        for key, value in first.config.items()
        if key not in ("algorithm", "seed", "params", "schema")
        and not isinstance(value, Mapping)
        and all(run.config.get(key) == value for row in board.rows for run in row.runs)
    }
    facts["seeds"] = ", ".join(str(seed) for seed in board.seeds)
    facts |= made_with(board)
    return (
        "<section><h2>How it was obtained</h2>"
        f"{_commands(board)}"
        f"{_definitions(facts)}{_differing(board)}"
        "<details><summary>All hyper-parameters</summary>"
        f"{_all_settings(board)}</details>"
        "<details><summary>Data, partitions and final states</summary>"
        f"{_hashes(board)}</details>"
        "<details><summary>Machine and packages</summary>"
        f"{_definitions(_machine(first))}</details></section>"
    )


def made_with(board: Leaderboard) -> dict[str, str]:
    """Versions and commit of all runs; several where they differ."""
    origins = [run.provenance for row in board.rows for run in row.runs]

    def all_of(values: Iterable[object]) -> str:
        return ", ".join(sorted({str(value) for value in values if value})) or UNKNOWN

    return {
        "fedcord": all_of(own.get("packages", {}).get("fedcord") for own in origins),
        "commit": all_of(own.get("commit") for own in origins),
        "torch": all_of(own.get("packages", {}).get("torch") for own in origins),
        "python": all_of(own.get("python") for own in origins),
    }


def origin_line(board: Leaderboard) -> str:
    """Code and data in one line, for tables that travel without the page."""
    made = ", ".join(f"{what} {which}" for what, which in made_with(board).items())
    hashes = {run.seed: run.data_hash for run in board.best.runs}
    data = ", ".join(
        f"{seed}: {UNKNOWN if digest is None else digest[:16]}" for seed, digest in hashes.items()
    )
    return f"Made with {made}. Data hash by seed: {data}."


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _machine(run: Run) -> dict[str, str]:
    shown = {key: value for key, value in run.provenance.items() if key not in ("command", "argv")}
    return {key: without_folders(value) for key, value in _flat(shown).items()}


def _differing(board: Leaderboard) -> str:
    """Settings and hyper-parameters that several contenders have with different values."""
    settings = {row.name: _all_of(row.runs[0]) for row in board.rows}
    keys = sorted({key for own in settings.values() for key in own})
    shown = [key for key in keys if len({own[key] for own in settings.values() if key in own}) > 1]
    title = "<h3>Settings in which contenders differ</h3>"
    if not shown:
        return f"{title}<p>None beside what only one of them has.</p>" if len(settings) > 1 else ""
    lines = [
        Line([Cell(escape(key)), *_by_method(board, [own.get(key) for own in settings.values()])])
        for key in shown
    ]
    return title + table("Settings that differ", [Cell("setting"), *_names(board)], lines)


def _names(board: Leaderboard) -> list[Cell]:
    return _by_method(board, [row.name for row in board.rows])


def _by_method(board: Leaderboard, texts: Sequence[str | None]) -> list[Cell]:
    """A column for each method."""
    numbers = methods_of(board)
    return [
        Cell(escape(NOTHING if text is None else text), method=numbers[row.name])
        for row, text in zip(board.rows, texts, strict=True)
    ]


def _all_of(run: Run) -> dict[str, str]:
    """What a contender may have of its own: a few settings, and its hyper-parameters."""
    own = {key: run.config[key] for key in OWN_SETTINGS if key in run.config}
    own |= {key: run.config.get(key, "none") for key in UNWRITTEN}
    return {
        key: without_folders(_text(value))
        for key, value in (own | _flat_params(run.config)).items()
    }


def _all_settings(board: Leaderboard) -> str:
    items = "".join(
        f"<dt>{escape(row.name)}</dt><dd>{escape(_params(row.runs[0].config))}</dd>"
        for row in board.rows
    )
    return f"<dl>{items}</dl>"


def _commands(board: Leaderboard) -> str:
    one = run_command(board.best.runs[0])
    whole, title = recorded_command(board.best.runs[0]), "The command, as recorded:"
    if whole is None and (len(board.rows) > 1 or len(board.seeds) > 1):
        title = "The comparison, rebuilt from its settings because no command was recorded:"
        whole = study_command(board)
    text = "" if whole is None else f'<p class="small tight">{title}</p>{_pre(whole)}'
    text += f"<details><summary>One run by itself</summary>{_pre(one)}</details>"
    if any(command_without_folders(command) != command for command in (one, whole or "")):
        text += (
            '<p class="small">"…" stands for folders of the machine it ran on; provenance.json in '
            "each run folder has the whole command.</p>"
        )
    return text


def _pre(command: str) -> str:
    return f"<pre>{escape(command_without_folders(command))}</pre>"


def recorded_command(run: Run) -> str | None:
    """The command line as the run itself noted it, if it did."""
    for key in ("command", "argv"):
        recorded = run.provenance.get(key)
        if isinstance(recorded, str) and recorded:
            return recorded
        if isinstance(recorded, list) and recorded:
            return shlex.join(str(word) for word in recorded)
    return None


def study_command(board: Leaderboard) -> str:
    """The command that makes this comparison, as far as the settings tell."""
    words = ["fedcord", "compare", *sorted({row.runs[0].algorithm for row in board.rows})]
    # a one-shot method records one round whatever was asked for
    longest = max((row.runs[0] for row in board.rows), key=lambda run: len(run.metrics))
    words += _flag_words(longest.config)
    return shlex.join([*words, "--seeds", str(max(board.seeds) + 1)])


def run_command(run: Run) -> str:
    """The command that repeats one run."""
    words = ["fedcord", "run", run.algorithm, *_flag_words(run.config), "--seed", str(run.seed)]
    for key, value in _flat_params(run.config).items():
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def _flag_words(config: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for key in FLAGS:
        values = config.get(key, [])
        for value in values if isinstance(values, list) else [values]:
            words += [f"--{key.replace('_', '-')}", str(value)]
    return words


def _flat_params(config: Mapping[str, Any]) -> dict[str, str]:
    """An algorithm's parameters under the dotted names that --set takes."""
    flat: dict[str, str] = {}

    def add(values: Mapping[str, Any], prefix: str) -> None:
        for key, value in sorted(values.items()):
            if isinstance(value, Mapping):
                add(value, f"{prefix}{key}.")
            else:
                flat[prefix + key] = value if isinstance(value, str) else json.dumps(value)

    params = config.get("params", {})
    if isinstance(params, Mapping):
        add(params, "")
    return flat


def _params(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in _flat_params(config).items()) or "none set"


def _hashes(board: Leaderboard) -> str:
    runs = [{run.seed: run for run in row.runs} for row in board.rows]
    lines = []
    for seed in sorted({seed for own in runs for seed in own}):
        results = [own.get(seed) for own in runs]
        known = next(run for run in results if run is not None)
        data = UNKNOWN if known.data_hash is None else known.data_hash[:16]
        split = known.result.partition_hash[:16] if known.result else ""
        states = [run.result.state_hash[:12] if run and run.result else None for run in results]
        cells = [Cell(str(seed), seed), Cell(escape(data)), Cell(escape(split))]
        lines.append(Line([*cells, *_by_method(board, states)]))
    head = [Cell("seed"), Cell("data"), Cell("partition"), *_names(board)]
    return table("Data, partitions and final states", head, lines, kind="hashes")


def _definitions(facts: Mapping[str, str]) -> str:
    items = "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(value)}</dd>"
        for key, value in facts.items()
    )
    return f"<dl>{items}</dl>"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key} ")
        elif value is not None:
            flat[f"{prefix}{key}"] = (
                ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            )
    return flat
