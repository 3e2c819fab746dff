"""Studies by name: every table and figure we set ourselves against, at three scales.

A file in `fedcord/studies` holds one item of a paper: its parts (settings such as data set and
skew, each a comparison of its own), contenders, three scales and the published figures. A scale
changes settings and fills in *recipes*, the parameters that several contenders share, such as how
long clients train. A part may change a recipe for itself, and a contender's own parameters win over
its recipe's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedcord.core.errors import ConfigError, gather, unknown_name
from fedcord.core.params import build
from fedcord.core.toml import parse_toml
from fedcord.experiment.compare import Study, make_study
from fedcord.experiment.load import merged
from fedcord.experiment.tune_entry import TuneEntry
from fedcord.report.published import JUDGES, Published
from fedcord.store.plan_record import WrittenPlan
from fedcord.store.study_plan import StudyPlan

FILES = Path(__file__).parents[1] / "studies"
SCALES = ("smoke", "small", "paper")
"""Minutes on digits; an hour or two of two cores; the published setting, for a GPU."""
USUALLY_JUDGES = dict(zip(SCALES, JUDGES, strict=True))
ENTRIES = ("title", "source", "note", "metric", "settings", "parts", "contenders", "scales")
SCALE_ENTRIES = (
    *("seeds", "setting", "judges", "parts", "contenders", "settings", "recipes", "tune"),
    "plan",
)
WHOLE = "all"
"""The part of a study that has only one."""


@dataclass(frozen=True)
class Scale:
    """How large a study is run.

    Attributes:
        seeds: how many.
        setting: how it differs from the published one, in words.
        judges: what its runs can say about published figures; one of JUDGES.
        values: the file's table.
    """

    seeds: int
    setting: str
    judges: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class NamedStudy:
    """One item of a paper.

    Attributes:
        name: of the file.
        title: one line.
        source: which paper, which table or figure.
        note: what is different or missing, and why; may be empty.
        scales: by name.
        published: figures of the paper that we know.
        values: the file.
    """

    name: str
    title: str
    source: str
    note: str
    scales: Mapping[str, Scale]
    published: tuple[Published, ...]
    values: Mapping[str, Any]

    def studies(
        self,
        scale_name: str,
        overrides: Mapping[str, Any] = MappingProxyType({}),
        assignments: Sequence[str] = (),
    ) -> dict[str, Study]:
        """By part, what is to be compared at a scale.

        Args:
            scale_name: one of SCALES.
            overrides: settings, and `seeds`, that win over the file's.
            assignments: `--set` texts; those of one contender concern the parts that have it.
        """
        if scale_name not in SCALES:
            raise ConfigError(unknown_name("scale", scale_name, SCALES))
        scale = self.scales[scale_name]
        parts = self.values.get("parts", {WHOLE: {}})
        problems: list[str] = []
        found = {}
        for part in scale.values.get("parts", parts):
            with gather(problems):
                if part not in parts:
                    raise ConfigError(unknown_name("part", str(part), parts))
                found[part] = self._study(part, scale_name, overrides, assignments)
        if problems:
            raise ConfigError([f"study '{self.name}', {scale_name}: {text}" for text in problems])
        return found

    def _study(
        self, part: str, scale_name: str, overrides: Mapping[str, Any], assignments: Sequence[str]
    ) -> Study:
        scale = self.scales[scale_name].values
        own = dict(self.values.get("parts", {}).get(part, {}))
        labels = own.pop("contenders", list(self.values["contenders"]))
        recipes, changed = scale.get("recipes", {}), own.pop("recipes", {})
        strange = [unknown_name("recipe", name, recipes) for name in changed if name not in recipes]
        if strange:
            raise ConfigError(strange)
        recipes = merged(recipes, changed)
        chosen = scale.get("contenders", labels)
        settings = {**self.values.get("settings", {}), **own, **scale.get("settings", {})}
        settings |= overrides
        seeds = settings.pop("seeds", scale["seeds"])
        forms = {}
        for label in labels:
            if label not in self.values["contenders"]:
                raise ConfigError(unknown_name("contender", str(label), self.values["contenders"]))
            if label in chosen:
                form = dict(self.values["contenders"][label])
                recipe = form.pop("recipe", None)
                if recipe is not None:
                    if recipe not in recipes:
                        raise ConfigError(unknown_name("recipe", str(recipe), recipes))
                    form["params"] = merged(recipes[recipe], form.get("params", {}))
                forms[label] = form
        name = f"{self.name}-{scale_name}-{part}"
        metric = self.values.get("metric")
        elsewhere = tuple(f"{label}:" for label in self.values["contenders"] if label not in forms)
        texts = [text for text in assignments if not text.startswith(elsewhere)]
        study = make_study([], settings, seeds, texts, name, forms, metric)
        tune = TuneEntry.from_plain(scale["tune"]) if "tune" in scale else None
        if "plan" in scale:
            plan = StudyPlan.from_plain(scale["plan"])
            plan.check(study.contenders)
            table = ("scales", scale_name, "plan")
            study = replace(study, plan=WrittenPlan(plan, _file(self.name), table))
        return replace(study, tune=tune)


def names() -> list[str]:
    """All that can be reproduced, sorted."""
    return sorted(file.stem for file in FILES.glob("*.toml"))


def named_study(name: str) -> NamedStudy:
    """The study of that name, or an error that says which there are."""
    if name not in names():
        raise ConfigError(
            unknown_name("study", name, names()) + " `fedcord list studies` says what they are."
        )
    return read(name, _file(name).read_text(encoding="utf-8"))


def _file(name: str) -> Path:
    return FILES / f"{name}.toml"


def read(name: str, text: str) -> NamedStudy:
    """A study from the text of its file; what is wrong with it is one ConfigError."""
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"study '{name}' is not TOML: {error}.") from error
    strange = sorted(values.keys() - {*ENTRIES, "published"})
    lacking = [key for key in ("title", "source", "contenders", "scales") if key not in values]
    problems = [f"unknown entry '{key}'; allowed: {', '.join(ENTRIES)}." for key in strange]
    problems += [f"has no {key}." for key in lacking]
    scales = {}
    for scale in SCALES:
        given = values.get("scales", {}).get(scale, {})
        problems += [
            f"[scales.{scale}]: unknown entry '{key}'; allowed: {', '.join(SCALE_ENTRIES)}."
            for key in sorted(given.keys() - set(SCALE_ENTRIES))
        ]
        judges = given.get("judges", USUALLY_JUDGES[scale])
        if judges not in JUDGES:
            problems.append(f"[scales.{scale}]: {unknown_name('judges', str(judges), JUDGES)}")
        if not isinstance(given.get("seeds"), int) or not given.get("setting"):
            problems.append(f"[scales.{scale}] needs seeds and setting.")
        else:
            scales[scale] = Scale(given["seeds"], given["setting"], judges, given)
    published = []
    for entry in values.get("published", []):
        with gather(problems):
            figure: Published = build(Published, entry)
            problems += _unknown_places(figure, values)
            published.append(figure)
    if problems:
        raise ConfigError([f"study '{name}': {problem}" for problem in problems])
    return NamedStudy(
        name,
        values["title"],
        values["source"],
        values.get("note", "").strip(),
        MappingProxyType(scales),
        tuple(published),
        MappingProxyType(values),
    )


def _unknown_places(figure: Published, values: Mapping[str, Any]) -> list[str]:
    """A figure of a part or method that the file does not have would never find its runs."""
    parts, labels = values.get("parts", {WHOLE: {}}), values.get("contenders", {})
    problems = [] if figure.part in parts else [unknown_name("part", figure.part, parts)]
    for label in filter(None, (figure.contender, figure.against)):
        if label not in labels:
            problems.append(unknown_name("contender", label, labels))
    return problems
