"""A progress bar for runs: round, accuracy, samples per second, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)
from rich.text import Text

from fedcord.report.notes import Note, gathered

if TYPE_CHECKING:
    from fedcord.experiment.config import RunConfig
    from fedcord.experiment.news import RunNews, StudyNews
    from fedcord.experiment.run import Progress


class RunBars:
    """Shows runs on standard error, with a line for each under way; does nothing when hidden."""

    def __init__(self, hidden: bool, total_runs: int = 1) -> None:
        self.console = Console(stderr=True)
        self._notes: list[Note] = []
        self._shown: dict[tuple[str, int], TaskID] = {}
        self._hidden = hidden
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            _TimeLeft(),
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

    def study(self) -> StudyNews:
        """Callbacks for the runs of a study, one after another or several at a time."""
        from fedcord.experiment.news import StudyNews

        counts = {"running": 0, "failed": 0}

        def show() -> None:
            assert self._runs is not None
            text = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
            self._bars.update(self._runs, note=text)

        def begins(label: str, config: RunConfig) -> RunNews:
            counts["running"] += 1
            if self._runs is not None:
                show()
            return self.news(label, config.seed)

        def ends(label: str, config: RunConfig, why: str | None) -> None:
            counts["running"] -= 1
            self._remove(self._shown.pop((label, config.seed)))
            if why is not None:
                counts["failed"] += 1
                if not self._bars.disable:  # elsewhere all are told at the end
                    text = escape(f"{label} seed {config.seed}: {why}")
                    self.console.print(f"[red]failed[/] {text}", highlight=False)
            if self._runs is not None:
                self._bars.advance(self._runs)
                show()

        def seconds_left(seconds: float) -> None:
            if self._runs is not None:
                self._bars.update(self._runs, left=seconds)

        return StudyNews(begins, ends, seconds_left, lambda text: self.say([text]))

    def watch(self, name: str, seed: int) -> Progress:
        """Callbacks for one run in this process."""
        return self.news(name, seed).progress()

    def news(self, name: str, seed: int) -> RunNews:
        """Callbacks for one run, wherever it is done."""
        from fedcord.experiment.news import RunNews

        title = f"{name} seed {seed}" if self._runs is not None else name
        bar = self._bars.add_task(title, total=None, note="loading data")
        self._shown[name, seed] = bar
        began, seen, accuracy, rounds = time.perf_counter(), 0, "", 0

        def show() -> None:
            rate = seen / max(time.perf_counter() - began, 1e-9)
            self._bars.update(bar, note=f"{accuracy}{rate:,.0f} samples/s")

        def started(total: int, done: int, notes: Sequence[str]) -> None:
            nonlocal began, rounds
            began, rounds = time.perf_counter(), total
            self._bars.update(bar, total=total, completed=done, note="")
            self._notes += [Note(name, seed, line) for line in notes]

        def examples(count: int) -> None:
            nonlocal seen
            seen += count
            show()

        def round_(number: int, measured: float | None, notes: Sequence[str]) -> None:
            nonlocal accuracy
            if measured is not None:
                accuracy = f"accuracy {measured:.3f}  "
            self._notes += [Note(name, seed, text) for text in notes]
            self._bars.advance(bar)
            show()
            if number == rounds:
                self._remove(bar)

        def feature(done: int, total: int) -> None:
            note = "examples through the frozen network, once"
            self._bars.update(bar, total=total, completed=done, note=note)

        def note(text: str) -> None:
            if not self._hidden:
                self.console.print(f"[yellow]note[/] {title}: {text}")

        return RunNews(started, examples, round_, feature, self._download(bar), note)

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

    def _remove(self, bar: TaskID) -> None:
        if bar in self._bars.task_ids:
            self._bars.remove_task(bar)


class _TimeLeft(ProgressColumn):
    """What we guess ourselves where we know better: the biggest runs of a study go first."""

    def __init__(self) -> None:
        super().__init__()
        self._by_pace = TimeRemainingColumn(compact=True)

    def render(self, task: Task) -> Text:
        left = task.fields.get("left")
        if left is None:
            return self._by_pace.render(task)
        minutes, seconds = divmod(int(left), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        return Text(clock, style="progress.remaining")


def _megabytes(num_bytes: int) -> int:
    return math.ceil(num_bytes / 1e6)
