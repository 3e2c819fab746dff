"""`tuning.json` of a study: what was tried for each contender, what was chosen, and by what.

It holds validation scores only. Trials are ordinary run folders below `tuning/`, and whoever wants
their other numbers has to look there.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import CheckpointError
from fedcord.core.regular_files import read_regular
from fedcord.store.checksums import add_checksum, check_files
from fedcord.store.plain_json import json_text

TUNING, TRIALS = "tuning.json", "tuning"
"""The file, and the folder of its trials: `tuning/LABEL/trial-00/seed-1000000`."""
SCHEMA = 1
A_TRIAL = re.compile(rf"(^|/){TRIALS}/[^/]+/trial-\d+/seed-\d+$")
AGAIN = "restore the file from a copy, or delete it and tune again with --resume"


@dataclass(frozen=True)
class Trial:
    """One choice of parameters, on one tuning seed after another as long as it was promising.

    Attributes:
        number: 0 is the contender as it was given.
        values: dotted name to value.
        scores: on validation data, one per tuning seed it ran on, in their order.
        failure: why it has no further score; empty where nothing went wrong.
    """

    number: int
    values: Mapping[str, Any]
    scores: tuple[float, ...] = ()
    failure: str = ""

    @property
    def mean(self) -> float | None:
        """Over its seeds; None without a score, and for what failed."""
        return statistics.fmean(self.scores) if self.scores and not self.failure else None


@dataclass(frozen=True)
class Tuned:
    """What was done for one contender.

    Attributes:
        space: dotted name to where it was looked for, as `--space` is written; empty where there is
            nothing to tune, and nothing was tried.
        trials: in the order they were made.
        chosen: number of the trial whose values the contender has.
    """

    space: Mapping[str, str]
    trials: tuple[Trial, ...]
    chosen: int = 0

    @property
    def values(self) -> Mapping[str, Any]:
        """The chosen values; none where nothing was tried."""
        return self.trials[self.chosen].values if self.trials else {}

    @property
    def default(self) -> Trial | None:
        """The contender as it was given."""
        return self.trials[0] if self.trials else None

    @property
    def best(self) -> Trial | None:
        """The trial that was chosen."""
        return self.trials[self.chosen] if self.trials else None

    @property
    def runs(self) -> int:
        """How many runs its trials took, with those that failed."""
        return sum(len(trial.scores) + bool(trial.failure) for trial in self.trials)


@dataclass(frozen=True)
class Tuning:
    """The whole of it.

    Attributes:
        plan: hash of what was to be tuned and how; the same plan needs no second tuning.
        metric: the validation score's name.
        search: how trials were proposed.
        trials: of each contender that has something to tune.
        seeds: of tuning, in the order they were used; no final run has one of them.
        contenders: by label.
    """

    plan: str
    metric: str
    search: str
    trials: int
    seeds: tuple[int, ...]
    contenders: Mapping[str, Tuned]


def is_trial(place: str) -> bool:
    """Whether a path, with slashes and below a study's folder, is that of a trial's run."""
    return A_TRIAL.search(place) is not None


def write_tuning(root: Path, tuning: Tuning) -> None:
    """Write the file and its checksum into the study's folder."""
    text = json_text({"schema": SCHEMA, **asdict(tuning)}, indent=1) + "\n"
    add_checksum(root, TUNING, text)
    write_atomically(root / TUNING, text)


def read_tuning(root: Path) -> Tuning | None:
    """The file as it was written; None where there is none.

    Raises:
        CheckpointError: it was changed, or is not what this version writes.
    """
    path = root / TUNING
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read ({error}); {AGAIN}.") from error
    check_files(root, [TUNING])
    try:
        values = json.loads(content.decode())
        if values["schema"] != SCHEMA:
            raise CheckpointError(f"'{path}' was not written by this version of fedcord; {AGAIN}.")
        return _tuning(values)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"'{path}' is not a tuning ({error!r}); {AGAIN}.") from error


def _tuning(values: Mapping[str, Any]) -> Tuning:
    contenders = {
        str(label): Tuned(
            {str(key): str(text) for key, text in own["space"].items()},
            tuple(_trial(number, trial) for number, trial in enumerate(own["trials"])),
            _whole(own["chosen"]),
        )
        for label, own in values["contenders"].items()
    }
    for own in contenders.values():
        if own.trials:
            own.trials[own.chosen]
    texts = [str(values[key]) for key in ("plan", "metric", "search")]
    seeds = tuple(map(_whole, values["seeds"]))
    return Tuning(texts[0], texts[1], texts[2], _whole(values["trials"]), seeds, contenders)


def _trial(number: int, values: Mapping[str, Any]) -> Trial:
    if _whole(values["number"]) != number:
        raise ValueError("trials are out of order")
    return Trial(number, dict(values["values"]), _scores(values["scores"]), str(values["failure"]))


def _scores(values: Sequence[Any]) -> tuple[float, ...]:
    scores = tuple(float(value) for value in values)
    if not all(map(math.isfinite, scores)):
        raise ValueError("a score is no number")
    return scores


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
