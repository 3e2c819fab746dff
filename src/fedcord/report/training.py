"""Whether a method trained at all: a rival that did not says nothing about who is better.

The rule, for one run whose clients report a training loss (analytic methods report none, and are
not judged):

1. Its loss *exploded* if in any round it was not a finite number, or above 100 times the loss of
   guessing, ln C for C classes.
2. Its loss *never fell* if at least two rounds have one, no later loss is 1 % below the first, and
   the lowest is above half the loss of guessing. A loss that begins far below guessing need not
   fall: local training can be over within a round.
3. A run with one of these *did not train* if also its final test accuracy is at most two points, or
   two standard errors of a test set of that size, above that of always answering with the largest
   class: an untrained network's answers are not quite constant.

The first two alone are noted, since a method can recover from a bad start; the third is marked
wherever the method is compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcord.report.constant import ConstantAnswer, constant_answer
from fedcord.report.load import Run

EXPLODED = 100.0
"""Times the loss of guessing."""
FELL = 0.01
"""A loss has fallen when it is lower by this share of the first."""
LOW = 0.5
"""Below this share of the loss of guessing a loss need not fall any more."""
MARGIN = 0.02
"""Accuracies up to this above a constant answer's count as no better."""
STANDARD_ERRORS = 2.0
"""Likewise, where it is more."""

DID_NOT_TRAIN = "did not train"


@dataclass(frozen=True)
class Trouble:
    """What is wrong with the training of one run.

    Attributes:
        seed: of the run.
        words: what the loss did.
        is_untrained: whether the accuracy is that of a constant answer, too.
    """

    seed: int
    words: str
    is_untrained: bool


def training_trouble(run: Run) -> Trouble | None:
    """Judge one finished run; None where nothing is wrong or nothing is known."""
    floor = constant_answer(run)
    losses = {e.round: e.train_loss for e in run.metrics if e.train_loss is not None}
    if floor is None or run.result is None:
        return None
    words = loss_trouble(losses, floor.num_classes)
    if not words:
        return None
    return Trouble(run.seed, words, is_no_better(run.result.accuracy, floor))


def is_no_better(accuracy: float, floor: ConstantAnswer) -> bool:
    """Whether an accuracy is about that of a constant answer."""
    error = math.sqrt(floor.majority * (1 - floor.majority) / floor.num_examples)
    return accuracy <= floor.majority + max(MARGIN, STANDARD_ERRORS * error)


def loss_trouble(losses: dict[int, float], num_classes: int) -> str:
    """What is wrong with losses by round, in words; empty where nothing is."""
    guessing = math.log(max(num_classes, 2))
    for round_, loss in losses.items():
        if not math.isfinite(loss):
            return f"training loss was not finite in round {round_}"
        if loss > EXPLODED * guessing:
            return f"training loss exploded ({loss:.2g} in round {round_}, guessing {guessing:.2g})"
    first, *later = losses.values() or (0.0,)
    if later and min(later) > (1 - FELL) * first and min(first, *later) > LOW * guessing:
        lowest = min(later)
        return f"training loss never fell ({first:.3g} in the first round, later {lowest:.3g})"
    return ""


def untrained_seeds(runs: Sequence[Run]) -> tuple[int, ...]:
    """Seeds on which a method did not train."""
    found = [training_trouble(run) for run in runs]
    return tuple(own.seed for own in found if own is not None and own.is_untrained)
