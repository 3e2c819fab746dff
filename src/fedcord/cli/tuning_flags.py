"""Flags of tuning, which `tune` and `compare` share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedcord.core.errors import ConfigError
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.experiment.compare import Study
    from fedcord.experiment.tuning import TuningPlan


def add_tuning_flags(parser: argparse.ArgumentParser) -> None:
    """How to look for better parameters."""
    parser.add_argument(
        "--space",
        action="append",
        default=[],
        metavar="KEY=LOW:HIGH[:log]",
        dest="spaces",
        help="where to look for a parameter, as local.lr=0.01:0.3:log or local.optimizer=sgd,adam; "
        "NAME:KEY=… for one contender; repeatable (default: what the algorithms declare)",
    )
    parser.add_argument(
        "--search",
        metavar="S",
        help="how trials are proposed: spread (evenly, default) or tpe (by Optuna, learns)",
    )


def plan_from(arguments: argparse.Namespace, study: Study, trials: str | int) -> TuningPlan:
    """What to tune, from the flags of `add_tuning_flags`."""
    from fedcord.experiment.search import SPREAD
    from fedcord.experiment.tuning import plan_tuning

    count = parse_value(trials) if isinstance(trials, str) else trials
    return plan_tuning(study, count, arguments.spaces, arguments.search or SPREAD)


def refuse_without_tuning(arguments: argparse.Namespace) -> None:
    """Flags of tuning do nothing where nothing is tuned."""
    given = ["--space"] * bool(arguments.spaces) + ["--search"] * (arguments.search is not None)
    if given:
        raise ConfigError(f"{' and '.join(given)}: only with --tune N, which says how many trials.")
