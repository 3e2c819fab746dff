"""Which values to try next. All of it follows from a seed, whatever machine it runs on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import qmc

from fedcord.core.errors import unknown_name
from fedcord.core.space import LOG, Space
from fedcord.store.tuning_file import Trial

SPREAD, TPE = "spread", "tpe"
SEARCHES = (SPREAD, TPE)
BATCH = 4
"""Trials that TPE proposes at a time: they can run side by side, and the next learn from them."""


def search_problems(search: object) -> list[str]:
    """What is wrong with the choice of a search."""
    if search not in SEARCHES:
        return [unknown_name("search", str(search), SEARCHES)]
    if search == TPE:
        try:
            import optuna  # noqa: F401
        except ImportError:
            return [
                "--search tpe is done by Optuna, which is not installed; run "
                'pip install "fedcord[tune]", or leave --search out.'
            ]
    return []


def propose(
    search: str,
    spaces: Mapping[str, Space],
    tried: Sequence[Trial],
    upto: int,
    seed: int,
    sign: int = 1,
    common: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Values of the trials after those tried: all that are left, or as many as are best at once.

    Args:
        search: spread or tpe.
        spaces: dotted name to where it is looked for.
        tried: so far, of which the first has the values as they were given.
        upto: how many trials there are to be.
        seed: what decides.
        sign: 1 where a higher score is better, -1 where a lower one is.
        common: names that the rivals look for, too; `spread` leaves all others as they were given
            in half of the trials, so that who has more parameters does not search the common ones
            any worse.
    """
    if search == TPE:
        return _by_tpe(spaces, tried, min(BATCH, upto - len(tried)), seed, sign)
    points = _spread(spaces, upto - 1, seed, common)
    given = {
        name: value for name, value in tried[0].values.items() if common and name not in common
    }
    # in pairs: neighbours in the sequence lie in different halves of a space
    kept = [point | given if number // 2 % 2 else point for number, point in enumerate(points, 1)]
    return kept[len(tried) - 1 :]


def _spread(
    spaces: Mapping[str, Space], count: int, seed: int, common: Collection[str]
) -> list[dict[str, Any]]:
    """A Halton sequence from a random start: `count` points that leave no large gap in any space.

    Common names come first, so methods that share a parameter try the same values of it.
    """
    names = sorted(spaces, key=lambda name: (name not in common, name))
    start = np.random.default_rng(seed).random(len(names))
    points = (qmc.Halton(len(names), scramble=False).random(count) + start) % 1
    return [
        {name: spaces[name].at(float(share)) for name, share in zip(names, point, strict=True)}
        for point in points
    ]


def _by_tpe(
    spaces: Mapping[str, Space], tried: Sequence[Trial], count: int, seed: int, sign: int
) -> list[dict[str, Any]]:
    """Optuna's tree-structured Parzen estimator, told of all trials so far."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    forms = {name: _distribution(space) for name, space in sorted(spaces.items())}
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=BATCH, constant_liar=True, seed=(seed + len(tried)) % 2**32
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in tried:
        if not (trial.scores or trial.failure):
            continue  # it has yet to run
        within = {n: v for n, v in trial.values.items() if spaces[n].holds(v)}
        score = None if trial.mean is None else sign * trial.mean
        study.add_trial(
            optuna.trial.create_trial(
                params=within,
                distributions={name: forms[name] for name in within},
                value=score,
                state=optuna.trial.TrialState.FAIL
                if score is None
                else optuna.trial.TrialState.COMPLETE,
            )
        )
    asked = [study.ask(forms).params for _ in range(count)]
    return [{name: spaces[name].rounded(v) for name, v in own.items()} for own in asked]


def _distribution(space: Space) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if space.values:
        return CategoricalDistribution(space.values)
    if space.is_whole:
        return IntDistribution(int(space.low), int(space.high), log=space.scale == LOG)
    return FloatDistribution(space.low, space.high, log=space.scale == LOG)
