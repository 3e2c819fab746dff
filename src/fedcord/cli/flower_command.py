"""`fedcord flower run | simulate | app`: the same runs across processes and sites, by Flower."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_flags,
    add_exchange_flags,
    add_training_flags,
    find_own_modules,
    path,
    patience_from,
    place_of_nodes,
    settings_from,
)
from fedcord.core.errors import ConfigError, shown
from fedcord.core.toml import parse_value
from fedcord.metrics.registry import DEFAULT, find_metric

if TYPE_CHECKING:
    from fedcord.data.facts import Stated
    from fedcord.experiment.compare import Study
    from fedcord.experiment.config import RunConfig
    from fedcord.experiment.finished_run import FinishedRun
    from fedcord.flower.keys import Keys

MAX_NODES = 1000
"""Processes that one machine may be asked to start."""
SUBCOMMANDS = {
    "run": "run over a real SuperLink and SuperNodes, as processes on this machine",
    "simulate": "run in Flower's simulation engine, which computes with Ray",
    "app": "write the app that a coordinator starts with `flwr run`",
}
DEVICES = {
    "run": "where networks run, no part of the run's settings: auto, cpu, cuda, cuda:1 or mps",
    "app": "where the server's networks run: auto, cpu, cuda, cuda:1 or mps; sites have their own",
}
KEYS = "make certificates and keys for tests, by which a SuperLink and its sites know each other"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's commands and their flags."""
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, summary in SUBCOMMANDS.items():
        own = commands.add_parser(name, help=summary, description=summary)
        own.add_argument(
            "algorithm", metavar="ALGO|STUDY.toml", help="an algorithm, or a study file"
        )
        if name == "app":
            own.add_argument("folder", metavar="DIR", type=path, help="a new folder for the app")
        else:
            own.add_argument("--nodes", metavar="N", help="SuperNodes, one per client")
        add_data_flags(own)
        add_training_flags(own)
        add_exchange_flags(own)
        own.add_argument(
            "--device",
            metavar="D",
            dest="own_device",
            default="",
            help=DEVICES["app" if name == "app" else "run"],
        )
        own.add_argument(
            "--from",
            type=path,
            metavar="RUN",
            dest="start",
            help="begin with the state of a finished run, simulated or over sites",
        )
        if name == "run":
            own.add_argument(
                "--keys", metavar="DIR", type=path, help="let in sites with these keys only"
            )
        own.set_defaults(own_flags=tuple(own._option_string_actions))
    keys = commands.add_parser("keys", help=KEYS, description=KEYS)
    keys.add_argument("folder", metavar="DIR", type=path, help="a new folder for all keys")
    keys.add_argument("--sites", nargs="+", required=True, metavar="NAME", help="the sites' names")
    keys.add_argument(
        "--host", action="append", default=[], help="name or address of the SuperLink, repeatable"
    )
    keys.set_defaults(own_flags=tuple(keys._option_string_actions))


def execute(arguments: argparse.Namespace) -> int | None:
    """Hand over to the command."""
    from fedcord.flower.extra import require_cryptography, require_flower, require_simulation

    if arguments.subcommand == "keys":
        require_cryptography()
        _make_keys(arguments)
        return None
    if arguments.subcommand == "simulate":
        require_simulation()
    else:
        require_flower()
    if arguments.metric is not None:
        find_metric(arguments.metric)  # before anything is started or written
    if arguments.own_device:
        _check_device(arguments.own_device, is_here=arguments.subcommand != "app")
    if arguments.algorithm.endswith(".toml"):
        return _study(arguments)
    find_own_modules([arguments.algorithm])
    from fedcord.experiment.load import load_config

    settings = {**settings_from(arguments), "algorithm": arguments.algorithm}
    config = load_config(settings, arguments.assignments)
    start = None
    if arguments.start is not None:
        from fedcord.experiment.finished_run import read_finished
        from fedcord.experiment.start_from import going_on

        start = read_finished(arguments.start, arguments.data_dir)
        config = going_on(config, start, None, over_sites=True)
    if arguments.subcommand == "app":
        _write_app(config, arguments, arguments.metric)
    else:
        _run(config, arguments, start)
    return None


