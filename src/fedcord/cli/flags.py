"""Flags and names that several commands share, and how they become settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcord.core.errors import ConfigError
from fedcord.core.toml import parse_value
from fedcord.metrics.registry import DEFAULT

if TYPE_CHECKING:
    from fedcord.engine.patience import Patience
    from fedcord.experiment.run import Place

DATA_FLAGS = {
    "dataset": "data set, csv:PATH, npz:PATH or folder:PATH (default digits)",
    "partition": "how data is spread over clients (default dirichlet:0.1)",
    "clients": "number of clients (default 10)",
    "subset": "training examples kept, drawn at random (default all)",
    "longtail": "thin out classes: largest over smallest (default 1)",
    "seed": "decides everything random (default 0)",
}
RUN_FLAGS = {
    "rounds": "rounds of exchange (default 20, or what the method needs)",
    "participation": "share of clients drawn for every exchange (default 1); several, as in 1,0.7: "
    "drawn anew for every round, and the last holds on",
    "validation": "share of each client's data kept for selection (default 0.1)",
    "test": "share of each client's data kept for its own test (default 0.1)",
    "evaluate-every": "rounds between evaluations (default 1)",
    "threads": "threads of a computation, changes bits (default 1)",
    "secure": "mask updates: the server reads only the sum, if this share of clients stays to the "
    "end (above 0.5, such as 0.6; default: updates travel in the open)",
    "test-views": "average predictions over views of an image: mirror, shift or mirror+shift "
    "(default none: the image alone)",
}


MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4000
"""What file systems take."""


def path(text: str) -> Path:
    """The type of flags that name a folder or file."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty; '.' is the current folder")
    names = [os.fsencode(name) for name in Path(text).parts]
    if max(map(len, names), default=0) > MAX_NAME_BYTES or sum(map(len, names)) > MAX_PATH_BYTES:
        raise argparse.ArgumentTypeError("is longer than names of files can be")
    return Path(text)


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose data and clients."""
    for name, text in DATA_FLAGS.items():
        parser.add_argument(f"--{name}", metavar="X", help=text)
    add_table_flags(parser)
    add_data_dir_flags(parser)


def add_data_dir_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say where data sets are."""
    parser.add_argument(
        "--data-dir",
        action="append",
        metavar="DIR",
        type=path,
        help="folder with data sets, repeatable (default: $FEDCORD_DATA, then the user's cache)",
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch missing data from its official place"
    )


def add_table_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say what columns of a table are for."""
    parser.add_argument("--target", metavar="COLUMN", help="of a table, the column to predict")
    parser.add_argument(
        "--client-column",
        metavar="COLUMN",
        help="of a table, the column that says who holds a row; each value becomes a client",
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose how to train and where."""
    add_training_flags(parser)
    parser.add_argument(
        "--attack",
        metavar="A",
        help="simulate bad clients: label-flip, sign-flip, scaled or gaussian, and which share of "
        "clients, such as sign-flip:0.2 (default: all are honest)",
    )
    add_engine_flags(parser)
    add_exchange_flags(parser)


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose what computes."""
    parser.add_argument(
        "--device",
        metavar="D",
        help="where networks run, changes bits: auto, cpu, cuda, cuda:1 or mps (default cpu)",
    )
    parser.add_argument(
        "--engine",
        default="sequential",
        metavar="E",
        help="sequential, processes (fastest for long runs) or wire (strict test)",
    )
    parser.add_argument("--workers", metavar="N", help="processes (default and at most: cores)")
    parser.add_argument(
        "--reuse",
        type=path,
        metavar="DIR",
        help="keep clients' work here and take it from here when methods differ on the server only",
    )
    parser.add_argument(
        "--track",
        action="append",
        default=[],
        metavar="T",
        help="mirror numbers to tensorboard, mlflow or wandb as rounds end, repeatable",
    )


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose how to train."""
    for name, text in RUN_FLAGS.items():
        parser.add_argument(f"--{name}", metavar="X", help=text)
    parser.add_argument(
        "--model",
        action="append",
        metavar="M",
        help="network, repeatable: several are distributed to clients in turn (default auto)",
    )
    add_set_flag(parser)


def add_set_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that changes parameters."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help="a parameter of the algorithm, such as local.lr=0.1, repeatable",
    )


def add_exchange_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose where results go, and for whom to wait."""
    parser.add_argument("--out", type=path, metavar="DIR", help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="go on with an unfinished run")
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="as --resume, and also go on with runs that have failed",
    )
    parser.add_argument(
        "--quorum",
        metavar="SHARE",
        help="share of the clients asked that must answer for a round to count (default 1: all)",
    )
    parser.add_argument(
        "--deadline", metavar="S", help="seconds a round waits for answers (default: no limit)"
    )
    add_metric_flag(parser)
    add_output_flags(parser)


def add_metric_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that chooses what is compared."""
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="what is compared, such as balanced_accuracy, macro_f1, auroc, log_loss or "
        "worst_client (default accuracy)",
    )


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Flags for programs and for quiet people."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")


