"""What the committed studies measured, as `studies/make_evidence.py` gathered it.

`evidence.json` lies beside this file. Every row names the page and the heading its figures stand
under; nothing in it was typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from fedcord.advice.measures import Measures

On = Literal["common", "own"]
"""Tested on the common test set, or on what each client keeps of its own data."""


@dataclass(frozen=True)
class Figure:
    """An accuracy in per cent with its 95 % interval, where the page has one."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Setting:
    """One partition of one data set, with its seeds."""

    name: str
    dataset: str
    partition: str
    longtail: float
    seeds: int
    measures: Measures

    @property
    def words(self) -> str:
        """For people."""
        tail = "" if self.longtail == 1 else f", long tail {self.longtail:g}"
        return (
            f"{self.dataset}, {self.measures.examples:,} examples, {self.measures.clients} "
            f"clients, {self.partition.partition(',')[0]}{tail}"
        )


@dataclass(frozen=True)
class Form:
    """A method as somebody could use it: the algorithm and the parameters that make the form.

    Attributes:
        algorithm: its name in the registry.
        params: beside defaults and training settings, by dotted name.
        published: the published encoder it builds on; None: it needs none.
    """

    algorithm: str
    params: tuple[tuple[str, Any], ...]
    published: str | None

    @property
    def is_untrained(self) -> bool:
        """Whether its encoders are as they were drawn: a control, of what training is worth."""
        return ("training", "random") in self.params

    @property
    def words(self) -> str:
        """For people."""
        made = ", ".join(f"{name}={value}" for name, value in self.params)
        encoder = f" on {self.published}" if self.published else ""
        return self.algorithm + (f" ({made})" if made else "") + encoder


@dataclass(frozen=True)
class Measured:
    """One method in one setting.

    Attributes:
        setting: its name.
        label: what the page calls the method.
        form: what it is.
        model: networks of the clients, in turn.
        exchanges: rounds in which clients send something.
        masked: whether masks can hide updates in all its exchanges, in part of them or in none.
        bytes: of the whole run, all clients; None where the page has no such column.
        figures: by what it was tested on.
        source: page and heading.
    """

    setting: str
    label: str
    form: Form
    model: tuple[str, ...]
    exchanges: int
    masked: Literal["all", "part", "none"]
    bytes: int | None
    figures: Mapping[On, Figure]
    source: str


@dataclass(frozen=True)
class Comparison:
    """A paired difference in points: `label` minus `versus`, over all of `settings`.

    `p` is corrected for the comparisons of its table (Holm); None where the page has none for
    this difference.
    """

    settings: tuple[str, ...]
    on: On
    label: str
    versus: str
    points: float
    low: float
    high: float
    p: float | None
    source: str

    def reversed(self) -> Comparison:
        """The same, seen from the other method."""
        return Comparison(
            self.settings,
            self.on,
            self.versus,
            self.label,
            -self.points,
            -self.high,
            -self.low,
            self.p,
            self.source,
        )

    @property
    def is_shown(self) -> bool:
        """Whether the difference is beyond what seeds do; corrected where the page corrects.

        Pages round p, and what they write as 0.050 may be above it.
        """
        return self.low > 0 and (self.p is None or self.p < 0.05)


@dataclass(frozen=True)
class Evidence:
    """All of it."""

    settings: Mapping[str, Setting]
    methods: tuple[Measured, ...]
    comparisons: tuple[Comparison, ...]

    def data_sets(self, one: Comparison) -> list[str]:
        """That a comparison is the mean of."""
        return sorted({self.settings[name].dataset for name in one.settings})


def load_evidence() -> Evidence:
    """The table that ships with the package."""
    text = files("fedcord.advice").joinpath("evidence.json").read_text(encoding="utf-8")
    return evidence_from(json.loads(text))


def evidence_from(values: Mapping[str, Any]) -> Evidence:
    """The table from its plain form."""
    settings = {
        row["name"]: Setting(
            row["name"],
            row["dataset"],
            row["partition"],
            row["longtail"],
            row["seeds"],
            Measures(**row["measures"]),
        )
        for row in values["settings"]
    }
    comparisons = tuple(
        Comparison(**{**row, "settings": tuple(row["settings"])}) for row in values["comparisons"]
    )
    return Evidence(settings, tuple(map(_measured, values["methods"])), comparisons)


def _measured(row: Mapping[str, Any]) -> Measured:
    figures: dict[On, Figure] = {}
    if "common" in row:
        figures["common"] = Figure(*row["common"])
    if "own" in row:
        figures["own"] = Figure(*row["own"])
    return Measured(
        row["setting"],
        row["label"],
        Form(row["algorithm"], tuple(sorted(row.get("params", {}).items())), row.get("published")),
        tuple(row["model"]),
        row["exchanges"],
        row["masked"],
        row.get("bytes"),
        figures,
        row["source"],
    )
