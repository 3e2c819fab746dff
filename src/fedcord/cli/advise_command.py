"""`fedcord advise`: which method to try first, by what was measured on data like yours."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_data_flags, add_output_flags, settings_from
from fedcord.core.errors import ConfigError, shown
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.advice.wishes import Wishes

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="the data set, as after --dataset, or a folder"
    )
    add_data_flags(parser)
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        help="what all clients together may send and receive in the whole run, such as 50MB",
    )
    parser.add_argument("--max-rounds", metavar="N", help="exchanges between clients and server")
    parser.add_argument(
        "--personal", action="store_true", help="models are for clients' own data, not everybody's"
    )
    parser.add_argument(
        "--mixed-networks", action="store_true", help="clients have different networks"
    )
    parser.add_argument(
        "--private",
        action="store_true",
        help="the server may read sums of updates only, as with --secure",
    )
    add_output_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """Measure the situation, look for studies near it, say what they show."""
    from fedcord.advice.evidence import load_evidence
    from fedcord.advice.measures import measures_of
    from fedcord.advice.recommend import advise
    from fedcord.advice.words import advice_json, advice_text
    from fedcord.cli.progress import RunBars
    from fedcord.data.registry import load_dataset
    from fedcord.experiment.config import partition_of
    from fedcord.experiment.load import load_data_config

    wishes = _wishes(arguments)
    if arguments.data is not None:
        if arguments.dataset is not None:
            raise ConfigError(
                f"the data set is given twice, {shown(arguments.data)} and --dataset "
                f"{shown(arguments.dataset)}; give it once."
            )
        is_folder = ":" not in arguments.data and Path(arguments.data).is_dir()
        arguments.dataset = f"folder:{arguments.data}" if is_folder else arguments.data
    settings = settings_from(arguments)
    config = load_data_config(settings)
    with RunBars(hidden=arguments.json or arguments.quiet) as bars:
        dataset = load_dataset(
            config.dataset,
            data_dirs=arguments.data_dir,
            allow_download=arguments.download,
            progress=bars.loading(config.dataset),
        )
    partition = partition_of(config, dataset)
    counts = partition.counts(dataset.train.labels, dataset.num_classes)
    situation = measures_of(counts, dataset.kind, config.partition)
    evidence = load_evidence()
    advice = advise(situation, wishes, evidence)
    named = {"dataset": config.dataset, "partition": config.partition, "clients": config.clients}
    named |= {name: settings[name] for name in ("subset", "longtail", "seed") if name in settings}
    words = [word for name, value in named.items() for word in (f"--{name}", str(value))]
    words += [word for folder in arguments.data_dir or () for word in ("--data-dir", str(folder))]
    title = f"{dataset.name}, {partition.spec}"
    if arguments.json:
        sys.stdout.write(json.dumps(advice_json(advice, title, words, evidence)) + "\n")
    else:
        sys.stdout.write(advice_text(advice, title, words, evidence))


def _wishes(arguments: argparse.Namespace) -> Wishes:
    from fedcord.advice.wishes import Wishes

    problems = []
    size, rounds = None, None
    if arguments.max_bytes is not None:
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMGT]?B?)", arguments.max_bytes)
        unit = None if found is None else found[2].upper().removesuffix("B") + "B"
        if found is None or unit not in UNITS:
            problems.append(
                f"--max-bytes {shown(arguments.max_bytes)}: must be a number of bytes, such as "
                "50MB or 1.5GB."
            )
        else:
            size = round(float(found[1]) * UNITS[unit])
    if arguments.max_rounds is not None:
        rounds = parse_value(arguments.max_rounds)
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
            problems.append(
                f"--max-rounds {shown(arguments.max_rounds)}: must be a whole number from 1."
            )
    if problems:
        raise ConfigError(problems)
    return Wishes(size, rounds, arguments.personal, arguments.mixed_networks, arguments.private)
