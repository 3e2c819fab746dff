"""`fedcord list algorithms|datasets|partitions|models`."""

from __future__ import annotations

import argparse
import json
import sys

from fedcord.core.errors import ConfigError, unknown_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("what", metavar="WHAT", help="algorithms, datasets, partitions or models")
    parser.add_argument(
        "name", nargs="?", metavar="ALGO", help="show the parameters of one algorithm"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> None:
    """One line each."""
    tables = {
        "algorithms": _algorithms,
        "datasets": _datasets,
        "partitions": _partitions,
        "models": _models,
    }
    if arguments.what not in tables:
        raise ConfigError(unknown_name("list", arguments.what, tables))
    if arguments.name is not None:
        if arguments.what != "algorithms":
            raise ConfigError("only algorithms have parameters: fedcord list algorithms NAME.")
        _show_parameters(arguments.name, arguments.json)
        return
    rows = tables[arguments.what]()
    if arguments.json:
        sys.stdout.write(json.dumps([{"name": n, "summary": s} for n, s in rows]) + "\n")
        return
    width = max(len(name) for name, _ in rows)
    sys.stdout.writelines(f"{name:<{width}}  {summary}\n" for name, summary in rows)


def _show_parameters(name: str, as_json: bool) -> None:
    """What `--set` may change, with defaults and allowed values."""
    from fedcord.algorithms.registry import algorithm_class
    from fedcord.core.params import describe

    rows = describe(algorithm_class(name))
    if as_json:
        keys = ("name", "default", "allowed", "meaning")
        values = [dict(zip(keys, row, strict=True)) for row in rows]
        sys.stdout.write(json.dumps(values) + "\n")
        return
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for key, default, allowed, meaning in rows:
        sys.stdout.write(
            f"{key:<{widths[0]}}  {default:<{widths[1]}}  {allowed:<{widths[2]}}  {meaning}\n"
        )


def _algorithms() -> list[tuple[str, str]]:
    from fedcord.algorithms.registry import ALGORITHMS

    return [(name, info.summary) for name, info in ALGORITHMS.items()]


def _datasets() -> list[tuple[str, str]]:
    from fedcord.data.registry import DATASETS

    return [(name, info.summary) for name, info in DATASETS.items()]


def _partitions() -> list[tuple[str, str]]:
    from fedcord.data.partition import PARTITIONS

    return [(info.example, info.summary) for info in PARTITIONS.values()]


def _models() -> list[tuple[str, str]]:
    from fedcord.models.registry import MODELS

    return [(name, info.summary) for name, info in MODELS.items()]
