"""Every algorithm against a named one over several studies together: what holds across settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.metrics.registry import METRICS
from fedcord.report.against import in_words
from fedcord.report.leaderboard import Leaderboard, marks_by_study
from fedcord.report.numbers import counted, listed, p_value
from fedcord.report.row import over_shared_seeds
from fedcord.report.scores import score, score_cell_bracket, score_gap, score_heading
from fedcord.report.tables import pipe_table
from fedcord.statistics import PairedDifference, holm, stratified_difference


@dataclass(frozen=True)
class PooledVersus:
    """One algorithm minus the baseline.

    Attributes:
        name: the algorithm's.
        metric: name of what is compared.
        score: mean over studies of its mean.
        by_study: [S] mean differences.
        difference: over all studies.
        p_holm: corrected for all comparisons with the baseline.
    """

    name: str
    metric: str
    score: float
    by_study: tuple[float, ...]
    difference: PairedDifference
    p_holm: float | None

    @property
    def finding(self) -> str:
        """What these studies show, in one or two words."""
        return in_words(self.difference, self.p_holm, METRICS[self.metric])


@dataclass(frozen=True)
class PooledAgainst:
    """All comparisons with one baseline, best first.

    Attributes:
        baseline: its name.
        metric: name of what is compared.
        score: mean over studies of the baseline's mean.
        titles: [S] of the studies.
        datasets: [S] of the studies.
        seeds: [S] of the studies.
        others: the comparisons.
        left_out: algorithms that are not in every study.
        marks: who did not train or failed, and in which study.
    """

    baseline: str
    metric: str
    score: float
    titles: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]
    others: tuple[PooledVersus, ...]
    left_out: tuple[str, ...]
    marks: tuple[str, ...] = ()

    @property
    def shared_seeds(self) -> tuple[int, ...]:
        """Seeds that several studies of one data set have: their examples may be the same."""
        own = zip(self.datasets, self.seeds, strict=True)
        uses = Counter((data, seed) for data, seeds in own for seed in seeds)
        return tuple(sorted({seed for (_, seed), count in uses.items() if count > 1}))

    def to_markdown(self) -> str:
        """A pipe table with what it is below."""
        metric = METRICS[self.metric]
        head = ["algorithm", score_heading(metric), *self.titles, "all studies", "95 % interval"]
        rows = [[self.baseline, score(self.score, metric), *[""] * len(self.titles), "baseline"]]
        rows[0] += [""] * 3
        for own in self.others:
            found = own.difference
            rows.append(
                [
                    own.name,
                    score(own.score, metric),
                    *(score_gap(gap, metric) for gap in own.by_study),
                    score_gap(found.mean, metric),
                    score_cell_bracket(found.interval, metric),
                    p_value(own.p_holm),
                    own.finding,
                ]
            )
        table = pipe_table([*head, "p (Holm)", "these studies show"], rows)
        pairs = counted(sum(map(len, self.seeds)), "pair")
        below = (
            f"Final test {metric.words}, mean over {len(self.titles)} studies; differences to "
            f"{self.baseline}{' in percentage points' if metric.is_share else ''}, paired by "
            f"seed, data and partition ({pairs}), "
            "mean over studies of equal weight, with 95 % Student-t interval from the spread "
            "within studies; p with Holm's correction for "
            f"{counted(len(self.others), 'comparison')} with {self.baseline}. The statement is "
            "about these studies. 'not shown' does not mean equal."
        )
        notes = [below]
        if self.left_out:
            notes.append(f"Not in every study, left out: {listed(list(self.left_out))}.")
        if self.shared_seeds:
            seeds = listed([str(seed) for seed in self.shared_seeds])
            notes.append(
                f"Studies of one data set share the seeds {seeds}, so their data may overlap and "
                "intervals may be too narrow; studies with seeds of their own (--seed) are "
                "independent."
            )
        notes += [f"Note: {mark}." for mark in self.marks]
        return "\n\n".join([table, *notes]) + "\n"


def pooled_against(
    boards: Sequence[Leaderboard], titles: Sequence[str], name: str
) -> PooledAgainst:
    """Compare every algorithm that all studies have with the one called `name`.

    Args:
        boards: of at least two studies.
        titles: of the studies.
        name: the baseline's.
    """
    if len(boards) < 2:
        raise ConfigError("--pooled puts several studies together; name two folders or more.")
    studies = [{row.name: row for row in board.rows} for board in boards]
    everywhere = set.intersection(*(set(study) for study in studies))
    if name not in everywhere:
        raise ConfigError(unknown_name("--against", name, sorted(everywhere)))
    names = sorted(
        other
        for other in everywhere - {name}
        if all(over_shared_seeds(study[other], study[name])[0] for study in studies)
    )
    if not names:
        raise ConfigError(f"--against '{name}': no other algorithm is in every study.")
    strata = [
        [np.subtract(*over_shared_seeds(study[other], study[name])) for study in studies]
        for other in names
    ]
    found = [stratified_difference([own.tolist() for own in each]) for each in strata]
    adjusted = holm([difference.t_p for difference in found])
    metric = boards[0].metric
    others = [
        PooledVersus(
            other,
            metric.name,
            float(np.mean([study[other].score.mean for study in studies])),
            tuple(float(own.mean()) for own in each),
            difference,
            p_holm,
        )
        for other, each, difference, p_holm in zip(names, strata, found, adjusted, strict=True)
    ]
    return PooledAgainst(
        name,
        metric.name,
        float(np.mean([study[name].score.mean for study in studies])),
        tuple(titles),
        tuple(board.dataset for board in boards),
        tuple(board.seeds for board in boards),
        tuple(sorted(others, key=lambda own: -metric.sign * own.difference.mean)),
        tuple(sorted(set.union(*(set(study) for study in studies)) - {name, *names})),
        marks_by_study(boards, titles),
    )
