"""`fedcord run ALGO`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_flags,
    add_run_flags,
    find_own_modules,
    path,
    place_from,
    settings_from,
    workers_from,
)
from fedcord.core.errors import ConfigError, gather
from fedcord.metrics.registry import DEFAULT, find_metric, metric_problems

if TYPE_CHECKING:
    from fedcord.cli.progress import RunBars
    from fedcord.report.load import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("algorithm", metavar="ALGO", help="see `fedcord list algorithms`")
    add_data_flags(parser)
    add_run_flags(parser)
    parser.add_argument(
        "--from",
        type=path,
        metavar="RUN",
        dest="start",
        help="begin with the state of a finished run; of the same run, --rounds more",
    )


def execute(arguments: argparse.Namespace) -> None:
    """One run, then its result."""
    from fedcord.experiment.config import engine_problems
    from fedcord.experiment.load import load_config

    find_own_modules([arguments.algorithm])
    settings = {**settings_from(arguments), "algorithm": arguments.algorithm}
    problems = engine_problems(arguments.engine, workers_from(arguments))
    problems += [] if arguments.metric is None else metric_problems(arguments.metric)
    with gather(problems):
        config = load_config(settings, arguments.assignments)
    if problems:
        raise ConfigError(problems)

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.finished_run import read_finished
    from fedcord.experiment.folders import RUNS, find_run_to_resume
    from fedcord.experiment.run import run
    from fedcord.experiment.start_from import going_on
    from fedcord.store.run_folder import RunFolder

    start = None
    if arguments.start is not None:
        start = read_finished(arguments.start, arguments.data_dir)
        config = going_on(config, start, settings.get("rounds"))
    out = arguments.out
    if out is None and (arguments.resume or arguments.retry_failed):
        out = find_run_to_resume(RUNS, config)
    place = place_from(arguments, out)
    was_finished = out is not None and RunFolder(out).is_finished
    with RunBars(hidden=arguments.json or arguments.quiet) as bars:
        result = run(config, place, bars.watch(config.algorithm, config.seed), start=start)
    show_result(result, bars, arguments.json, was_finished, arguments.metric)


def show_result(
    result: dict[str, object],
    bars: RunBars,
    as_json: bool,
    was_finished: bool,
    metric: str | None = None,
) -> None:
    """What came out, for a person or a program."""
    if was_finished:
        sys.stderr.write(f"'{result['run_dir']}' is finished already; nothing to do.\n")
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    from fedcord.report.caveats import caveats, remarks
    from fedcord.report.load import load_run
    from fedcord.report.notes import gathered

    own = load_run(Path(str(result["run_dir"])))
    _show(result, own, metric or str(result.get("metric", DEFAULT)))
    sys.stdout.flush()
    runs = {own.name: [own]}
    bars.say((*caveats(runs), *gathered(remarks(runs))))


def _show(result: dict[str, object], own: Run, metric: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from fedcord.report.numbers import byte_size

    table = Table(show_header=False, box=None, pad_edge=False)
    up, down = result["bytes_up"], result["bytes_down"]
    assert isinstance(up, int)
    assert isinstance(down, int)
    rows = [
        *_chosen(own, metric),
        (
            "accuracy",
            f"{result['accuracy']:.4f}  ({_of(result)}final round, {result['accuracy_on']})",
        ),
        *_unequal(own),
        ("clients' own", _percent(result["client_accuracy_mean"])),
        *_private(result),
        ("traffic", f"{byte_size(up)} up, {byte_size(down)} down"),
        ("time", f"{result['seconds']:.1f} s in {result['rounds']} round(s)"),
        ("state", str(result["state_hash"])[:16]),
        ("folder", str(result["run_dir"])),
    ]
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def _chosen(own: Run, name: str) -> list[tuple[str, str]]:
    """What the run was asked about, where that is not the accuracy."""
    from fedcord.report.scores import with_unit

    metric, values = find_metric(name), own.result.measured.values if own.result else {}
    if name == DEFAULT:
        return []
    if name not in values:
        return [(metric.words, "not measured in this run")]
    return [
        (
            metric.words,
            f"{with_unit(values[name], metric)}  ({metric.says[0].lower()}{metric.says[1:-1]})",
        )
    ]


def _unequal(own: Run) -> list[tuple[str, str]]:
    """What the accuracy hides where the test part has more examples of some classes."""
    from fedcord.report.constant import constant_answer

    floor = constant_answer(own)
    balanced = own.result.measured.values.get("balanced_accuracy") if own.result else None
    if floor is None or not floor.is_unequal or balanced is None:
        return []
    return [
        ("balanced", f"{balanced:.4f}  (mean over classes, each counts the same)"),
        ("constant", f"{floor.majority:.4f}  (always answering '{floor.majority_class}')"),
    ]


def _private(result: dict[str, object]) -> list[tuple[str, str]]:
    """What noise guarantees, where a method adds some."""
    spent = result.get("privacy")
    if not isinstance(spent, dict):
        return []
    told = f"ε = {spent['epsilon']:.4g}, δ = {spent['delta']:g}  (for one {spent['unit']})"
    return [("privacy", told)]


def _of(result: dict[str, object]) -> str:
    """Whose accuracy it is, where there is no shared model."""
    return (
        f"mean over {result['own_models']} clients' own models, " if "own_models" in result else ""
    )


def _percent(value: object) -> str:
    if not isinstance(value, float):
        return "no client has a test part"
    return f"{value:.4f}  (mean over clients, each on its own test part)"
