"""`fedcord join RUN --data npz:PATH`: late clients in a new run, with the proof printed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from fedcord.cli.flags import add_output_flags, path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="DATA",
        help="a client's labelled examples: npz:PATH with x and y, csv:PATH or folder:PATH; "
        "repeatable",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="what the client is called, where clients have names; repeatable",
    )
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="folder of the new run (default: beside RUN)"
    )
    parser.add_argument("--data-dir", action="append", type=path, metavar="DIR", help="data folder")
    add_output_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """Join, prove, show."""
    from fedcord.cli.progress import RunBars
    from fedcord.core.names import clients_listed
    from fedcord.trained.join import join_clients

    given = arguments.data, arguments.name, arguments.data_dir, arguments.out
    with RunBars(arguments.json or arguments.quiet) as bars:
        bars.steps("join")
        done = join_clients(arguments.run, *given)
    if arguments.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(done)) + "\n")
        return
    names = dict(zip(done.clients, arguments.name, strict=False))
    who = "client" if len(done.clients) == 1 else "clients"
    sys.stdout.write(
        f"{who} {clients_listed(done.clients, names)} joined: the model in '{done.run_dir}' is the "
        f"one trained with everybody.\n'{arguments.run}' is as it was.\n"
        f"largest relative difference to training again: {done.difference:.1e}\n"
        f"test accuracy {done.accuracy_before:.4f} before, {done.accuracy_after:.4f} after.\n"
    )
