"""Every number a comparison can be about: its name, its words, and which way is better.

Imports nothing heavy, so that commands can check a name and reports can write a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedcord.core.errors import ConfigError, unknown_name

Chance = Callable[[Sequence[int]], float]
"""From [C] test examples per class to what answers that know nothing reach."""

DEFAULT = "accuracy"


@dataclass(frozen=True)
class Metric:
    """A number that can be compared.

    Attributes:
        name: on the command line and in files.
        words: in sentences and headings.
        says: what it says, in one sentence.
        is_higher_better: otherwise lower is.
        is_share: from 0 to 1 and written in percent; otherwise a plain number.
        needs_scores: computed from histograms of scores, which are only made where asked for.
        over_clients: of clients' own test parts, not of the common test.
        chance: what guessing reaches; None where there is no such level.
    """

    name: str
    words: str
    says: str
    is_higher_better: bool = True
    is_share: bool = True
    needs_scores: bool = False
    over_clients: bool = False
    chance: Chance | None = None

    @property
    def sign(self) -> int:
        """1 where a positive difference is a gain, -1 where it is a loss."""
        return 1 if self.is_higher_better else -1

    @property
    def title(self) -> str:
        """Its words at the beginning of a sentence."""
        return self.words[:1].upper() + self.words[1:]

    @property
    def unit(self) -> str:
        """What stands behind its number in a heading."""
        return "%" if self.is_share else ""


def _one_in_all(counts: Sequence[int]) -> float:
    return 1 / len(counts)


def _one_in_present(counts: Sequence[int]) -> float:
    return 1 / sum(count > 0 for count in counts)


def _precision_of_guessing(counts: Sequence[int]) -> float:
    """The share of the positive class; over all classes of several, these shares have one mean."""
    return counts[1] / sum(counts) if len(counts) == 2 else _one_in_present(counts)


METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            DEFAULT,
            "accuracy",
            "The share of test examples that are answered correctly.",
            chance=_one_in_all,
        ),
        Metric(
            "balanced_accuracy",
            "balanced accuracy",
            "The mean over classes of the share of each that is recognised (recall).",
            chance=_one_in_present,
        ),
        Metric(
            "macro_precision",
            "macro precision",
            "The mean over classes of the share of its answers that are right.",
        ),
        Metric(
            "macro_f1",
            "macro F1",
            "The mean over classes of F1, the harmonic mean of precision and recall.",
        ),
        Metric(
            "auroc",
            "AUROC",
            "How often a random example of a class gets a higher probability of that class than a "
            "random other example; the mean over classes, each against the rest.",
            needs_scores=True,
            chance=lambda counts: 0.5,
        ),
        Metric(
            "average_precision",
            "average precision",
            "The area under precision over recall: of the second class of two, else the mean over "
            "classes, each against the rest.",
            needs_scores=True,
            chance=_precision_of_guessing,
        ),
        Metric(
            "log_loss",
            "log-loss",
            "The mean of -ln of the probability given to the right class.",
            is_higher_better=False,
            is_share=False,
            chance=lambda counts: math.log(len(counts)),
        ),
        Metric(
            "calibration_error",
            "calibration error",
            "How far the probability of the answer is from how often it is right, in 15 bins of "
            "that probability, weighted by their examples.",
            is_higher_better=False,
        ),
        Metric(
            "client_accuracy",
            "mean accuracy over clients",
            "The mean over clients of the accuracy on their own test parts.",
            over_clients=True,
        ),
        Metric(
            "worst_client",
            "accuracy of the worst client",
            "The lowest accuracy of any client on its own test part.",
            over_clients=True,
        ),
        Metric(
            "client_deviation",
            "standard deviation over clients",
            "How much clients' accuracies on their own test parts differ.",
            is_higher_better=False,
            over_clients=True,
        ),
    )
}


def metric_problems(name: object) -> list[str]:
    """What is wrong with the choice of a metric."""
    if isinstance(name, str) and name in METRICS:
        return []
    return [unknown_name("metric", str(name), METRICS)]


def find_metric(name: str) -> Metric:
    """The metric of that name, or a ConfigError with the nearest names."""
    problems = metric_problems(name)
    if problems:
        raise ConfigError(problems)
    return METRICS[name]