def _study(arguments: argparse.Namespace) -> int | None:
    """All runs of a study on the same nodes, or the app of its only run."""
    from fedcord.experiment.compare import load_study, named_in

    file = Path(arguments.algorithm)
    if arguments.start is not None:
        raise ConfigError("--from is for one run; name an algorithm instead of a study file.")
    find_own_modules(named_in(file))  # who runs a study runs what it names
    settings = settings_from(arguments)
    if arguments.metric is not None:
        settings["metric"] = arguments.metric
    study = load_study(file, settings, arguments.assignments)
    if study.tune is not None:
        raise ConfigError(
            f"'{file}' has [tune], which is not done over Flower: tune with 'fedcord tune {file}', "
            "write what it has chosen into [params] or [variants], and leave [tune] out."
        )
    runs = study.runs()
    if arguments.subcommand != "app":
        return _run_study(study, arguments)
    if len(runs) != 1:
        raise ConfigError(
            f"'{file}' has {len(runs)} runs, but an app is one run; name one algorithm and seed."
        )
    _write_app(runs[0][1], arguments, study.metric, study.stated)
    return None


def _check_device(text: str, is_here: bool) -> None:
    """Refuse a word that names no device, and one that must be on this machine and is not."""
    from fedcord.core.device import chosen_device, device_problem, find_device

    problem = device_problem(text)
    if problem:
        raise ConfigError(problem)
    if is_here:
        find_device(chosen_device(text))


def _write_app(
    config: RunConfig,
    arguments: argparse.Namespace,
    metric: str | None,
    stated: Stated | None = None,
) -> None:
    from fedcord.flower.app_folder import AppConfig, write_app

    folder = arguments.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"'{folder}' exists already and is not empty; choose a new folder.")
    patience = patience_from(arguments)
    told = AppConfig.of(
        config,
        stated,
        quorum=patience.quorum,
        deadline=patience.deadline or 0.0,
        out="" if arguments.out is None else str(arguments.out),
        resume=arguments.resume or arguments.retry_failed,
        retry_failed=arguments.retry_failed,
        metric=DEFAULT if metric is None else metric,
        device=arguments.own_device,
        start="" if arguments.start is None else str(arguments.start.absolute()),
    )
    write_app(folder, told)
    if not arguments.quiet:
        sys.stdout.write(
            f"{folder}: {config.algorithm}, settings {config.hash[:16]}\n"
            f"start it where the SuperLink is known: flwr run {folder} SUPERLINK --stream\n"
        )


def _with_nodes(config: RunConfig, arguments: argparse.Namespace) -> RunConfig:
    """One client at each node: either number gives the other."""
    from fedcord.experiment.config import AT_SITES

    text = getattr(arguments, "nodes", None)
    if config.dataset.startswith(AT_SITES):
        raise ConfigError(
            f"the data of '{config.dataset}' lies at sites; write an app with `fedcord flower app` "
            "and start it where their SuperLink is."
        )
    if text is not None:
        nodes = parse_value(text)
        if not isinstance(nodes, int) or isinstance(nodes, bool) or not 1 <= nodes <= MAX_NODES:
            raise ConfigError(
                f"--nodes {shown(text)}: must be a whole number from 1 to {MAX_NODES}."
            )
        if arguments.clients is not None and config.clients != nodes:
            raise ConfigError(
                f"--nodes {nodes}: every client has a node of its own, and there are "
                f"{config.clients}; leave one of --nodes and --clients out."
            )
        config = replace(config, clients=nodes)
    if not 1 <= config.clients <= MAX_NODES:
        raise ConfigError(
            f"clients = {config.clients}: name how many there are with --clients, {MAX_NODES} at "
            "most."
        )
    return config


