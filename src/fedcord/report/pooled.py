"""Every algorithm against a named one over several studies together: what holds across settings.

Two questions, two intervals. *These studies*: how large is the mean difference in just these
settings; only seeds make it uncertain. *Data sets like these*: what is to be expected of a further
one; the data sets are a sample, and that they differ makes it uncertain, too. Several studies of
one data set, such as three skews, are one of the sample. Where they have the same seeds, which
makes them depend on each other, their differences are averaged seed by seed first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.metrics.registry import METRICS
from fedcord.report.against import in_words
from fedcord.report.leaderboard import Leaderboard, marks_by_study
from fedcord.report.numbers import NOTHING, counted, listed, p_value
from fedcord.report.over_studies import over_studies
from fedcord.report.planned_pooled import PooledPrimary, explained, planned_over, planned_table
from fedcord.report.row import shared_seeds
from fedcord.report.scores import score, score_cell_bracket, score_gap, score_heading
from fedcord.report.tables import pipe_table
from fedcord.statistics import PairedDifference, RandomEffects, holm


@dataclass(frozen=True)
class PooledVersus:
    """One algorithm minus the baseline.

    Attributes:
        name: the algorithm's.
        metric: name of what is compared.
        score: mean over studies of its mean.
        by_study: [S] mean differences.
        by_dataset: mean difference on each data set.
        difference: over all studies.
        p_holm: corrected for all comparisons with the baseline.
        beyond: over data sets like these.
        beyond_p_holm: corrected likewise.
    """

    name: str
    metric: str
    score: float
    by_study: tuple[float, ...]
    by_dataset: Mapping[str, float]
    difference: PairedDifference
    p_holm: float | None
    beyond: RandomEffects
    beyond_p_holm: float | None

    @property
    def finding(self) -> str:
        """What these studies show, in one or two words."""
        return in_words(self.difference.mean, self.p_holm, METRICS[self.metric])

    @property
    def finding_beyond(self) -> str:
        """What they show of data sets like these."""
        return in_words(self.beyond.mean, self.beyond_p_holm, METRICS[self.metric])


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
        plans: how the studies stand to what was planned, each sentence once.
        primary: what came of the comparisons that were planned for all of them.
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
    plans: tuple[str, ...] = ()
    primary: tuple[PooledPrimary, ...] = ()

    @property
    def num_datasets(self) -> int:
        """How many data sets there are."""
        return len(set(self.datasets))

    @property
    def shared_seeds(self) -> tuple[int, ...]:
        """Seeds that several studies of one data set have: their examples may be the same."""
        own = zip(self.datasets, self.seeds, strict=True)
        uses = Counter((data, seed) for data, seeds in own for seed in seeds)
        return tuple(sorted({seed for (_, seed), count in uses.items() if count > 1}))

    @property
    def is_paired_by_seed(self) -> bool:
        """Whether all studies of a data set that share seeds share all of them."""
        own = list(zip(self.datasets, self.seeds, strict=True))
        return all(
            seeds == others or not set(seeds) & set(others)
            for data, seeds in own
            for other, others in own
            if data == other
        )

    def to_markdown(self) -> str:
        """Two pipe tables with what they are below."""
        tables = [self._of_these(), self._in_these()]
        if self.num_datasets > 1:
            tables += [self._of_datasets(), self._beyond()]
        else:
            tables.append(
                f"All studies are of {self.datasets[0]}: they say nothing about other data sets."
            )
        if self.primary:
            several = self.num_datasets > 1
            tables.insert(0, planned_table(self.primary, self.metric, several))
            tables.insert(1, explained(self.primary, several))
        return "\n\n".join([*tables, *self._notes()]) + "\n"

    def _of_these(self) -> str:
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
        return pipe_table([*head, "p (Holm)", "these studies show"], rows)

    def _in_these(self) -> str:
        metric = METRICS[self.metric]
        pairs = counted(sum(map(len, self.seeds)), "pair")
        tested = sum(own.p_holm is not None for own in self.others)
        return (
            f"Final test {metric.words}, mean over {len(self.titles)} studies; differences to "
            f"{self.baseline}{' in percentage points' if metric.is_share else ''}, paired by "
            f"seed, data and partition ({pairs}), "
            "mean over studies of equal weight, with 95 % Student-t interval from the spread "
            "within studies; p with Holm's correction for "
            f"{counted(tested, 'comparison')} with {self.baseline}. The statement is "
            "about these studies. 'not shown' does not mean equal."
        )

    def _of_datasets(self) -> str:
        metric = METRICS[self.metric]
        names = list(dict.fromkeys(self.datasets))
        head = ["algorithm", *names, "data sets like these", "95 % interval", "τ", "p (Holm)"]
        rows = [
            [
                own.name,
                *(score_gap(own.by_dataset[name], metric) for name in names),
                score_gap(own.beyond.mean, metric),
                score_cell_bracket(own.beyond.interval, metric),
                NOTHING if own.beyond.spread is None else score(own.beyond.spread, metric),
                p_value(own.beyond_p_holm),
                own.finding_beyond,
            ]
            for own in self.others
        ]
        return pipe_table([*head, "of data sets like these"], rows)

    def _beyond(self) -> str:
        return (
            f"The same differences with the {self.num_datasets} data sets as a sample of data "
            "sets: studies of one data set are averaged first, then data sets by how well each is "
            "known. τ is the standard deviation between data sets that seeds do not explain (Paule "
            "and Mandel); the 95 % interval (Hartung and Knapp, Student t with "
            f"{self.num_datasets - 1} degrees of freedom) counts it. The statement is about the "
            "mean over data sets like these, as far as these are a fair sample of them."
        )

    def _notes(self) -> list[str]:
        notes = list(self.plans)
        if self.left_out:
            notes.append(f"Not in every study, left out: {listed(list(self.left_out))}.")
        if self.shared_seeds:
            seeds = listed([str(seed) for seed in self.shared_seeds])
            notes.append(
                f"Studies of one data set share the seeds {seeds}; their differences are averaged "
                "seed by seed before spreads are taken, so that what they have in common counts "
                "once."
                if self.is_paired_by_seed
                else f"Studies of one data set share the seeds {seeds}, so their data may overlap "
                "and intervals may be too narrow; studies with the same seeds throughout, or with "
                "seeds of their own (--seed), have no such trouble."
            )
        return [*notes, *(f"Note: {mark}." for mark in self.marks)]


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
    if any(name in study for study in studies) and name not in everywhere:
        allowed = ", ".join(sorted(everywhere)) or "none, so these have nothing to be compared by"
        raise ConfigError(
            f"--against '{name}': not in every study; in all of them: {allowed}. Every folder that "
            "is named is a study here, with the runs of all its algorithms below it."
        )
    if name not in everywhere:
        raise ConfigError(unknown_name("--against", name, sorted(everywhere)))
    names = sorted(
        other
        for other in everywhere - {name}
        if all(shared_seeds(study[other], study[name]) for study in studies)
    )
    if not names:
        raise ConfigError(f"--against '{name}': no other algorithm is in every study.")
    datasets = [board.dataset for board in boards]
    found = [over_studies([(s[other], s[name]) for s in studies], datasets) for other in names]
    adjusted = holm([own.these.t_p for own in found])
    adjusted_beyond = holm([own.beyond.p for own in found])
    metric = boards[0].metric
    others = [
        PooledVersus(
            other,
            metric.name,
            float(np.mean([study[other].score.mean for study in studies])),
            own.by_study,
            own.by_dataset,
            own.these,
            p_holm,
            own.beyond,
            beyond_p_holm,
        )
        for other, own, p_holm, beyond_p_holm in zip(
            names, found, adjusted, adjusted_beyond, strict=True
        )
    ]
    return PooledAgainst(
        name,
        metric.name,
        float(np.mean([study[name].score.mean for study in studies])),
        tuple(titles),
        tuple(datasets),
        tuple(board.seeds for board in boards),
        tuple(sorted(others, key=lambda own: -metric.sign * own.difference.mean)),
        tuple(sorted(set.union(*(set(study) for study in studies)) - {name, *names})),
        marks_by_study(boards, titles),
        _plans(boards, titles),
        planned_over(boards),
    )


def _plans(boards: Sequence[Leaderboard], titles: Sequence[str]) -> tuple[str, ...]:
    """What was planned of these studies, once for all that have the same plan."""
    plans = {t: board.plan for t, board in zip(titles, boards, strict=True)}
    known = {title: plan for title, plan in plans.items() if plan is not None}
    if not known:
        return ()
    first = min(known.values(), key=lambda own: own.first_run or "")
    if len(known) < len(boards) or any(p.record.plan != first.record.plan for p in known.values()):
        return tuple(f"{title}: {plan.standing}" for title, plan in known.items())
    not_planned = [title for title, plan in known.items() if not plan.is_planned]
    late = [f"Not planned: {listed(not_planned)}."] if 0 < len(not_planned) < len(known) else []
    return (*first.markdown(), *late)
