"""A progress bar for runs: round, accuracy, samples per second, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)

from fedcord.report.notes import Note, gathered, went_wrong

if TYPE_CHECKING:
    from fedcord.engine.rounds import RoundRecord
    from fedcord.experiment.run import Known, Progress


class RunBars:
    """Shows runs one after another on standard error; does nothing when hidden."""

    def __init__(self, hidden: bool, total_runs: int = 1) -> None:
        self.console = Console(stderr=True)
        self._notes: list[Note] = []
        self._hidden = hidden
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
            disable=hidden or not self.console.is_terminal,
        )
        self._runs = (
            self._bars.add_task("runs", total=total_runs, note="") if total_runs > 1 else None
        )

    def __enter__(self) -> RunBars:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()
        if error is not None:  # there will be no result to say them after
            self.say(gathered(self._notes))

    def say(self, notes: Iterable[str]) -> None:
        """Print notes, unless nothing is to be shown."""
        if not self._hidden:
            for note in notes:
                self.console.print(f"[yellow]note[/] {escape(note)}", highlight=False)

    def run_done(self) -> None:
        """One run of several is over."""
        if self._runs is not None:
            self._bars.advance(self._runs)

    def watch(self, name: str, seed: int) -> Progress:
        """Callbacks for one run."""
        from fedcord.experiment.run import Progress

        title = f"{name} seed {seed}" if self._runs is not None else name
        bar = self._bars.add_task(title, total=None, note="loading data")
        began, seen, accuracy = time.perf_counter(), 0, ""
        names: dict[int, str] = {}

        def show() -> None:
            rate = seen / max(time.perf_counter() - began, 1e-9)
            self._bars.update(bar, note=f"{accuracy}{rate:,.0f} samples/s")

        def started(known: Known, done: int) -> None:
            nonlocal began
            began = time.perf_counter()
            total = known.config.rounds
            self._bars.update(bar, total=total, completed=done, note="")
            names.update(enumerate(known.holdings.client_names))
            self._notes += [Note(name, seed, line) for line in known.warnings()]

        def client(examples: int) -> None:
            nonlocal seen
            seen += examples
            show()

        def round_(record: RoundRecord) -> None:
            nonlocal accuracy
            if record.evaluation is not None:
                accuracy = f"accuracy {record.evaluation.accuracy:.3f}  "
            wrong = went_wrong(record.refused, record.missing, record.events, names)
            self._notes += [Note(name, seed, text) for text in (*wrong, *record.notes)]
            self._bars.advance(bar)
            show()
            if record.round == self._bars.tasks[self._index(bar)].total:
                self._bars.remove_task(bar)

        def feature(done: int, total: int) -> None:
            note = "examples through the frozen network, once"
            self._bars.update(bar, total=total, completed=done, note=note)

        def note(text: str) -> None:
            if not self._hidden:
                self.console.print(f"[yellow]note[/] {title}: {text}")

        return Progress(started, client, round_, feature, self._download(bar), note)

    def loading(self, title: str) -> Callable[[int, int | None], None]:
        """A bar for data that is fetched, (bytes held, bytes in all or None)."""
        return self._download(self._bars.add_task(title, total=None, note="loading data"))

    def steps(self, title: str) -> Callable[[int, int], None]:
        """A bar for steps of equal length, (done, to do)."""
        bar = self._bars.add_task(title, total=None, note="")
        return lambda done, total: self._bars.update(bar, completed=done, total=total)

    def _download(self, bar: TaskID) -> Callable[[int, int | None], None]:
        def show(held: int, total: int | None) -> None:
            in_all = None if total is None else _megabytes(total)
            self._bars.update(bar, total=in_all, completed=_megabytes(held), note="MB fetched")

        return show

    def _index(self, bar: TaskID) -> int:
        return next(i for i, task in enumerate(self._bars.tasks) if task.id == bar)


def _megabytes(num_bytes: int) -> int:
    return math.ceil(num_bytes / 1e6)
