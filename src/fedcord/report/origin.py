"""How the numbers were obtained: settings, seeds, partitions, versions, commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run

FLAGS = (
    *("dataset", "subset", "partition", "longtail", "clients", "rounds", "participation", "model"),
    *("validation", "test", "evaluate_every", "threads"),
)
"""Settings that have a flag of their own on the command line, in the order to write them."""


def origin_section(board: Leaderboard) -> str:
    """The last section of the page."""
    first = board.best.runs[0]
    facts = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in first.config.items()
        if key not in ("algorithm", "seed", "params", "schema")
        and not isinstance(value, Mapping)
        and all(run.config.get(key) == value for row in board.rows for run in row.runs)
    }
    facts["seeds"] = ", ".join(str(seed) for seed in board.seeds)
    settings = "".join(
        f"<dt>{escape(row.name)}</dt><dd>{escape(_params(row.runs[0].config))}</dd>"
        for row in board.rows
    )
    return (
        "<section><h2>How it was obtained</h2>"
        f"{_commands(board)}"
        f"{_definitions(facts)}<h3>Hyper-parameters</h3><dl>{settings}</dl>"
        "<details><summary>Partitions and final states</summary>"
        f"{_hashes(board)}</details>"
        "<details><summary>Versions and machine</summary>"
        f"{_definitions(_flat(first.provenance))}</details></section>"
    )


def _commands(board: Leaderboard) -> str:
    first = board.best.runs[0]
    commands = {"One run by itself:": run_command(first)}
    recorded = recorded_command(first)
    if recorded is not None:
        commands = {"The command, as recorded:": recorded} | commands
    elif len(board.rows) > 1 or len(board.seeds) > 1:
        title = "The comparison, rebuilt from its settings because no command was recorded:"
        commands = {title: study_command(board)} | commands
    return "".join(
        f'<p class="small" style="margin:0 0 .3rem">{title}</p><pre>{escape(command)}</pre>'
        for title, command in commands.items()
    )


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
    head = "".join(f"<th>{escape(row.name)}</th>" for row in board.rows)
    body = ""
    for place, seed in enumerate(board.seeds):
        results = [row.runs[place].result for row in board.rows]
        states = "".join(
            f"<td><code>{escape(result.state_hash[:12]) if result else ''}</code></td>"
            for result in results
        )
        partition = results[0].partition_hash if results[0] else ""
        body += f"<tr><td>{seed}</td><td><code>{escape(partition[:16])}</code></td>{states}</tr>"
    return (
        f'<div class="scroll"><table><thead><tr><th>seed</th><th>partition</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


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
