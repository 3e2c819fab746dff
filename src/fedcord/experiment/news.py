"""What someone who watches a run is told, as plain values that can come from another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedcord.engine.rounds import RoundRecord
from fedcord.experiment.config import RunConfig
from fedcord.experiment.run import Known, Progress


@dataclass(frozen=True)
class RunNews:
    """Callbacks for one run; all optional.

    Attributes:
        started: (rounds in all, rounds already done, what deserves a second look).
        examples: so many training examples were worked on.
        round: (rounds done, accuracy if it was measured, what went wrong).
        feature: (done, to do) while a frozen network computes features.
        download: (bytes held, bytes in all or None) while data is fetched.
        note: something worth knowing about a run that is gone on with.
    """

    started: Callable[[int, int, Sequence[str]], None] = lambda rounds, done, notes: None
    examples: Callable[[int], None] = lambda count: None
    round: Callable[[int, float | None, Sequence[str]], None] = lambda number, accuracy, notes: None
    feature: Callable[[int, int], None] = lambda done, total: None
    download: Callable[[int, int | None], None] = lambda held, total: None
    note: Callable[[str], None] = lambda text: None

    def progress(self) -> Progress:
        """The same for `run`, which tells more."""
        names: dict[int, str] = {}

        def started(known: Known, done: int) -> None:
            assert known.config.rounds is not None
            names.update(enumerate(known.holdings.client_names))
            self.started(known.config.rounds, done, known.warnings())

        def round_(record: RoundRecord) -> None:
            accuracy = None if record.evaluation is None else record.evaluation.accuracy
            self.round(record.round, accuracy, (*_went_wrong(record, names), *record.notes))

        return Progress(started, self.examples, round_, self.feature, self.download, self.note)


def _went_wrong(record: RoundRecord, names: Mapping[int, str]) -> Sequence[str]:
    if not (record.refused or record.missing or record.events):
        return ()
    from fedcord.report.notes import went_wrong  # brings in all of the report

    return went_wrong(record.refused, record.missing, record.events, names)


@dataclass(frozen=True)
class StudyNews:
    """Callbacks for the runs of a study; all optional.

    Attributes:
        begins: a run begins, of this label and configuration; returns who watches it.
        ends: a run of this label and configuration is over; why it has no result, or None.
        seconds_left: about so much longer, once that can be guessed.
        note: something worth knowing about the study.
    """

    begins: Callable[[str, RunConfig], RunNews] = lambda label, config: RunNews()
    ends: Callable[[str, RunConfig, str | None], None] = lambda label, config, why: None
    seconds_left: Callable[[float], None] = lambda seconds: None
    note: Callable[[str], None] = lambda text: None