def add_jobs_flag(parser: argparse.ArgumentParser) -> None:
    """How many runs of a study are done at a time."""
    parser.add_argument(
        "--jobs", metavar="N", help="runs at a time, in processes of one thread (default: cores)"
    )


def jobs_from(arguments: argparse.Namespace) -> Any:
    """What `--jobs` says; None for one per core."""
    return None if arguments.jobs is None else parse_value(arguments.jobs)


def settings_from(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags that were given, as values for RunConfig."""
    settings: dict[str, Any] = {}
    for name in (*DATA_FLAGS, *RUN_FLAGS):
        key = name.replace("-", "_")
        text = getattr(arguments, key, None)
        if text is not None:
            is_list = key == "participation" and "," in text and not text.startswith("[")
            words = f"[{text}]" if is_list else text
            settings[key] = text if key in ("dataset", "partition") else parse_value(words)
    if getattr(arguments, "model", None):
        settings["model"] = arguments.model
    _add_table_flags(settings, arguments)
    for name in ("device", "attack"):
        if getattr(arguments, name, None) is not None:
            settings[name] = getattr(arguments, name)
    return settings


def _add_table_flags(settings: dict[str, Any], arguments: argparse.Namespace) -> None:
    """`--target` and `--client-column`, as options of the data set's name, which identifies it."""
    from fedcord.data.registry import TABLES
    from fedcord.data.spec import as_option

    column = getattr(arguments, "client_column", None)  # a site's commands have no such flags
    given = {"target": getattr(arguments, "target", None), "client": column}
    options = [f"{key}={as_option(text)}" for key, text in given.items() if text is not None]
    if not options:
        return
    dataset = settings.get("dataset", "")
    if dataset.partition(":")[0] not in TABLES:
        raise ConfigError(
            "--target and --client-column are for tables; name one, as in --dataset csv:PATH. In a "
            "study file they belong to the data set: dataset = "
            "'csv:PATH?target=COLUMN&client=COLUMN'."
        )
    settings["dataset"] = dataset + ("&" if "?" in dataset else "?") + "&".join(options)
    if column is not None and "partition" not in settings:
        settings["partition"] = f"natural:{column}"
        settings.setdefault("clients", 0)


def place_from(arguments: argparse.Namespace, out: Path | None) -> Place:
    """Where and how to run, from the flags of `add_run_flags`; a note if fewer workers will do."""
    from fedcord.engine.transports.processes import worker_count
    from fedcord.experiment.run import Place

    asked = workers_from(arguments)
    place = Place(
        out,
        arguments.engine,
        arguments.resume or arguments.retry_failed,
        asked,
        arguments.data_dir,
        arguments.download,
        arguments.reuse,
        arguments.retry_failed,
        patience_from(arguments),
        DEFAULT if arguments.metric is None else arguments.metric,
        arguments.track,
    )
    if arguments.engine == "processes" and asked is not None and not arguments.quiet:
        started = worker_count(asked)
        if started < asked:
            sys.stderr.write(
                f"note: --workers {asked}: there are {started} cores to work on, so {started} "
                "are started.\n"
            )
    return place


def place_of_nodes(arguments: argparse.Namespace, out: Path | None) -> Place:
    """Where a run happens whose nodes are no engine's, from `add_exchange_flags`."""
    from fedcord.experiment.run import Place

    return Place(
        out,
        resume=arguments.resume or arguments.retry_failed,
        data_dirs=arguments.data_dir,
        allow_download=arguments.download,
        retry_failed=arguments.retry_failed,
        patience=patience_from(arguments),
        metric=DEFAULT if arguments.metric is None else arguments.metric,
    )


def patience_from(arguments: argparse.Namespace) -> Patience:
    """How long to wait for whom."""
    from fedcord.core.params import build
    from fedcord.engine.patience import Patience

    given = {"quorum": arguments.quorum, "deadline": arguments.deadline}
    values = {name: parse_value(text) for name, text in given.items() if text is not None}
    patience: Patience = build(Patience, values)
    return patience


def workers_from(arguments: argparse.Namespace) -> Any:
    """The number of workers as it was given; Place and `engine_problems` judge it."""
    return None if arguments.workers is None else parse_value(arguments.workers)


def find_own_modules(names: Iterable[str]) -> None:
    """Let modules that the user names be found in the current folder, after everything installed.

    Call it with names that the user wrote, never with names from a run folder: results of others
    are read without running what lies beside them.
    """
    folder = str(Path.cwd())
    if any(":" in name for name in names) and folder not in sys.path:
        sys.path.append(folder)
