"""`fedcord list algorithms|datasets|partitions|models`."""

from __future__ import annotations

import argparse
import json
import sys

from fedcord.core.errors import ConfigError, unknown_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("what", metavar="WHAT", help="algorithms, datasets, partitions or models")
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
    rows = tables[arguments.what]()
    if arguments.json:
        sys.stdout.write(json.dumps([{"name": n, "summary": s} for n, s in rows]) + "\n")
        return
    width = max(len(name) for name, _ in rows)
    sys.stdout.writelines(f"{name:<{width}}  {summary}\n" for name, summary in rows)


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
