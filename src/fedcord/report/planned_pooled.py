"""A plan's comparisons over all of its studies together: what a plan of several settings is about.

A plan for six data sets asks what holds over the six, not in each. So its comparisons are pooled as
`pooled` pools those with a baseline, and corrected for each other alone. The best other is the
algorithm with the highest mean over all studies, and is beaten only if every other is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import NOTHING, counted, p_value
from fedcord.report.over_studies import OverStudies, over_studies
from fedcord.report.planned import corrected, in_words, p_of_beating_all
from fedcord.report.row import Row, shared_seeds
from fedcord.report.scores import gap_heading, score, score_cell_bracket, score_gap
from fedcord.report.tables import pipe_table
from fedcord.store.study_plan import BEST_OTHER, Comparison

ByName = Mapping[str, Row]


@dataclass(frozen=True)
class PooledPrimary:
    """What all studies say of a planned comparison.

    Attributes:
        comparison: as it was planned.
        against: the contender that "best other" turned out to be; else the one that was named.
        found: over the studies; None where runs are missing in one of them.
        p_holm: in these studies, corrected for all planned comparisons.
        beyond_p_holm: of data sets like these, corrected likewise.
    """

    comparison: Comparison
    against: str | None
    found: OverStudies | None
    p_holm: float | None
    beyond_p_holm: float | None

    @property
    def words(self) -> str:
        """The comparison, with the contender that was the best other."""
        return in_words(self.comparison, self.against)


def planned_over(boards: Sequence[Leaderboard]) -> tuple[PooledPrimary, ...]:
    """The comparisons of the plan that all boards have; none where they have no common one."""
    plans = [None if board.plan is None else board.plan.record.plan for board in boards]
    if plans[0] is None or any(plan != plans[0] for plan in plans):
        return ()
    studies = [{row.runs[0].label: row for row in board.rows} for board in boards]
    datasets = [board.dataset for board in boards]
    found = [_primary(own, studies, datasets) for own in plans[0].primary]
    adjusted = corrected([p for *_, p, _ in found])
    adjusted_beyond = corrected([p for *_, p in found])
    each = zip(plans[0].primary, found, adjusted, adjusted_beyond, strict=True)
    return tuple(PooledPrimary(own, *said[:2], p, beyond) for own, said, p, beyond in each)


def planned_table(results: Sequence[PooledPrimary], metric_name: str, has_datasets: bool) -> str:
    """A pipe table; of data sets like these only where there are several."""
    metric = METRICS[metric_name]
    head = ["planned comparison", gap_heading("in these studies", metric), "95 % interval"]
    head += ["p (Holm)"]
    if has_datasets:
        head += [gap_heading("data sets like these", metric), "95 % interval", "τ", "p (Holm)"]
    rows = []
    for own in results:
        if own.found is None:
            rows.append([own.words, *[NOTHING] * (len(head) - 1)])
            continue
        these, beyond = own.found.these, own.found.beyond
        cells = [
            own.words,
            score_gap(these.mean, metric),
            score_cell_bracket(these.interval, metric),
            p_value(own.p_holm),
            score_gap(beyond.mean, metric),
            score_cell_bracket(beyond.interval, metric),
            NOTHING if beyond.spread is None else score(beyond.spread, metric),
            p_value(own.beyond_p_holm),
        ]
        rows.append(cells[: len(head)])
    return pipe_table(head, rows)


def explained(results: Sequence[PooledPrimary], has_datasets: bool) -> str:
    """What the table is, below it."""
    said = (
        "The comparisons of the plan over all studies together, of equal weight, with 95 % "
        "Student-t interval from the spread over seeds"
    )
    if has_datasets:
        said += (
            "; then with the data sets as a sample of data sets, τ the standard deviation between "
            "them (Paule and Mandel), interval of Hartung and Knapp"
        )
    said += f". p with Holm's correction for {counted(len(results), 'planned comparison')}."
    if untested := sum(own.p_holm is None for own in results):
        said += f" {untested} of them not tested, counted as p = 1."
    if any(own.comparison.other == BEST_OTHER for own in results if own.found is not None):
        said += (
            f" The {BEST_OTHER} is the one with the highest mean over studies; p is the largest "
            "of all others', since each must be beaten, and 1 where one is not."
        )
    return said


def _primary(
    own: Comparison, studies: Sequence[ByName], datasets: Sequence[str]
) -> tuple[str | None, OverStudies | None, float | None, float | None]:
    """Against whom, what was found, p of both statements; None where runs are missing."""
    unknown = None if own.other == BEST_OTHER else own.other, None, None, None
    if any(own.contender not in study for study in studies):
        return unknown
    names = [own.other] if own.other != BEST_OTHER else _other_methods(own.contender, studies)
    pooled: dict[str, OverStudies] = {}
    for name in names:
        pairs = [(study[own.contender], study[name]) for study in studies if name in study]
        if len(pairs) < len(studies) or not all(shared_seeds(*pair) for pair in pairs):
            return unknown
        pooled[name] = over_studies(pairs, datasets)
    if not pooled:
        return unknown
    sign = studies[0][own.contender].metric.sign
    best = max(names, key=lambda name: sign * np.mean([s[name].score.mean for s in studies]))
    if own.other != BEST_OTHER:
        return best, pooled[best], pooled[best].these.t_p, pooled[best].beyond.p
    these = [(sign * found.these.mean, found.these.t_p) for found in pooled.values()]
    beyond = [(sign * found.beyond.mean, found.beyond.p) for found in pooled.values()]
    return best, pooled[best], p_of_beating_all(these), p_of_beating_all(beyond)


def _other_methods(contender: str, studies: Sequence[ByName]) -> list[str]:
    """Whatever is run in any study and is not another form of the same algorithm."""
    rows = {name: row for study in studies for name, row in study.items()}
    algorithm = rows[contender].runs[0].algorithm
    return sorted(name for name, row in rows.items() if row.runs[0].algorithm != algorithm)