def _keys(arguments: argparse.Namespace, nodes: int) -> Keys | None:
    """The keys of as many sites as there are nodes."""
    if getattr(arguments, "keys", None) is None:
        return None
    from fedcord.flower.keys import Keys

    keys = Keys.read(arguments.keys)
    if len(keys.sites) != nodes:
        raise ConfigError(
            f"--keys {arguments.keys}: has keys of {len(keys.sites)} sites, but there are {nodes} "
            "nodes; both must be equal."
        )
    return keys


def _make_keys(arguments: argparse.Namespace) -> None:
    from fedcord.flower.keys import (
        CA,
        COORDINATOR,
        SERVER,
        SERVER_KEY,
        SITE,
        SITE_KEY,
        make_keys,
    )

    folder, made = arguments.folder, make_keys(arguments.folder, arguments.sites, arguments.host)
    server = folder / COORDINATOR

    def command(*words: object) -> str:
        return "  " + shlex.join(map(str, words))

    lines = [
        f"{folder / 'ca.key'}: signs certificates; keep it here, give it to nobody",
        f"{server}/: to the machine of the SuperLink, which is started with",
        command(
            *("flower-superlink", "--enable-supernode-auth"),
            *("--ssl-ca-certfile", server / CA),
            *("--ssl-certfile", server / SERVER),
            *("--ssl-keyfile", server / SERVER_KEY),
        ),
        "  and told of every site, before the site comes, with",
        *(
            command("flwr", "supernode", "register", server / made.public(site).name, "SUPERLINK")
            for site in made.sites
        ),
    ]
    for site in made.sites:
        place = folder / f"{SITE}{site}"
        lines += [
            f"{place}/: to {site} and nobody else, which is started with",
            command(
                *("flower-supernode", "--superlink", "HOST:PORT"),
                *("--root-certificates", place / CA),
                *("--auth-supernode-private-key", place / SITE_KEY),
                *("--node-config", 'site="site.toml"'),
            ),
        ]
    sys.stdout.write("\n".join(lines) + "\n")


def _run(config: RunConfig, arguments: argparse.Namespace, start: FinishedRun | None) -> None:
    from fedcord.cli.progress import RunBars
    from fedcord.cli.run_command import show_result
    from fedcord.experiment.folders import RUNS, find_run_to_resume, make_new_folder
    from fedcord.flower.rehearsal import rehearsal
    from fedcord.store.run_folder import RunFolder

    config = _with_nodes(config, arguments)
    out = arguments.out
    if out is None and (arguments.resume or arguments.retry_failed):
        out = find_run_to_resume(RUNS, config)
    out = out or make_new_folder(RUNS, config)
    was_finished = RunFolder(out).is_finished
    place = place_of_nodes(arguments, out)
    simulated = arguments.subcommand == "simulate"
    keys = _keys(arguments, config.clients)
    with (
        RunBars(hidden=arguments.json or arguments.quiet) as bars,
        rehearsal(out, config.clients, simulated, Path.cwd(), keys, arguments.own_device) as local,
    ):
        watch = bars.watch(config.algorithm, config.seed)
        result = local.run(config, place, watch, start=start)
    show_result(result, bars, arguments.json, was_finished, arguments.metric)


def _run_study(study: Study, arguments: argparse.Namespace) -> int:
    from fedcord.cli.compare_command import RUNS, show_study
    from fedcord.cli.progress import RunBars
    from fedcord.experiment.study_runs import run_study
    from fedcord.flower.rehearsal import rehearsal

    contenders = {k: _with_nodes(one, arguments) for k, one in study.contenders.items()}
    study = replace(study, contenders=contenders)
    total, nodes = len(study.runs()), next(iter(contenders.values())).clients
    root = arguments.out or RUNS / study.name
    place = place_of_nodes(arguments, root)
    simulated = arguments.subcommand == "simulate"
    keys = _keys(arguments, nodes)
    with (
        RunBars(arguments.json or arguments.quiet, total) as bars,
        rehearsal(root, nodes, simulated, Path.cwd(), keys, arguments.own_device) as local,
    ):
        failures = run_study(study, root, place, bars.study(), run_one=local.run)
    return show_study(root, failures, total, arguments.json, study.metric)
