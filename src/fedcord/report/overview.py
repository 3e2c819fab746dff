"""Every algorithm in every study: the table that papers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError
from fedcord.metrics.registry import METRICS, Metric
from fedcord.report.cost import (
    EXPLANATION,
    TITLE,
    Cost,
    compute_sentence,
    cost_table,
    mean_cost,
)
from fedcord.report.leaderboard import Leaderboard, marks_by_study
from fedcord.report.numbers import NOTHING, counted
from fedcord.report.row import BELOW_CONSTANT, Row
from fedcord.report.scores import score, score_bracket, score_heading
from fedcord.report.tables import pipe_table
from fedcord.statistics import MeanInterval

MARK = "‡"
"""Beside a score that is not above a constant answer's."""


@dataclass(frozen=True)
class OverviewRow:
    """One algorithm.

    Attributes:
        name: as the run folders name it.
        by_study: [S] its mean with its interval; None where it did not take part.
        mean: over studies, each with the same weight; None unless it took part in all.
        mean_rank: over studies, 1 for the best mean; None unless it took part in all.
        below: [S] whether its mean is not above that of a constant answer.
        mean_above: mean over the studies in which it is; None where there is none, and unless it
            took part in all.
        cost: mean over studies; nothing known unless it took part in all.
    """

    name: str
    by_study: tuple[MeanInterval | None, ...]
    mean: float | None
    mean_rank: float | None
    below: tuple[bool, ...]
    mean_above: float | None
    cost: Cost


@dataclass(frozen=True)
class Overview:
    """Algorithms by mean rank, best first; behind them those that not every study has.

    Attributes:
        titles: [S] of the studies.
        num_seeds: [S] of the studies.
        rows: the algorithms.
        metric: name of what is compared.
        marks: who did not train or failed, and in which study.
    """

    titles: tuple[str, ...]
    num_seeds: tuple[int, ...]
    rows: tuple[OverviewRow, ...]
    metric: str
    marks: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """A pipe table with what it is below; the best mean of every study is bold."""
        columns = zip(*(row.by_study for row in self.rows), strict=True)
        metric = METRICS[self.metric]
        best = [
            max((own.mean for own in column if own is not None), key=lambda m: metric.sign * m)
            for column in columns
        ]
        is_marked = any(any(row.below) for row in self.rows)
        rows = [
            [
                row.name,
                *(
                    _cell(own, top, metric) + f" {MARK}" * below
                    for own, top, below in zip(row.by_study, best, row.below, strict=True)
                ),
                score(row.mean, metric, 1),
                *([score(row.mean_above, metric, 1)] if is_marked else []),
                NOTHING if row.mean_rank is None else f"{row.mean_rank:.1f}",
            ]
            for row in self.rows
        ]
        means = ["mean", f"mean without {MARK}"] if is_marked else ["mean"]
        table = pipe_table(["algorithm", *self.titles, *means, "mean rank"], rows)
        few, many = min(self.num_seeds), max(self.num_seeds)
        seeds = counted(few, "seed") if few == many else f"{few} to {many} seeds"
        below = (
            f"Final test {score_heading(metric, ' in')}, mean and 95 % interval, "
            f"{'Student t on the logit scale' if metric.is_share else 'Student t'} "
            f"({seeds} in each study), the best mean of a study bold. Intervals that overlap say "
            "little about a difference, since seeds are paired: see --against NAME. The last two "
            "columns are means over studies; they describe these studies and test nothing."
        )
        if is_marked:
            below += (
                f" {MARK}: not above what always answering with the largest class of the test set "
                "reaches; what such a method can do is not known from that setting."
            )
        notes = [f"Note: {mark}." for mark in self.marks if BELOW_CONSTANT not in mark]
        return "\n\n".join([table, below, *self._costs(), *notes]) + "\n"

    def _costs(self) -> list[str]:
        costs = [(row.name, row.cost) for row in self.rows if row.cost.is_known]
        if not costs:
            return []
        said = f"{TITLE}, mean over studies. {EXPLANATION} {compute_sentence(costs)}".strip()
        return [pipe_table(*cost_table(costs)), said]


def _cell(own: MeanInterval | None, best: float, metric: Metric) -> str:
    if own is None:
        return NOTHING
    mean = score(own.mean, metric, 1)
    mean = f"**{mean}**" if own.mean == best else mean
    return f"{mean} {score_bracket(own, metric, 1)}" if own.has_interval else mean


def overview(boards: Sequence[Leaderboard], titles: Sequence[str]) -> Overview:
    """All studies side by side.

    Args:
        boards: of at least two studies.
        titles: of the studies.
    """
    if len(boards) < 2:
        raise ConfigError("--overview puts several studies together; name two folders or more.")
    found = [{row.name: row for row in board.rows} for board in boards]
    studies = [{name: row.score for name, row in own.items()} for own in found]
    everywhere = sorted(set.intersection(*(set(study) for study in studies)))
    elsewhere = sorted(set.union(*(set(study) for study in studies)) - set(everywhere))
    metric = boards[0].metric
    mean_ranks = _mean_ranks(studies, everywhere, metric)
    rows = [
        OverviewRow(
            name,
            tuple(study[name] for study in studies),
            float(np.mean([study[name].mean for study in studies])),
            mean_ranks[name],
            tuple(own[name].is_below_constant for own in found),
            _mean_above([own[name] for own in found]),
            mean_cost([own[name].cost for own in found]),
        )
        for name in sorted(everywhere, key=lambda name: mean_ranks[name])
    ]
    rows += [
        OverviewRow(
            name,
            tuple(study.get(name) for study in studies),
            None,
            None,
            tuple(name in own and own[name].is_below_constant for own in found),
            None,
            Cost(),
        )
        for name in elsewhere
    ]
    return Overview(
        tuple(titles),
        tuple(len(board.seeds) for board in boards),
        tuple(rows),
        metric.name,
        marks_by_study(boards, titles),
    )


def _mean_above(rows: Sequence[Row]) -> float | None:
    above = [row.score.mean for row in rows if not row.is_below_constant]
    return float(np.mean(above)) if above else None


def _mean_ranks(
    studies: Sequence[Mapping[str, MeanInterval]], names: Sequence[str], metric: Metric
) -> dict[str, float]:
    """Mean place of each name's mean among those of all names; ties share places."""
    from scipy.stats import rankdata  # deferred: takes longer to import than most reports take

    means = [[-metric.sign * study[name].mean for name in names] for study in studies]
    return dict(zip(names, rankdata(means, axis=1).mean(axis=0).tolist(), strict=True))
