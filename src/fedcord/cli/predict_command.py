"""`fedcord predict RUN --data npz:PATH`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_output_flags, path

if TYPE_CHECKING:
    from fedcord.trained.model import TrainedModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--client", metavar="K", help="whose model: a client's number, or its name (default: all's)"
    )
    add_prediction_flags(parser)
    parser.add_argument(
        "--data-dir", action="append", type=path, metavar="DIR", help="folder with weights"
    )


def add_prediction_flags(parser: argparse.ArgumentParser) -> None:
    """What is predicted, and where the answers go."""
    parser.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help="examples: npz:PATH (x, and an id for each if given), csv:PATH or folder:PATH",
    )
    parser.add_argument(
        "--out", type=path, default=Path("predictions.csv"), metavar="FILE", help="a CSV file"
    )
    add_output_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """Answer every example with the run's model."""
    from fedcord.trained.load import load

    model = load(arguments.run, arguments.data_dir).model(arguments.client)
    predict_and_tell(model, arguments, {"run_dir": str(arguments.run)})


def predict_and_tell(
    model: TrainedModel, arguments: argparse.Namespace, whose: Mapping[str, str]
) -> None:
    """Write predictions, and say how many and whose they are."""
    from fedcord.cli.progress import RunBars
    from fedcord.trained.predictions import write_predictions

    with RunBars(arguments.json or arguments.quiet) as bars:
        done = write_predictions(model, arguments.data, arguments.out, bars.steps("predict"))
    if arguments.json:
        found: dict[str, object] = {"examples": done.examples, **whose}
        found |= {"client": model.moment.client}
        found |= {"accuracy": done.accuracy, "out": str(arguments.out), "notes": list(done.notes)}
        sys.stdout.write(json.dumps(found) + "\n")
        return
    sys.stdout.write(
        f"{done.examples} predictions of {next(iter(whose.values()))}: {arguments.out}\n"
    )
    if done.accuracy is not None:
        sys.stdout.write(
            f"accuracy {done.accuracy:.4f} on the {done.labelled} whose class is known\n"
        )
    sys.stdout.flush()
    bars.say(done.notes)
