"""`fedcord check-invariance ALGO`: how much other partitions change a model, measured."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_data_flags, find_own_modules, settings_from

if TYPE_CHECKING:
    from fedcord.cli.progress import RunBars
    from fedcord.experiment.config import RunConfig
    from fedcord.experiment.invariance import Invariance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("algorithm", metavar="ALGO", help="see `fedcord list algorithms`")
    add_data_flags(parser)
    parser.add_argument("--model", action="append", metavar="M", help="network (default auto)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
        help="a parameter of the algorithm, repeatable",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(arguments: argparse.Namespace) -> None:
    """Train on several dealings of the same examples and compare the models."""
    from fedcord.experiment.load import load_config

    find_own_modules([arguments.algorithm])
    settings = {**settings_from(arguments), "algorithm": arguments.algorithm}
    config = load_config(settings, arguments.assignments)

    from fedcord.cli.progress import RunBars

    with RunBars(hidden=arguments.json) as bars:
        found = _measured(config, arguments, bars)
    if arguments.json:
        values = {
            "algorithm": config.algorithm,
            "difference": found.difference,
            "given": found.given,
            "dealings": [
                {"name": d.name, "clients": d.num_clients, "difference": d.difference}
                for d in found.dealings
            ],
        }
        sys.stdout.write(json.dumps(values) + "\n")
        return
    sys.stdout.write(f"{found}\n")


def _measured(config: RunConfig, arguments: argparse.Namespace, bars: RunBars) -> Invariance:
    from fedcord.core.contract import Env
    from fedcord.core.errors import ConfigError
    from fedcord.engine.threads import torch_threads
    from fedcord.experiment.build import build_experiment
    from fedcord.experiment.invariance import check_invariance

    experiment = build_experiment(
        config,
        data_dirs=arguments.data_dir,
        allow_download=arguments.download,
        on_download=bars.loading(config.dataset),
    )
    if experiment.algorithm.traits.rounds is None:
        raise ConfigError(
            f"{config.algorithm} runs as many rounds as one likes and is not invariant; this "
            "measures methods that fix their rounds, such as afl and fedhip."
        )
    people = experiment.population
    clients = [people.client(k) for k, size in enumerate(people.train_sizes) if size > 0]
    with torch_threads(config.threads):
        env = Env(experiment.task, config.seed, 0, experiment.algorithm.traits.rounds)
        return check_invariance(experiment.algorithm, clients, env, bars.steps("dealings"))
