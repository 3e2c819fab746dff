"""A row for every example: what it is called, its class, and the score of each class."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcord.core.atomic import writing_output
from fedcord.core.errors import ConfigError
from fedcord.trained.model import TrainedModel
from fedcord.trained.new_examples import open_examples


@dataclass(frozen=True)
class Predicted:
    """What was written.

    Attributes:
        examples: how many rows.
        labelled: of how many the class was known.
        correct: of how many of these it was found.
        notes: on the examples, in plain words.
    """

    examples: int
    labelled: int
    correct: int
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """Share of correct answers among those that can be judged; None where none can."""
        return self.correct / self.labelled if self.labelled else None


def write_predictions(
    model: TrainedModel,
    data: str,
    out: Path,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> Predicted:
    """Write a CSV file with `id`, `class` and a score for each class, whole or not at all.

    Args:
        model: that answers.
        data: examples as `open_examples` reads them.
        out: the file to write.
        on_done: (done, to do), for progress.
    """
    if out.is_dir():
        raise ConfigError(f"--out '{out}' is a folder; name a file, such as predictions.csv.")
    names = model.facts.class_names
    examples = open_examples(data, model.facts)
    done = labelled = correct = 0
    on_done(0, examples.count)
    with writing_output(out) as file:
        file.write(_lines([["id", "class", *names]]))
        for batch in examples.batches():
            scores = model.scores(batch.inputs)
            best = scores.argmax(dim=1).tolist()
            file.write(
                _lines(
                    [who, names[label], *values]
                    for who, label, values in zip(batch.ids, best, scores.tolist(), strict=True)
                )
            )
            known = [(a, b) for a, b in zip(best, batch.labels, strict=True) if b is not None]
            labelled += len(known)
            correct += sum(found == true for found, true in known)
            done += len(best)
            on_done(done, examples.count)
    return Predicted(done, labelled, correct, examples.notes)


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
