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


def plan_from(
    arguments: argparse.Namespace, study: Study, trials: str | None, usual: int | None = None
) -> TuningPlan | None:
    """What to tune, from the flags of `add_tuning_flags` and what a study file says; flags win.

    Args:
        arguments: the flags.
        study: whose contenders are tuned.
        trials: how many, as a flag says it.
        usual: how many if nobody says it; None: nothing is tuned then.
    """
    from fedcord.experiment.search import SPREAD
    from fedcord.experiment.tune_entry import SPACE, TuneEntry
    from fedcord.experiment.tuning import plan_tuning

    entry = study.tune
    if entry is None and trials is None and usual is None:
        _refuse_without_tuning(arguments)
        return None
    entry = entry or TuneEntry(usual)
    count = entry.trials if trials is None else parse_value(trials)
    search = arguments.search or entry.search or SPREAD
    if arguments.spaces:
        return plan_tuning(study, count, arguments.spaces, search)
    return plan_tuning(study, count, entry.space, search, SPACE)


def _refuse_without_tuning(arguments: argparse.Namespace) -> None:
    """Flags of tuning do nothing where nothing is tuned."""
    given = ["--space"] * bool(arguments.spaces) + ["--search"] * (arguments.search is not None)
    if given:
        raise ConfigError(f"{' and '.join(given)}: only with --tune N, which says how many trials.")
