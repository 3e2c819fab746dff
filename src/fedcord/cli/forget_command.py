"""`fedcord forget RUN --client K`: exact unlearning into a new run, with the proof printed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import path
from fedcord.core.errors import CheckpointError
from fedcord.core.names import client_said

if TYPE_CHECKING:
    from fedcord.experiment.forget import Forgotten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--client", required=True, metavar="K", help="who is forgotten: its number, or its name"
    )
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

    client, name = _client(arguments.run, arguments.client)
    done = forget_client(
        arguments.run,
        client,
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
        sys.stdout.write(json.dumps({**dataclasses.asdict(done), "client_name": name}) + "\n")
        return
    who = client_said(done.client, {} if name is None else {done.client: name})
    what = "the model" if done.encoder == "none" else "the head of the model"
    encoder = {
        "none": "",
        "kept": f"The encoder that {who} trained STAYS in the model, and what it "
        "learnt from the client's data with it; --drop-encoder takes it out too.\n",
        "dropped": f"The encoder that {who} trained is dropped too.\n",
    }[done.encoder]
    old = (
        "What it held of the client is deleted"
        if arguments.in_place
        else f"'{arguments.run}' is as it was and still holds the client; delete it, or use "
        "--in-place"
    )
    sys.stdout.write(
        f"{who} is forgotten: {what} in '{done.run_dir}' is the one trained "
        f"without it.\n{old}.\n{_elsewhere(done, arguments.in_place)}{encoder}"
        f"largest relative difference to training again: {done.difference:.1e}\n"
        f"test accuracy {done.accuracy_before:.4f} before, {done.accuracy_after:.4f} after.\n"
    )


def _elsewhere(done: Forgotten, in_place: bool) -> str:
    """What lies outside the run of the client's, in words."""
    text = ""
    if done.work:
        files = f"{len(done.work)} file{'s' * (len(done.work) > 1)} of its work in "
        files += f"'{Path(done.work[0]).parent}' (--reuse)"
        text += f"{files} {'are deleted too' if in_place else 'stay; --in-place deletes them'}.\n"
    if done.stored_features is not None:
        text += (
            f"Features of its examples stay in '{done.stored_features}'; delete that folder, and "
            "what others need is computed again.\n"
        )
    return text


def _client(run: Path, text: str) -> tuple[int, str | None]:
    """Number and name, if it has one, of the client that is meant."""
    from fedcord.experiment.client_of_run import client_of_run
    from fedcord.experiment.records import client_names
    from fedcord.store.checksums import PARTITION
    from fedcord.store.run_folder import RunFolder

    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(f"'{run}' holds no finished run; finish it with --resume first.")
    partition = folder.read_json(PARTITION)
    client = client_of_run(partition, text)
    return client, client_names(partition).get(client)
