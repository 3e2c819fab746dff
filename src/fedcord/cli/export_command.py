"""`fedcord export RUN DIR`."""

from __future__ import annotations

import argparse
import json
import sys

from fedcord.cli.flags import add_output_flags, path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished run")
    parser.add_argument("folder", type=path, metavar="DIR", help="a new folder for the model")
    parser.add_argument(
        "--client", metavar="K", help="whose model: a client's number, or its name (default: all's)"
    )
    parser.add_argument("--onnx", action="store_true", help="also write model.onnx (fedcord[onnx])")
    parser.add_argument(
        "--data-dir", action="append", type=path, metavar="DIR", help="folder with weights"
    )
    add_output_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """Write the model, and say what was written."""
    from fedcord.cli.progress import RunBars
    from fedcord.experiment.client_of_run import client_of_run
    from fedcord.experiment.finished_run import read_finished
    from fedcord.report.numbers import byte_size
    from fedcord.trained.exported import export_model
    from fedcord.trained.model import model_of
    from fedcord.trained.onnx import check_onnx

    if arguments.onnx:
        check_onnx()
    run = read_finished(arguments.run, arguments.data_dir)
    given = arguments.client
    client = None if given is None else client_of_run(run.partition, given)
    with RunBars(arguments.json or arguments.quiet) as bars:
        bars.steps("export")
        files = export_model(run, model_of(run, client), arguments.folder, arguments.onnx)
    if arguments.json:
        found = {"run_dir": str(arguments.run), "client": client, "files": list(map(str, files))}
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for file in files:
        sys.stdout.write(f"{file}  {byte_size(file.stat().st_size)}\n")
