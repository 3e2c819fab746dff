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
    add_table_flags,
    find_own_modules,
    path,
    settings_from,
)
from fedcord.cli.predict_command import add_prediction_flags, predict_and_tell
from fedcord.core.errors import ConfigError

if TYPE_CHECKING:
    from fedcord.cli.table_columns import Columns
    from fedcord.data.tables.sums import TableSums
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
        "--model", metavar="NAME", help="how its file begins (default: the newest)"
    )
    add_prediction_flags(predict)


def execute(arguments: argparse.Namespace) -> int:
    """Do what the command's own command says."""
    return _predict(arguments) if arguments.action == "predict" else _check(arguments)


def _predict(arguments: argparse.Namespace) -> int:
    from fedcord.site.kept_model import find_model
    from fedcord.site.site_file import load_site

    kept = find_model(load_site(arguments.site), arguments.model)
    predict_and_tell(kept.model, arguments, {"model": kept.path.stem})
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Tell what a study would mean; a site that does not fit is an error."""
    from fedcord.cli.table_columns import columns_of
    from fedcord.site.check import check_site, survey_sums
    from fedcord.site.site_file import load_site

    study, site = _study(arguments), load_site(arguments.site)
    data, checks = check_site(site, study.contenders, study.stated)
    problems = _problems(checks)
    columns = None if data is None else columns_of(site.data)
    sums = None
    if data is not None and data.tables and not problems:
        sums = survey_sums(data)[1]
    if arguments.json:
        found = {"client": site.client, "name": site.name, "fits": not problems}
        found |= {"counts": _counts(data), "contenders": [check.to_json() for check in checks]}
        found |= {} if columns is None else {"table": columns.to_json()}
        found |= {} if sums is None else {"survey": sums.to_json()["columns"]}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        _show(site, data, checks, columns, has_classes=study.stated.class_names is not None)
        if not problems:
            _show_survey(site, sums)
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
    site: SiteFile,
    data: SiteData | None,
    checks: list[SiteCheck],
    columns: Columns | None,
    *,
    has_classes: bool,
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedcord.cli.table_columns import show_columns
    from fedcord.report.numbers import byte_size

    console = Console()
    console.print(f"[bold]{escape(site.who)}[/], {escape(site.data)}", highlight=False)
    if columns is not None:
        show_columns(columns)
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
            if not part.hidden:
                table.add_row(rounds, "its weight, and numbers on its training", "", "8")
        console.print(table)
        hidden = dict.fromkeys(name for part in check.rounds for name in part.hidden)
        if hidden:
            console.print(
                f"under masks, in message: {escape(', '.join(hidden))}, and its weight; the server "
                "reads their sum over all clients",
                highlight=False,
            )
        if check.counting:
            console.print(
                f"tells how many examples of each class there are: {', '.join(check.counting)}",
                highlight=False,
            )
        console.print("stays: " + escape("; ".join(check.keeps)), highlight=False)


def _show_survey(site: SiteFile, sums: TableSums | None) -> None:
    """What passes beside the rounds."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedcord.data.tables.cells import listed
    from fedcord.data.tables.sums import NumberSums

    console = Console()
    sent = "sums over the training part from which everybody's mean and standard deviation are made"
    if sums is not None:
        sent = "what kind its columns are of; then, over the rows of the training part"
    console.print(
        "\nOnce, before the first round: the form of the data, the names of its classes, how many "
        f"examples there are, and {sent}"
        + (":" if sums is not None else "; then name, version and a fingerprint of the data."),
        highlight=False,
    )
    if sums is not None:
        table = Table("column", "sends", box=None, pad_edge=False)
        for name, column in sums.columns.items():
            if isinstance(column, NumberSums):
                words = "how many numbers it has, Σx, and Σ(x − own mean)²"
            else:
                single = [word for word, count in column.counts.items() if count == 1]
                words = f"{len(column.counts):,} words and how often each occurs"
                words += f", {len(single):,} of them once: {listed(single)}" if single else ""
            table.add_row(escape(name), escape(f"{words}; how many cells are missing"))
        console.print(table)
        console.print(
            "The words become inputs, and all sites are told them. Other sites may have more words "
            "or columns, so that messages differ from those told here. Then name, version and a "
            "fingerprint of the data.",
            highlight=False,
        )
    console.print(
        "After tests: how many answers were right, and the summed loss"
        + (", by class" if site.share_class_counts else "")
        + ".",
        highlight=False,
    )
