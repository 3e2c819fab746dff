"""`fedcord forget RUN --client K`: exact unlearning into a new run, with the proof printed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from fedcord.cli.flags import path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--client", type=int, required=True, metavar="K", help="who is forgotten")
    parser.add_argument(
        "--drop-encoder", action="store_true", help="also drop the encoder it trained (accord)"
    )
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="folder of the new run (default: beside RUN)"
    )
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="change RUN itself and leave nothing in it that holds the client",
    )
    parser.add_argument("--data-dir", action="append", type=path, metavar="DIR", help="data folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(arguments: argparse.Namespace) -> None:
    """Forget, prove, show."""
    from fedcord.experiment.forget import forget_client

    done = forget_client(
        arguments.run,
        arguments.client,
        arguments.data_dir,
        arguments.drop_encoder,
        arguments.out,
        arguments.in_place,
    )
    if not done.is_verified:
        sys.stderr.write(
            f"note: '{arguments.run}' is of a version that wrote no checksums; its files are taken "
            "as they are.\n"
        )
    if arguments.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(done)) + "\n")
        return
    what = "the model" if done.encoder == "none" else "the head of the model"
    encoder = {
        "none": "",
        "kept": f"The encoder that client {done.client} trained STAYS in the model, and what it "
        "learnt from the client's data with it; --drop-encoder takes it out too.\n",
        "dropped": f"The encoder that client {done.client} trained is dropped too.\n",
    }[done.encoder]
    old = (
        "What it held of the client is deleted"
        if arguments.in_place
        else f"'{arguments.run}' is as it was and still holds the client; delete it, or use "
        "--in-place"
    )
    sys.stdout.write(
        f"client {done.client} is forgotten: {what} in '{done.run_dir}' is the one trained "
        f"without it.\n{old}.\n{encoder}"
        f"largest relative difference to training again: {done.difference:.1e}\n"
        f"test accuracy {done.accuracy_before:.4f} before, {done.accuracy_after:.4f} after.\n"
    )
