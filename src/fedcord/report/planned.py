"""What a study set out to show, whether that was written before its runs, and what came out.

A comparison is called planned only if a commit says so that is older than the first run. Its p is
corrected for all planned comparisons, also those whose runs are missing, and for no others. That
one method beats the best other, whichever that turns out to be, is shown if it beats every other:
the largest of their p counts, and 1 where it is not ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedcord.metrics.registry import Metric
from fedcord.report.load import Run
from fedcord.report.numbers import NOTHING, counted, listed, p_value
from fedcord.report.row import Row, over_shared_seeds
from fedcord.report.scores import gap_heading, score_cell_bracket, score_gap
from fedcord.statistics import PairedDifference, holm, paired_difference
from fedcord.store.plan_record import PlanRecord
from fedcord.store.study_plan import BEST_OTHER, Comparison

TITLE = "Plan"
PLANNED, WRITTEN = "Planned before the first run", "Written after the first run"
ENDS = (".", "?", "!")
SHORT = 12
"""Digits of a commit that are shown."""


@dataclass(frozen=True)
class PrimaryResult:
    """What runs say of a planned comparison.

    Attributes:
        comparison: as it was planned.
        against: the contender that "best other" turned out to be; else the one that was named.
        difference: paired by seed; None where runs are missing.
        p: before correction.
        p_holm: corrected for all planned comparisons.
    """

    comparison: Comparison
    against: str | None
    difference: PairedDifference | None
    p: float | None
    p_holm: float | None

    @property
    def words(self) -> str:
        """The comparison, with the contender that was the best other."""
        return in_words(self.comparison, self.against)


@dataclass(frozen=True)
class StudyPlanned:
    """A plan beside what was done.

    Attributes:
        record: the last plan that was noted.
        num_records: how many were; more than one means that it was changed on the way.
        first_run: when the study's first run began, as ISO 8601; None where runs do not tell.
        results: of the planned comparisons.
        deviations: what was done otherwise, in words.
    """

    record: PlanRecord
    num_records: int
    first_run: str | None
    results: tuple[PrimaryResult, ...]
    deviations: tuple[str, ...]

    @property
    def is_planned(self) -> bool:
        """Whether its commit is older than the first run."""
        return self.first_run is not None and self.record.is_older_than(self.first_run)

    @property
    def standing(self) -> str:
        """Whether this may be called a plan, and why."""
        record, first = self.record, self.first_run or "not recorded"
        if record.commit is None:
            return f"Not shown to be planned: {record.reason} (first run {first})."
        where = f"commit {record.commit[:SHORT]} of {record.committed}, first run {first}"
        if self.is_planned:
            return f"{PLANNED}: {where}."
        return f"{WRITTEN}: {where}."

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What it says, under headings."""
        plan = self.record.plan
        found = [
            ("question", plan.question),
            ("primary", "; ".join(map(str, plan.primary))),
            ("seeds", ", ".join(map(str, plan.seeds))),
            ("stopping", plan.stopping),
            ("analysis", plan.analysis),
            ("not as planned", " ".join(self.deviations)),
        ]
        return [(heading, text) for heading, text in found if text]

    def table(self, metric: Metric) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of what came out."""
        head = ["planned comparison", gap_heading("difference", metric), "95 % interval"]
        rows = []
        for own in self.results:
            found = own.difference
            gap = NOTHING if found is None else score_gap(found.mean, metric)
            interval = NOTHING if found is None else score_cell_bracket(found.interval, metric)
            rows.append([own.words, gap, interval, p_value(own.p_holm)])
        return [*head, "p (Holm)"], rows

    def correction(self, is_one_part: bool = False) -> str:
        """What p is corrected for, below the table.

        Args:
            is_one_part: whether other parts of the study have tables of their own.
        """
        said = f"p with Holm's correction for {counted(len(self.results), 'planned comparison')}"
        said += " of this part alone." if is_one_part else "."
        untested = sum(own.p is None for own in self.results)
        return said + (f" {untested} of them not tested, counted as p = 1." if untested else "")

    def markdown(self) -> list[str]:
        """Paragraphs, without the results."""
        said = " ".join(
            f"{name.capitalize()}: {text if text.endswith(ENDS) else text + '.'}"
            for name, text in self.lines
        )
        return [f"{TITLE}. {self.standing} {said}"]

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold."""
        record = self.record
        return {
            **record.plan.to_plain(),
            "file": record.file,
            "commit": record.commit,
            "committed": record.committed,
            "first_run": self.first_run,
            "is_planned": self.is_planned,
            "standing": self.standing,
            "deviations": list(self.deviations),
            "results": [
                {
                    "comparison": str(own.comparison),
                    "against": own.against,
                    "difference": None if own.difference is None else asdict(own.difference),
                    "p": own.p,
                    "p_holm": own.p_holm,
                }
                for own in self.results
            ],
        }


