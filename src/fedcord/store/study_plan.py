"""The plan of a study: what it asks and how it will be judged, written before it is run.

[plan]
question = "Is fedprox more accurate than fedavg at this skew?"
primary = ["fedprox - fedavg"]
seeds = [10, 11, 12, 13, 14]
stopping = "after these five seeds, whatever they show"
analysis = "paired by seed, 95 % Student-t interval"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedcord.core.errors import ConfigError, gather, shown, unknown_name
from fedcord.core.params import LARGEST

MINUS = " - "
BEST_OTHER = "best other"
"""In place of a contender: the best by mean of all but the one it is taken from."""
TEXTS = ("question", "stopping")


@dataclass(frozen=True)
class Comparison:
    """One contender minus another."""

    contender: str
    other: str

    @staticmethod
    def from_text(text: object) -> Comparison:
        """From `A - B`."""
        parts = text.split(MINUS) if isinstance(text, str) else []
        if len(parts) != 2 or not all(map(str.strip, parts)):
            raise ConfigError(
                f'[plan] primary = {shown(text)}: must be "A{MINUS}B", two contenders, or '
                f'"A{MINUS}{BEST_OTHER}".'
            )
        return Comparison(parts[0].strip(), parts[1].strip())

    def __str__(self) -> str:
        return f"{self.contender}{MINUS}{self.other}"


@dataclass(frozen=True)
class StudyPlan:
    """What was decided of a study.

    Attributes:
        question: that it answers.
        primary: the comparisons that answer it; all others are exploratory.
        seeds: that are run.
        stopping: when it ends.
        analysis: how it is judged; may be empty.
    """

    question: str
    primary: tuple[Comparison, ...]
    seeds: tuple[int, ...]
    stopping: str
    analysis: str = ""

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> StudyPlan:
        """From a file, or one ConfigError with every mistake."""
        names = [field.name for field in fields(StudyPlan)]
        problems = [
            unknown_name("entry of [plan]", str(name), names)
            for name in values
            if name not in names
        ]
        problems += [f"[plan] needs {name}." for name in names[:-1] if name not in values]
        for name in (*TEXTS, "analysis"):
            text = values.get(name, "-")
            if not isinstance(text, str) or not text.strip():
                problems.append(f"[plan] {name} = {shown(text)}: must be text, in quotes.")
        listed = values.get("primary", ["A - B"])
        primary: list[Comparison] = []
        if not isinstance(listed, list) or not listed:
            problems.append(f'[plan] primary = {shown(listed)}: must be a list, ["A - B"].')
        else:
            for text in listed:
                with gather(problems):
                    primary.append(Comparison.from_text(text))
        seeds = values.get("seeds", [0])
        if not isinstance(seeds, list) or not seeds or not all(map(_is_seed, seeds)):
            problems.append(f"[plan] seeds = {shown(seeds)}: must be a list of whole numbers.")
        elif len(set(seeds)) < len(seeds):
            problems.append(f"[plan] seeds = {shown(seeds)}: one is there twice.")
        if problems:
            raise ConfigError(problems)
        question, stopping, analysis = (
            " ".join(values.get(name, "").split()) for name in (*TEXTS, "analysis")
        )
        return StudyPlan(question, tuple(primary), tuple(sorted(seeds)), stopping, analysis)

    def to_plain(self) -> dict[str, Any]:
        """As `from_plain` reads it."""
        values = {
            "question": self.question,
            "primary": list(map(str, self.primary)),
            "seeds": list(self.seeds),
            "stopping": self.stopping,
        }
        return values if not self.analysis else {**values, "analysis": self.analysis}

    def check(self, contenders: Collection[str]) -> None:
        """A ConfigError where a comparison names what the study does not have."""
        problems = []
        for own in self.primary:
            named = (own.contender,) if own.other == BEST_OTHER else (own.contender, own.other)
            problems += [
                f"[plan] primary '{own}': {unknown_name('contender', label, contenders)}"
                for label in named
                if label not in contenders
            ]
        if problems:
            raise ConfigError(problems)


def _is_seed(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
