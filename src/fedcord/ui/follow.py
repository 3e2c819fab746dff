"""What stands in a folder of studies now, as plain values for the page.

Runs may be going on: a file can be absent, or its last line half written. So nothing here is an
error: what cannot be read is shown as such, with the reason, and read again at the next look. Locks
are not touched, since whoever tries one holds it for a moment and could stop a run that starts just
then; that a run is alive shows in its files growing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedcord.core.errors import CheckpointError
from fedcord.report.fields import RERUN, Fields, read_json, read_toml
from fedcord.report.metrics import RoundMetrics, read_metrics
from fedcord.report.notes import Note, gathered
from fedcord.store.checksums import CONFIG, FAILURE, METRICS, RESULT
from fedcord.store.tuning_file import is_trial

MOST_RUNS, MOST_POINTS, MOST_BYTES = 2000, 300, 64 * 2**20
REPORT = "report.html"

State = Literal["going on", "finished", "failed", "unreadable"]


@dataclass(frozen=True)
class RunView:
    """One run as the page shows it.

    Attributes:
        label: the contender it belongs to.
        seed: None where it could not be read.
        algorithm: likewise.
        state: what has become of it.
        rounds: done so far.
        total: that will be done; None where it could not be read.
        curve: [round, accuracy], thinned to `MOST_POINTS`.
        accuracy: the last one measured; of a finished run the final one.
        loss: mean training loss of the last round that has one.
        seconds: of all rounds so far.
        quiet: seconds since a file of it was last written; None for one that has ended.
        problem: why it failed or cannot be read.
        lost: answers that were refused or missing so far.
        notes: what the method observed, without repetitions.
    """

    label: str
    seed: int | None = None
    algorithm: str | None = None
    state: State = "going on"
    rounds: int = 0
    total: int | None = None
    curve: tuple[tuple[int, float], ...] = ()
    accuracy: float | None = None
    loss: float | None = None
    seconds: float = 0.0
    quiet: float | None = None
    problem: str | None = None
    lost: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyView:
    """The runs of one study.

    Attributes:
        name: its folder relative to the one that is watched.
        has_report: whether there is a page of it to open.
        runs: sorted by label and seed.
        notes: what the runs noted, one line for what differs in numbers only.
    """

    name: str
    has_report: bool
    runs: tuple[RunView, ...]
    notes: tuple[str, ...]


@dataclass
class Follower:
    """Reads a folder again and again; runs whose files have not changed are not parsed anew."""

    root: Path
    _known: dict[Path, tuple[object, RunView]] = field(default_factory=dict)

    def look(self) -> dict[str, Any]:
        """Everything there is now."""
        studies: dict[str, list[RunView]] = {}
        found = list(self._run_folders())
        for folder in found[:MOST_RUNS]:
            study, label = _place(folder.relative_to(self.root))
            studies.setdefault(study, []).append(self._view(folder, label))
        self._known = {folder: self._known[folder] for folder in found[:MOST_RUNS]}
        views = []
        for name, runs in sorted(studies.items()):
            runs.sort(key=lambda run: (run.label, run.seed or 0))
            notes = [Note(run.label, run.seed or 0, text) for run in runs for text in run.notes]
            has_report = self.report_of(name) is not None
            views.append(StudyView(name, has_report, tuple(runs), gathered(notes)))
        return {
            "folder": self.root.name or str(self.root),
            "studies": [asdict(view) for view in views],
            "left_out": max(0, len(found) - MOST_RUNS),
        }

    def report_of(self, study: str) -> Path | None:
        """The page of a study that was seen at the last look; None for any other name.

        Names are compared, never joined to a path: what is no study cannot be read.
        """
        known = {_place(folder.relative_to(self.root))[0] for folder in self._known}
        if study not in known:
            return None
        page = (self.root / study / REPORT).resolve()
        is_inside = page.is_relative_to(self.root.resolve())
        return page if is_inside and page.is_file() else None

    def _run_folders(self) -> Iterator[Path]:
        inside = self.root.resolve()
        for config in sorted(self.root.rglob(CONFIG)):
            folder = config.parent
            if is_trial(folder.relative_to(self.root).as_posix()):
                continue
            if config.resolve().is_relative_to(inside):  # no link out of the folder
                yield folder

    def _view(self, folder: Path, label: str) -> RunView:
        stamp = tuple(_stamp(folder / name) for name in (CONFIG, METRICS, RESULT, FAILURE))
        known = self._known.get(folder)
        if known is not None and known[0] == stamp:
            view = known[1]
        else:
            try:
                view = _read(folder, label)
            except (CheckpointError, OSError) as error:
                problem = str(error).removesuffix(f"; {RERUN}.")  # it may be whole at the next look
                view = RunView(label, state="unreadable", problem=problem)
            self._known[folder] = (stamp, view)
        if view.state != "going on":
            return view
        written = max((one[0] for one in stamp if one is not None), default=0.0)
        return replace(view, quiet=round(max(0.0, time.time() - written), 1))


def _stamp(file: Path) -> tuple[float, int] | None:
    """When it was written and how long it is; None where it is not there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime, status.st_size


def _place(relative: Path) -> tuple[str, str]:
    """The study a run belongs to and its contender's label there."""
    parts = relative.parts
    if len(parts) > 1 and re.fullmatch(r"seed-\d+.*", parts[-1]):
        return "/".join(parts[:-2]) or ".", parts[-2]
    return "/".join(parts[:-1]) or ".", parts[-1] if parts else "."


def _read(folder: Path, label: str) -> RunView:
    config = Fields(folder / CONFIG, read_toml(folder / CONFIG))
    metrics = folder / METRICS
    if metrics.exists() and metrics.stat().st_size > MOST_BYTES:
        raise CheckpointError(f"{metrics} is longer than {MOST_BYTES:,} bytes")
    is_finished = (folder / RESULT).exists()
    rounds = read_metrics(metrics, is_finished=is_finished, rounds=None)
    measured = [(one.round, one.accuracy) for one in rounds if one.accuracy is not None]
    state: State = "going on"
    accuracy, problem = measured[-1][1] if measured else None, None
    if is_finished:
        state = "finished"
        result = Fields(folder / RESULT, read_json(folder / RESULT))
        accuracy = result.number_or_none("accuracy")
    elif (folder / FAILURE).exists():
        state = "failed"
        failure = Fields(folder / FAILURE, read_json(folder / FAILURE))
        problem = failure.text("message")
    return RunView(
        label,
        config.whole("seed"),
        config.text("algorithm"),
        state,
        max((one.round for one in rounds), default=0),
        config.whole("rounds") if "rounds" in config.values else None,
        _thinned(measured),
        accuracy,
        _last_loss(rounds),
        sum(one.seconds for one in rounds),
        None,
        problem,
        sum(len(one.refused) + len(one.missing) for one in rounds),
        tuple(dict.fromkeys(note for one in rounds for note in one.notes)),
    )


def _last_loss(rounds: tuple[RoundMetrics, ...]) -> float | None:
    told = [one.train_loss for one in rounds if one.train_loss is not None]
    return told[-1] if told and abs(told[-1]) != float("inf") else None


def _thinned(points: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Evenly spaced ones and the last, where there are many."""
    step = -(-len(points) // MOST_POINTS) or 1
    kept = points[::step]
    return tuple(kept if not points or kept[-1] == points[-1] else [*kept, points[-1]])
