"""One algorithm minus another over several studies: in just these, and on data sets like theirs.

Studies of one data set that have the same seeds depend on each other: their differences are
averaged seed by seed first. What is left depends on nothing else and is pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.report.row import Row, over_shared_seeds, shared_seeds
from fedcord.statistics import (
    PairedDifference,
    RandomEffects,
    random_effects,
    stratified_difference,
)


@dataclass(frozen=True)
class OverStudies:
    """What several studies say of one algorithm minus another.

    Attributes:
        by_study: [S] mean differences.
        by_dataset: mean difference on each data set.
        these: over all studies, each with the same weight.
        beyond: over data sets like these.
    """

    by_study: tuple[float, ...]
    by_dataset: Mapping[str, float]
    these: PairedDifference
    beyond: RandomEffects


def over_studies(pairs: Sequence[tuple[Row, Row]], datasets: Sequence[str]) -> OverStudies:
    """Put the studies together.

    Args:
        pairs: [S] both algorithms' rows in each study, with seeds in common.
        datasets: [S] of the studies.
    """
    strata = _strata(pairs, datasets)
    # of the scores, not of their differences: what is only rounding must not become a test
    scale = max(float(np.abs(over_shared_seeds(*pair)).max()) for pair in pairs)
    these = stratified_difference(
        [own.differences.tolist() for own in strata],
        weights=[own.num_studies for own in strata],
        scale=scale,
    )
    by_dataset = _by_dataset(strata)
    means, variances = zip(*by_dataset.values(), strict=True)
    return OverStudies(
        tuple(float(_differences(*pair).mean()) for pair in pairs),
        {data: mean for data, (mean, _) in by_dataset.items()},
        these,
        random_effects(means, variances, scale=scale),
    )


@dataclass(frozen=True)
class _Stratum:
    """Differences that depend on no others: of one study, or of several by seed.

    Attributes:
        dataset: of all of them.
        num_studies: how many it stands for.
        differences: [n].
    """

    dataset: str
    num_studies: int
    differences: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return float(self.differences.mean())

    @property
    def of_a_pair(self) -> float | None:
        """Variance of a single difference; None where there is one only, which has no spread."""
        return float(self.differences.var(ddof=1)) if len(self.differences) > 1 else None


def _differences(row: Row, baseline: Row) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.subtract(*over_shared_seeds(row, baseline))
    return found


def _strata(pairs: Sequence[tuple[Row, Row]], datasets: Sequence[str]) -> list[_Stratum]:
    """What may be taken for independent: studies, or data sets whose studies have equal seeds."""
    found = []
    for data in dict.fromkeys(datasets):
        own = [pair for pair, name in zip(pairs, datasets, strict=True) if name == data]
        differences = [_differences(*pair) for pair in own]
        if len({shared_seeds(*pair) for pair in own}) == 1:
            found.append(_Stratum(data, len(own), np.mean(differences, axis=0)))
        else:
            found += [_Stratum(data, 1, each) for each in differences]
    return found


def _by_dataset(strata: Sequence[_Stratum]) -> dict[str, tuple[float, float]]:
    """By data set the mean over its studies and the variance of that.

    A single pair spreads as those of the other studies of its data set do. Where these have no more
    than one either, the variance is 0, and the spread of other data sets has to do.
    """
    found = {}
    for data in dict.fromkeys(own.dataset for own in strata):
        own = [each for each in strata if each.dataset == data]
        total = sum(each.num_studies for each in own)
        shares = [each.num_studies / total for each in own]
        mean = sum(share * each.mean for share, each in zip(shares, own, strict=True))
        known = [each.of_a_pair for each in own if each.of_a_pair is not None]
        usual = float(np.mean(known)) if known else 0.0
        variance = sum(
            share**2 * (usual if each.of_a_pair is None else each.of_a_pair) / len(each.differences)
            for share, each in zip(shares, own, strict=True)
        )
        found[data] = mean, variance
    return found
