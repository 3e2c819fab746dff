"""Every algorithm in every study: the table that papers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError
from fedcord.metrics.registry import METRICS, Metric
from fedcord.report.leaderboard import Leaderboard, marks_by_study
from fedcord.report.numbers import NOTHING, counted
from fedcord.report.scores import score, score_bracket, score_heading
from fedcord.report.tables import pipe_table
from fedcord.statistics import MeanInterval


@dataclass(frozen=True)
class OverviewRow:
    """One algorithm.

    Attributes:
        name: as the run folders name it.
        by_study: [S] its mean with its interval; None where it did not take part.
        mean: over studies, each with the same weight; None unless it took part in all.
        mean_rank: over studies, 1 for the best mean; None unless it took part in all.
    """

    name: str
    by_study: tuple[MeanInterval | None, ...]
    mean: float | None
    mean_rank: float | None


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
        rows = [
            [
                row.name,
                *(_cell(own, top, metric) for own, top in zip(row.by_study, best, strict=True)),
                score(row.mean, metric, 1),
                NOTHING if row.mean_rank is None else f"{row.mean_rank:.1f}",
            ]
            for row in self.rows
        ]
        table = pipe_table(["algorithm", *self.titles, "mean", "mean rank"], rows)
        few, many = min(self.num_seeds), max(self.num_seeds)
        seeds = counted(few, "seed") if few == many else f"{few} to {many} seeds"
        below = (
            f"Final test {score_heading(metric, ' in')}, mean and 95 % interval, "
            f"{'Student t on the logit scale' if metric.is_share else 'Student t'} "
            f"({seeds} in each study), the best mean of a study bold. Intervals that overlap say "
            "little about a difference, since seeds are paired: see --against NAME. The last two "
            "columns are means over studies; they describe these studies and test nothing."
        )
        return "\n\n".join([table, below, *(f"Note: {mark}." for mark in self.marks)]) + "\n"


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
    studies = [{row.name: row.score for row in board.rows} for board in boards]
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
        )
        for name in sorted(everywhere, key=lambda name: mean_ranks[name])
    ]
    rows += [
        OverviewRow(name, tuple(study.get(name) for study in studies), None, None)
        for name in elsewhere
    ]
    return Overview(
        tuple(titles),
        tuple(len(board.seeds) for board in boards),
        tuple(rows),
        metric.name,
        marks_by_study(boards, titles),
    )


def _mean_ranks(
    studies: Sequence[Mapping[str, MeanInterval]], names: Sequence[str], metric: Metric
) -> dict[str, float]:
    """Mean place of each name's mean among those of all names; ties share places."""
    from scipy.stats import rankdata  # deferred: takes longer to import than most reports take

    means = [[-metric.sign * study[name].mean for name in names] for study in studies]
    return dict(zip(names, rankdata(means, axis=1).mean(axis=0).tolist(), strict=True))
