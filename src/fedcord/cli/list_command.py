"""`fedcord list [algorithms|datasets|partitions|models|studies]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping

from fedcord.cli.flags import find_own_modules
from fedcord.core.errors import ConfigError, unknown_name

FAMILIES = {
    "bounds": "bounds: what others lie between",
    "averaging": "averaging and contrast",
    "personal": "personal models by gradients",
    "optimisation": "averaging with better steps",
    "prototype": "prototypes",
    "oneshot": "one-shot",
    "analytic": "analytic, without gradients",
    "own": "our own",
}
"""Headings of the families, in order."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="algorithms, datasets, partitions, models or studies (default: all)",
    )
    parser.add_argument(
        "name", nargs="?", metavar="ALGO", help="show the parameters of one algorithm"
    )
    parser.add_argument(
        "--all", action="store_true", help="also the steps that led to FLARE (JSON has them)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> None:
    """One line each."""
    if arguments.what not in (None, *TABLES):
        raise ConfigError(unknown_name("list", arguments.what, TABLES))
    if arguments.name is not None:
        if arguments.what != "algorithms":
            raise ConfigError("only algorithms have parameters: fedcord list algorithms NAME.")
        find_own_modules([arguments.name])
        _show_parameters(arguments.name, arguments.json)
        return
    chosen = [arguments.what] if arguments.what else list(TABLES)
    if arguments.json:
        rows = {what: [_json_row(*row) for row in TABLES[what]()] for what in chosen}
        sys.stdout.write(json.dumps(rows[arguments.what] if arguments.what else rows) + "\n")
        return
    for what in chosen:
        if len(chosen) > 1:
            sys.stdout.write(("" if what == chosen[0] else "\n") + f"{what.upper()}\n")
        if what == "algorithms":
            _show_algorithms(arguments.all)
        else:
            _write_rows(TABLES[what]())


def _json_row(name: str, summary: str) -> dict[str, str]:
    return {"name": name, "summary": summary}


def _write_rows(rows: list[tuple[str, str]], width: int = 0) -> None:
    width = width or max(len(name) for name, _ in rows)
    sys.stdout.writelines(f"{name:<{width}}  {summary}\n" for name, summary in rows)


def _show_algorithms(everything: bool) -> None:
    """By family; named forms of an algorithm follow it, indented."""
    from fedcord.algorithms.registry import ALGORITHMS, first_of_class

    shown = {name: info for name, info in ALGORITHMS.items() if everything or not info.is_logged}
    hidden = len(ALGORITHMS) - len(shown)
    rows = {
        family: [
            (("  " if first == name else "    ") + name, shown[name].summary)
            for first in shown
            for name in shown
            if shown[name].family == family and first_of_class(name) == first
        ]
        for family in FAMILIES
    }
    width = max(len(name) for listed in rows.values() for name, _ in listed)
    for family, listed in rows.items():
        sys.stdout.write(f"{FAMILIES[family]}\n")
        _write_rows(listed, width)
    if hidden:
        sys.stdout.write(f"{hidden} more are steps that led to FLARE; --all shows them.\n")


def _show_parameters(name: str, as_json: bool) -> None:
    """What `--set` may change, with defaults and allowed values."""
    from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
    from fedcord.core.params import build, declared_spaces, describe

    cls = algorithm_class(name)
    preset = ALGORITHMS[name].preset if name in ALGORITHMS else {}
    usual = build(cls, preset)
    rows = describe(cls, usual=usual)
    if as_json:
        keys = ("name", "default", "allowed", "meaning")
        spaces = {key: str(space) for key, space in declared_spaces(usual).items()}
        values = [
            {**dict(zip(keys, row, strict=True)), "space": spaces.get(row[0])} for row in rows
        ]
        sys.stdout.write(json.dumps(values) + "\n")
        return
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for key, default, allowed, meaning in rows:
        sys.stdout.write(
            f"{key:<{widths[0]}}  {default:<{widths[1]}}  {allowed:<{widths[2]}}  {meaning}\n"
        )


def _algorithms() -> list[tuple[str, str]]:
    from fedcord.algorithms.registry import ALGORITHMS

    return [(name, info.summary) for name, info in ALGORITHMS.items()]


def _datasets() -> list[tuple[str, str]]:
    from fedcord.data.registry import DATASETS, USER_FORMATS

    own = {f"{prefix}:PATH": info for prefix, info in USER_FORMATS.items()}
    return [(name, info.summary) for name, info in {**DATASETS, **own}.items()]


def _partitions() -> list[tuple[str, str]]:
    from fedcord.data.partition import PARTITIONS

    return [(info.example, info.summary) for info in PARTITIONS.values()]


def _models() -> list[tuple[str, str]]:
    from fedcord.models.registry import MODELS

    return [(name, info.summary) for name, info in MODELS.items()]


def _studies() -> list[tuple[str, str]]:
    from fedcord.experiment.named_study import named_study, names

    return [(name, named_study(name).title) for name in names()]


TABLES: Mapping[str, Callable[[], list[tuple[str, str]]]] = {
    "algorithms": _algorithms,
    "datasets": _datasets,
    "partitions": _partitions,
    "models": _models,
    "studies": _studies,
}
