"""What to know before reading a leaderboard: what is missing, broken, assumed or different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedcord.report.constant import constant_answer
from fedcord.report.load import Failure, Run
from fedcord.report.notes import Note, gathered, recorded_notes
from fedcord.report.numbers import counted, listed, percent
from fedcord.report.training import DID_NOT_TRAIN, training_trouble

RunsByName = Mapping[str, Sequence[Run]]


def left_out(
    runs: Sequence[Run], by_name: Mapping[str, Mapping[int, Run]], seeds: Sequence[int]
) -> list[str]:
    """Unfinished runs, and seeds that therefore count for nobody."""
    notes: list[str] = []
    for run in runs:
        if not run.is_finished and run.failure is None:
            done = counted(len(run.metrics), "round")
            notes.append(
                f"{run.name}, seed {run.seed}, is unfinished ({done} recorded) and left out; "
                "continue it with --resume."
            )
    for seed in sorted({seed for own in by_name.values() for seed in own} - set(seeds)):
        missing = sorted(name for name, own in by_name.items() if seed not in own)
        notes.append(f"Seed {seed} is left out everywhere: {listed(missing)} did not finish it.")
    return notes


def failed_runs(failures: Mapping[str, Sequence[Failure]], finished: RunsByName) -> list[str]:
    """Who failed on which seeds, and why."""
    notes = []
    for name, own in failures.items():
        done = len(finished[name])
        by_message: dict[str, list[str]] = {}
        for failure in own:
            by_message.setdefault(failure.message.rstrip("."), []).append(str(failure.seed))
        notes += [
            f"{name}: {done} of {counted(done + len(own), 'seed')}; "
            f"{'seed' if len(seeds) == 1 else 'seeds'} {listed(seeds)} failed: {message}."
            for message, seeds in by_message.items()
        ]
    return notes


def caveats(runs: RunsByName) -> tuple[str, ...]:
    """What the compared runs themselves give reason to say."""
    return (*_training(runs), *_constant(runs), *_unverified(runs), *_versions(runs))


def remarks(runs: RunsByName) -> tuple[Note, ...]:
    """What the compared runs noted by themselves, in their order."""
    return tuple(note for own in runs.values() for run in own for note in recorded_notes(run))


def _training(runs: RunsByName) -> tuple[str, ...]:
    found = [(name, training_trouble(run)) for name, own in runs.items() for run in own]
    return gathered(
        Note(
            name,
            own.seed,
            f"{DID_NOT_TRAIN}: {own.words}, and the accuracy is that of a constant answer. What "
            "the method can do is not known; scale the inputs or lower the learning rate"
            if own.is_untrained
            else f"{own.words}, but the accuracy is above that of a constant answer",
        )
        for name, own in found
        if own is not None
    )


def _constant(runs: RunsByName) -> tuple[str, ...]:
    """Whose accuracy on unequal classes is nothing but the size of the largest."""
    found = [(name, run, constant_answer(run)) for name, own in runs.items() for run in own]
    return gathered(
        Note(
            name,
            run.seed,
            f"the accuracy is not above the {percent(floor.majority)} % of always answering "
            f"'{floor.majority_class}'",
        )
        for name, run, floor in found
        if run.result is not None
        and floor is not None
        and floor.is_unequal
        and run.result.accuracy <= floor.majority
        and training_trouble(run) is None
    )


def _unverified(runs: RunsByName) -> list[str]:
    """What to say where equal data was assumed."""
    unknown = [name for name, own in runs.items() if any(run.data_hash is None for run in own)]
    if len(runs) < 2 or not unknown:
        return []
    return [
        f"{listed(unknown)}: no hash of the data was recorded; that it is the data of the others "
        "cannot be verified beyond its name and the split over clients."
    ]


def _versions(runs: RunsByName) -> list[str]:
    """What to say where runs were made by different code."""
    origins = [run.provenance for own in runs.values() for run in own]
    found = {
        "versions of fedcord": {own.get("packages", {}).get("fedcord") for own in origins},
        "versions of torch": {own.get("packages", {}).get("torch") for own in origins},
        "commits of fedcord": {own.get("commit") for own in origins},
        "devices": {own.get("device", "cpu") for own in origins if own},
    }
    return [
        f"These runs were made with different {what}: "
        f"{listed(sorted(str(version)[:12] for version in versions - {None}))}."
        for what, versions in found.items()
        if len(versions - {None}) > 1
    ]
