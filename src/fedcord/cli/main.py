"""The `fedcord` command: reads the command line and hands over to one file per command.

Nothing heavy is imported here, so that help and mistakes answer at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from fedcord import __version__
from fedcord.cli.unknown_words import unknown_words
from fedcord.core.errors import (
    ConfigError,
    FailedRunError,
    FedcordError,
    NumericalError,
    ProtocolError,
    shown,
)
from fedcord.core.names import is_plain
from fedcord.engine.memory import keep_freed_memory

EXIT_DONE, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "run": ("run_command", "run one algorithm"),
    "compare": (
        "compare_command",
        "run several algorithms on the same data and seeds, and report",
    ),
    "reproduce": ("reproduce_command", "run a published table or figure by name"),
    "tune": ("tune_command", "choose parameters fairly, on validation data, and write them down"),
    "predict": ("predict_command", "answer new examples with the model of a finished run"),
    "export": ("export_command", "write a run's model for use without fedcord"),
    "report": ("report_command", "write tables, plots and page anew from run folders"),
    "ui": ("ui_command", "follow a folder of studies in a browser while runs go on"),
    "inspect": (
        "inspect_command",
        "show how different the clients' data are, before any training",
    ),
    "advise": (
        "advise_command",
        "say which method to try first, by what was measured on data like yours",
    ),
    "flower": ("flower_command", "run across real processes and sites, by Flower"),
    "forget": ("forget_command", "take one client out of a finished run, exactly"),
    "join": ("join_command", "bring late clients into a finished run, exactly"),
    "check-invariance": (
        "invariance_command",
        "measure how much other partitions of the same data change a model",
    ),
    "audit": (
        "audit_command",
        "attack a finished run: how well can others tell which samples were in it?",
    ),
    "site": ("site_command", "what runs where the data is: check a study, predict"),
    "list": (
        "list_command",
        "show the algorithms, datasets, partitions, models and studies there are",
    ),
}


class _Parser(argparse.ArgumentParser):
    """Answers mistakes with one line and the place to look."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"error: {message}; see '{self.prog} --help'.\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    try:
        try:
            return _answer(argv)
        finally:
            sys.stdout.flush()  # not at exit, where a reader that has left would be a traceback
    except BrokenPipeError:  # the reader of our output has left
        _close_output()
        return EXIT_FAILED
    except OSError as error:  # the machine's failure: a full disk, a folder nobody may read
        place = f": '{error.filename}'" if error.filename else ""
        sys.stderr.write(
            f"error: {error.strerror or error}{place}; put that right and give the same command "
            "again, with --resume if it runs something.\n"
        )
        _close_output()
        return EXIT_FAILED


def _answer(argv: Sequence[str] | None) -> int:
    parser = _Parser(
        prog="fedcord",
        description="Federated learning when clients' data disagree.",
        epilog="Start with: fedcord compare fedavg fedprox --seeds 3",
    )
    parser.add_argument("--version", action="version", version=f"fedcord {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (place, summary) in COMMANDS.items():
        module = importlib.import_module(f"fedcord.cli.{place}")
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    words = list(sys.argv[1:] if argv is None else argv)
    odd = [problem for problem in map(_odd_word, words) if problem is not None]
    if odd:
        return _fail(ConfigError(odd), EXIT_BAD_INPUT)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        flags = getattr(arguments, "own_flags", None)  # of a command below a command
        flags = flags or commands.choices[arguments.command]._option_string_actions
        return _fail(ConfigError(unknown_words(unknown, arguments, flags)), EXIT_BAD_INPUT)
    command = importlib.import_module(f"fedcord.cli.{COMMANDS[arguments.command][0]}")
    keep_freed_memory()  # here and nowhere else: a library leaves its caller's process as it is
    try:
        code: int | None = command.execute(arguments)
        return code or EXIT_DONE
    except (NumericalError, ProtocolError, FailedRunError) as error:
        return _fail(error, EXIT_FAILED)
    except FedcordError as error:
        return _fail(error, EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command with --resume goes on.\n")
        return EXIT_INTERRUPTED


def _close_output() -> None:
    """Let nothing try to write what cannot be written once more."""
    with contextlib.suppress(OSError, ValueError):  # under a test there is no real output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _odd_word(word: str) -> str | None:
    """Why a word cannot be understood whatever the command, or None."""
    if not is_plain(word):
        return (
            f"{shown(word)} has line breaks, other control characters or bytes that are not UTF-8; "
            "write it without, and rename files that have them."
        )
    if word.startswith("-") and word.endswith("=--"):  # argparse would take it for no value at all
        return f"{shown(word)}: '--' is no value."
    return None


def _fail(error: FedcordError, code: int) -> int:
    problems = error.problems if isinstance(error, ConfigError) else (str(error),)
    if len(problems) > 1:
        sys.stderr.write(f"error: {len(problems)} problems\n")
        sys.stderr.writelines(f"  - {problem}\n" for problem in problems)
    else:
        sys.stderr.write(f"error: {error}\n")
    return code
