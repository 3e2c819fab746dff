"""`fedcord site check SITE.toml STUDY.toml|ALGO…` and `fedcord site predict SITE.toml --data D`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcord.cli.flags import (
    DATA_FLAGS,
    RUN_FLAGS,
    add_output_flags,
    add_table_flags,
    find_own_modules,
    path,
    settings_from,
)
from fedcord.core.errors import ConfigError

if TYPE_CHECKING:
    from fedcord.experiment.compare import Study
    from fedcord.site.check import SiteCheck
    from fedcord.site.own_data import SiteData
    from fedcord.site.site_file import SiteFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own commands and their flags."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="what a study would mean for this site")
    check.add_argument("site", type=path, metavar="SITE.toml", help="the site's own file")
    check.add_argument(
        "algorithms", nargs="+", metavar="STUDY.toml|ALGO", help="one study file, or algorithms"
    )
    for name, text in (DATA_FLAGS | RUN_FLAGS).items():
        check.add_argument(f"--{name}", metavar="X", help=text)
    add_table_flags(check)
    check.add_argument("--model", action="append", metavar="M", help="network, repeatable")
    check.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help="a parameter of the algorithm, repeatable",
    )
    check.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    predict = actions.add_parser("predict", help="answer with the model a run has left here")
    predict.add_argument("site", type=path, metavar="SITE.toml", help="the site's own file")
    predict.add_argument(
        "--data", required=True, metavar="npz:PATH", help="examples: x, and an id for each if given"
    )
    predict.add_argument(
        "--model", metavar="NAME", help="how its file begins (default: the newest)"
    )
    predict.add_argument(
        "--out", type=path, default=Path("predictions.csv"), metavar="FILE", help="a CSV file"
    )
    add_output_flags(predict)


def execute(arguments: argparse.Namespace) -> int:
    """Do what the command's own command says."""
    return _predict(arguments) if arguments.action == "predict" else _check(arguments)


def _predict(arguments: argparse.Namespace) -> int:
    from fedcord.cli.progress import RunBars
    from fedcord.site.kept_model import find_model
    from fedcord.site.predict import write_predictions
    from fedcord.site.site_file import load_site

    site = load_site(arguments.site)
    model = find_model(site, arguments.model)
    with RunBars(arguments.json or arguments.quiet) as bars:
        count = write_predictions(model, site, arguments.data, arguments.out, bars.steps("predict"))
    if arguments.json:
        found = {"examples": count, "model": model.path.stem, "out": str(arguments.out)}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(f"{count} predictions of {model.path.stem}: {arguments.out}\n")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Tell what a study would mean; a site that does not fit is an error."""
    from fedcord.site.check import check_site
    from fedcord.site.site_file import load_site

    study, site = _study(arguments), load_site(arguments.site)
    data, checks = check_site(site, study.contenders, study.stated)
    if arguments.json:
        found = {"client": site.client, "name": site.name, "fits": not _problems(checks)}
        found |= {"counts": _counts(data), "contenders": [check.to_json() for check in checks]}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        _show(site, data, checks, has_classes=study.stated.class_names is not None)
    problems = _problems(checks)
    if problems:
        raise ConfigError(problems)
    return 0


def _study(arguments: argparse.Namespace) -> Study:
    from fedcord.experiment.compare import load_study, make_study, named_in

    names, settings = arguments.algorithms, settings_from(arguments)
    files = [name for name in names if name.endswith(".toml")]
    if not files:
        find_own_modules(names)
        return make_study(names, settings, 1, arguments.assignments)
    if len(names) > 1:
        raise ConfigError(f"give one study file or algorithms, not both: {', '.join(names)}.")
    find_own_modules(named_in(Path(files[0])))
    return load_study(Path(files[0]), settings, arguments.assignments)


def _problems(checks: list[SiteCheck]) -> list[str]:
    """Every reason once, with the methods it is about where not all have it."""
    whose: dict[str, list[str]] = {}
    for check in checks:
        for problem in check.problems:
            whose.setdefault(problem, []).append(check.contender)
    return [
        problem if len(labels) == len(checks) else f"{', '.join(labels)}: {problem}"
        for problem, labels in whose.items()
    ]


def _counts(data: SiteData | None) -> dict[str, Any]:
    if data is None:
        return {}
    parts = data.class_counts()
    return {
        name: {part: counts[label] for part, counts in parts.items()}
        for label, name in enumerate(data.facts.class_names)
    }


def _show(
    site: SiteFile, data: SiteData | None, checks: list[SiteCheck], *, has_classes: bool
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedcord.report.numbers import byte_size

    console = Console()
    console.print(f"[bold]{escape(site.who)}[/], {escape(site.data)}", highlight=False)
    if data is not None:
        table = Table("class", "train", "validation", "test", box=None, pad_edge=False)
        for name, parts in _counts(data).items():
            table.add_row(escape(name), *(f"{count:,}" for count in parts.values()))
        console.print(table)
        if not has_classes:
            console.print(
                "The study does not state its classes: those of all sites together will count, and "
                "messages may be larger than told here.",
                highlight=False,
            )
    for check in checks:
        if check.problems:
            continue
        console.print(
            f"\n[bold]{escape(check.contender)}[/]: this site would send "
            f"{byte_size(check.bytes_up)} in all",
            highlight=False,
        )
        table = Table("round", "sends", "type and shape", "bytes", box=None, pad_edge=False)
        for part in check.rounds:
            rounds = str(part.first) if part.first == part.last else f"{part.first}-{part.last}"
            for message in part.sends:
                most = "at most " if message.is_most else ""
                form = f"{message.dtype}{list(message.shape)}"
                row = rounds, escape(message.name), escape(form), f"{most}{message.bytes:,}"
                table.add_row(*row)
                rounds = ""
            table.add_row(rounds, "its weight, and numbers on its training", "", "8")
        console.print(table)
        if check.counting:
            console.print(
                f"tells how many examples of each class there are: {', '.join(check.counting)}",
                highlight=False,
            )
        console.print("stays: " + escape("; ".join(check.keeps)), highlight=False)
    if not _problems(checks):
        console.print(
            "\nOnce, before the first round: the form of the data, the names of its classes, how "
            "many examples there are, and sums over the training part from which everybody's "
            "mean and standard deviation are made; then name, version and a fingerprint of the "
            "data. After tests: how many answers were right, and the summed loss"
            + (", by class" if site.share_class_counts else "")
            + ".",
            highlight=False,
        )