def in_words(comparison: Comparison, against: str | None) -> str:
    """The comparison, with the contender that was the best other, where that is known."""
    is_named = comparison.other != BEST_OTHER or against is None
    return str(comparison) if is_named else f"{comparison} ({against})"


def planned(runs: Sequence[Run], rows: Sequence[Row]) -> StudyPlanned | None:
    """The plan of the study that all runs belong to; None where there is none or there are several.

    Args:
        runs: all of the comparison, finished or not.
        rows: what they came to.
    """
    found = {run.plans for run in runs}
    if len(found) != 1 or not (records := found.pop()):
        return None
    starts = [str(own) for run in runs if (own := run.provenance.get("started")) is not None]
    record = records[-1]
    deviations = _deviations(record, runs)
    if len(records) > 1:
        deviations += [f"The plan was changed after runs had begun ({len(records)} versions)."]
    results = primary_results(record, rows)
    return StudyPlanned(record, len(records), min(starts, default=None), results, tuple(deviations))


def _deviations(record: PlanRecord, runs: Sequence[Run]) -> list[str]:
    """What of the seeds is otherwise; one that a contender has not finished is not complete."""
    plan = record.plan
    named = {label for own in plan.primary for label in (own.contender, own.other)} - {BEST_OTHER}
    done = {label: set[int]() for label in sorted({*named, *(run.label for run in runs)})}
    for run in runs:
        if run.is_finished:
            done[run.label].add(run.seed)
    lacking: dict[tuple[str, ...], list[int]] = {}
    for seed in sorted(plan.seeds):
        without = tuple(label for label, seeds in done.items() if seed not in seeds)
        if without:
            lacking.setdefault(without, []).append(seed)
    found = []
    for labels, seeds in lacking.items():
        of = f" of {listed(list(labels))}" if len(labels) < len(done) else ""
        found.append(f"{_seeds(seeds)}: planned, without a result{of}.")
    if more := sorted(set.union(*done.values()) - set(plan.seeds)):
        found.append(f"{_seeds(more)}: run without being planned.")
    return found


def _seeds(seeds: Sequence[int]) -> str:
    """In words.

    >>> _seeds([3]), _seeds([3, 4])
    ('Seed 3', 'Seeds 3 and 4')
    """
    return f"{'Seed' if len(seeds) == 1 else 'Seeds'} {listed([str(seed) for seed in seeds])}"


def primary_results(record: PlanRecord, rows: Sequence[Row]) -> tuple[PrimaryResult, ...]:
    """The planned comparisons, each over the seeds that both sides have finished."""
    found = [_result(own, rows) for own in record.plan.primary]
    adjusted = corrected([p for *_, p in found])
    each = zip(record.plan.primary, found, adjusted, strict=True)
    return tuple(PrimaryResult(own, *result, p_holm) for own, result, p_holm in each)


def corrected(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's over all that was planned: what is not tested has p = 1, or leaving it out would pay.

    Args:
        p_values: one per comparison; None, which stays, where it could not be tested.
    """
    adjusted = holm([1.0 if p is None else p for p in p_values])
    return tuple(None if p is None else own for p, own in zip(p_values, adjusted, strict=True))


def _result(
    own: Comparison, rows: Sequence[Row]
) -> tuple[str | None, PairedDifference | None, float | None]:
    """Against whom, the difference and its p; None for what cannot be said."""
    by_label = {row.runs[0].label: row for row in rows}
    ours = by_label.get(own.contender)
    if ours is None:
        return None, None, None
    if own.other != BEST_OTHER:
        other = by_label.get(own.other)
        difference = None if other is None else _difference(ours, other)
        return own.other, difference, None if difference is None else difference.t_p
    others = [row for row in rows if row.runs[0].algorithm != ours.runs[0].algorithm]
    differences = {row.name: _difference(ours, row) for row in others}
    if not others or None in differences.values():
        return None, None, None
    best = max(others, key=lambda row: row.metric.sign * row.score.mean)
    sign = best.metric.sign
    p = p_of_beating_all([(sign * d.mean, d.t_p) for d in differences.values() if d is not None])
    return best.name, differences[best.name], p


def p_of_beating_all(others: Sequence[tuple[float, float | None]]) -> float | None:
    """The p of a claim that needs all: the largest, and 1 where somebody is not behind.

    Args:
        others: by how much each is behind, and the p of that.

    Returns:
        None where one could not be tested.
    """
    if any(gap <= 0 for gap, _ in others):
        return 1.0
    tested = [p for _, p in others if p is not None]
    return max(tested) if len(tested) == len(others) else None


def _difference(first: Row, second: Row) -> PairedDifference | None:
    pairs = over_shared_seeds(first, second)
    return paired_difference(*pairs) if pairs[0] else None
