"""What tuning tried, chose and was worth, and what an untuned comparison has to say of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcord.metrics.registry import DEFAULT, METRICS, Metric
from fedcord.report.numbers import NOTHING, counted, listed
from fedcord.report.row import Row
from fedcord.report.scores import gap_heading, score, score_gap, score_heading
from fedcord.store.tuning_file import Trial, Tuned, Tuning

TITLE, ALL_TRIALS = "Tuning", "What was tried"
NOT_TUNED = "Parameters were not tuned."


@dataclass(frozen=True)
class Entry:
    """One contender of a tuning.

    Attributes:
        name: what tables call it.
        tuning: the whole that it was part of.
        own: what was done for it.
    """

    name: str
    tuning: Tuning
    own: Tuned

    @property
    def metric(self) -> Metric:
        """Of the validation scores."""
        return METRICS.get(self.tuning.metric, METRICS[DEFAULT])

    @property
    def worth(self) -> float | None:
        """Validation score of what was chosen minus that of the contender as it was given."""
        before, after = _mean(self.own.default), _mean(self.own.best)
        return None if before is None or after is None else after - before


def entries(tuning: Tuning) -> list[Entry]:
    """All of one tuning, in its order."""
    return [Entry(label, tuning, own) for label, own in tuning.contenders.items()]


def entries_of(rows: Sequence[Row]) -> list[Entry]:
    """Of those rows that were tuned, or tried to be."""
    found = []
    for row in rows:
        run = row.runs[0]
        if run.tuning is not None:
            found.append(Entry(row.name, run.tuning, run.tuning.contenders[run.label]))
    return found


MOST_NAMED = 4
"""Tuned methods that a verdict names; of more it names those that were not."""


def tuning_verdict(rows: Sequence[Row]) -> str:
    """On which terms methods were compared, for the verdict; empty where there is one."""
    if len(rows) < 2:
        return ""
    known = entries_of(rows)
    names = {entry.name for entry in known}
    untuned = [row.name for row in rows if row.name not in names]
    if not known:
        return NOT_TUNED
    tuned = [entry for entry in known if entry.own.trials]
    if untuned:
        was = "was" if len(untuned) == 1 else "were"
        others = listed([entry.name for entry in known])
        return f"{listed(untuned)} {was} not tuned and {others} {_was(known)}: not on equal terms."
    counts = sorted({entry.tuning.trials for entry in tuned})
    if len(counts) > 1:
        numbers = listed([str(count) for count in counts])
        return f"They were tuned by {numbers} trials: not on equal terms."
    idle = [entry.name for entry in known if not entry.own.trials]
    trials = counted(counts[0], "trial") if counts else "no trials"
    how = f"tuned by {trials} on validation data"
    if not idle:
        return f"Each was {how}."
    nothing = f"{'has' if len(idle) == 1 else 'have'} nothing to tune"
    if len(tuned) > MOST_NAMED:
        return f"All but {listed(idle)}, which {nothing}, were {how}."
    who = listed([entry.name for entry in tuned])
    return f"{who} {_was(tuned)} {how}; {listed(idle)} {nothing}."


def summary_table(known: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Headings and a row for each contender: what tuning was worth, and what it chose."""
    metric = known[0].metric
    head = ["algorithm", "trials", "runs", f"validation {score_heading(metric)}", "tuned"]
    head += [gap_heading("gain", metric), "chosen"]
    rows = []
    for entry in known:
        own, scale = entry.own, entry.metric
        worth = NOTHING if entry.worth is None else score_gap(entry.worth, scale)
        cells = [entry.name, str(len(own.trials)), str(own.runs)]
        cells += [score(_mean(trial), scale) for trial in (own.default, own.best)]
        rows.append([*cells, worth, _choice(own)])
    return head, rows


def trials_table(known: Sequence[Entry], between: str = ", ") -> tuple[list[str], list[list[str]]]:
    """Headings and a row for each trial; `between` stands between its parameters."""
    head = ["algorithm", "trial", "parameters", "seeds"]
    head += [f"validation {score_heading(known[0].metric)}", "outcome"]
    rows = [
        [
            *(entry.name, str(trial.number), _written(trial.values, between)),
            *(str(len(trial.scores)), score(_mean(trial), entry.metric), _outcome(entry, trial)),
        ]
        for entry in known
        for trial in entry.own.trials
    ]
    return head, rows


def tuning_sentence(known: Sequence[Entry], compared: Metric | None = None) -> str:
    """What to know about the tables.

    Args:
        known: at least one.
        compared: what the leaderboard is about, if there is one.
    """
    tuning, metric = known[0].tuning, known[0].metric
    seeds = tuning.seeds
    span = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    text = (
        f"Scores are {metric.words} on clients' validation parts, mean over the tuning seeds that "
        f"a trial ran on (of {span}, which no final run has); half of the trials were dropped "
        "after every seed, the contender as it was given never. No test figure was read. The "
        "score of what was chosen is the best of several, and so a little too good."
    )
    if compared is not None and compared.name != metric.name:
        text += f" The leaderboard is about {compared.words}, tuning was by {metric.words}"
        text += ": of clients' test parts there is no validation score." * compared.over_clients
        text += "." * (not compared.over_clients)
    spaces = {f"{name}={where}" for entry in known for name, where in entry.own.space.items()}
    return f"{text} Searched ({tuning.search}): {', '.join(sorted(spaces)) or 'nothing'}."


def tuning_lines(known: Sequence[Entry]) -> list[str]:
    """One sentence for each contender, for the notes of a terminal."""
    lines = []
    for entry in known:
        own, metric = entry.own, entry.metric
        if not own.trials:
            lines.append(f"{entry.name}: nothing to tune.")
            continue
        failed = sum(bool(trial.failure) for trial in own.trials)
        but = f", {failed} of which failed" if failed else ""
        before, after = (score(_mean(trial), metric) for trial in (own.default, own.best))
        unit = f" {metric.unit}" if metric.unit else ""
        lines.append(
            f"{entry.name}: {_choice(own)}; validation {metric.words} {before} → {after}{unit} "
            f"({counted(len(own.trials), 'trial')}{but})."
        )
    return lines


def tuning_values(known: Sequence[Entry]) -> dict[str, Any]:
    """By contender, as values JSON can hold."""
    return {
        entry.name: {
            "trials": len(entry.own.trials),
            "runs": entry.own.runs,
            "metric": entry.metric.name,
            "chosen": dict(entry.own.values),
            "validation_as_given": _mean(entry.own.default),
            "validation_tuned": _mean(entry.own.best),
        }
        for entry in known
    }


def _mean(trial: Trial | None) -> float | None:
    return None if trial is None else trial.mean


def _was(known: Sequence[Entry]) -> str:
    return "was" if len(known) == 1 else "were"


def _choice(own: Tuned) -> str:
    if not own.trials:
        return "nothing to tune"
    if own.chosen == 0:
        failed = own.trials[0].failure
        return "as given, for every trial failed" if failed else "as given"
    return _written(own.values)


def _written(values: Mapping[str, Any], between: str = ", ") -> str:
    return between.join(f"{name}={value}" for name, value in values.items())


def _outcome(entry: Entry, trial: Trial) -> str:
    said = ["as given"] if trial.number == 0 else []
    if trial.failure:
        return ", ".join([*said, f"failed: {trial.failure}"])
    if trial.number == entry.own.chosen:
        said.append("chosen")
    elif len(trial.scores) < len(entry.tuning.seeds):
        said.append("dropped")
    return ", ".join(said) or "second"
