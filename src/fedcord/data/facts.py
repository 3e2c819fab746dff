"""What a task needs to know of data: its form and its constants, and no example.

A simulation takes the facts from the data set it loads. A server whose data lies at sites is told
them by the study or by a survey, and every site compares its own with what was agreed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from fedcord.core.errors import ConfigError, DataError, shown, unknown_name
from fedcord.core.params import LARGEST
from fedcord.data.dataset import SCALES, STANDARD, Dataset, Kind, Scale
from fedcord.data.grey_range import GreyRange
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.vocabulary import Vocabulary

FORM = ("kind", "input_shape", "scale")
"""What must be the same everywhere. Classes are compared by name, tokens by the largest, and
constants are computed."""


COMPUTED = ("mean", "std", "preparation", "words", "grey")
"""What clients' examples decide, and no study says."""


@dataclass(frozen=True)
class DataFacts:
    """The form of examples, the classes, and the constants they are prepared by.

    Attributes:
        kind: what the inputs are.
        input_shape: of one input.
        class_names: one per class, in the order of labels.
        vocabulary: for text, the size of the token table.
        scale: for vectors, whether features are standardised.
        mean: per channel of images or feature of a standardised table; empty: not prepared so.
        std: likewise.
        preparation: for vectors that were a table, how they are made of it.
        words: for text, the words behind token ids; None where only their numbers are known.
        grey: for images that had more than 8 bits of grey, which values are black and white.
    """

    kind: Kind
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    vocabulary: int = 0
    scale: Scale = STANDARD
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    preparation: TablePreparation | None = None
    words: Vocabulary | None = None
    grey: GreyRange | None = None

    @staticmethod
    def of(dataset: Dataset) -> DataFacts:
        """Those of a data set; a table's constants are not known before it is dealt out."""
        return DataFacts(**{f.name: getattr(dataset, f.name) for f in fields(DataFacts)})

    @property
    def num_classes(self) -> int:
        """How many classes there are (C)."""
        return len(self.class_names)

    def prepared(self, table: TablePreparation) -> DataFacts:
        """Those of the vectors that a table becomes."""
        shape = (len(table.input_names),)
        return replace(self, kind="vector", input_shape=shape, preparation=table)

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; the inverse of `from_plain`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("preparation", "words", "grey"):
            values[name] = None if values[name] is None else values[name].to_json()
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> DataFacts:
        """What `plain` was made from, every value checked."""
        if not isinstance(values, Mapping):
            raise DataError(f"{shown(values)} are no facts of a task.")
        stated = Stated.from_plain({k: v for k, v in values.items() if k not in COMPUTED})
        if None in (stated.kind, stated.input_shape, stated.class_names, stated.vocabulary):
            raise DataError("the facts of a task lack its kind, shape, classes or vocabulary.")
        assert stated.kind is not None
        try:
            mean, std = (tuple(map(_number, values[name])) for name in ("mean", "std"))
            if len(mean) != len(std) or any(deviation <= 0 for deviation in std):
                raise ValueError("there is one positive deviation for every mean")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"the constants of a task cannot be used ({error}).") from error
        table, words, grey = (values.get(name) for name in ("preparation", "words", "grey"))
        known = None if words is None else Vocabulary.from_json(words)
        if known is not None and (known.size, (known.length,)) != (
            stated.vocabulary,
            stated.input_shape,
        ):
            raise DataError("the words of a task are not those of its token ids.")
        return DataFacts(
            stated.kind,
            stated.input_shape or (),
            stated.class_names or (),
            stated.vocabulary or 0,
            stated.scale or STANDARD,
            mean,
            std,
            None if table is None else TablePreparation.from_json(table),
            known,
            None if grey is None else GreyRange.from_json(grey),
        )


@dataclass(frozen=True)
class Stated:
    """What a study says of its task before anybody is asked; None where it leaves that open."""

    kind: Kind | None = None
    input_shape: tuple[int, ...] | None = None
    class_names: tuple[str, ...] | None = None
    vocabulary: int | None = None
    scale: Scale | None = None

    @staticmethod
    def of(facts: DataFacts) -> Stated:
        """What was agreed."""
        return Stated(**{field.name: getattr(facts, field.name) for field in fields(Stated)})

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Stated:
        """From a study's `[task]`, or one ConfigError with every mistake."""
        known = {field.name for field in fields(Stated)}
        problems = [
            unknown_name("entry of [task]", str(name), sorted(known))
            for name in values
            if name not in known
        ]
        found: dict[str, Any] = {}
        for name in known & values.keys():
            value = values[name]
            form, fits = _FORMS[name]
            if fits(value):
                found[name] = tuple(value) if isinstance(value, list | tuple) else value
            else:
                problems.append(f"[task] {name} = {shown(value)}: must be {form}.")
        if problems:
            raise ConfigError(problems)
        return Stated(**found)

    def differences(self, facts: DataFacts) -> list[str]:
        """In what data differs from what is stated, in words."""
        found = [
            f"{name.replace('_', ' ')} is {_shown(getattr(facts, name))} there, and the study has "
            f"{_shown(stated)}"
            for name in FORM
            if (stated := getattr(self, name)) is not None
            and stated != getattr(facts, name)
            and (name != "input_shape" or facts.kind != "table")  # it follows from all sites' words
        ]
        if self.vocabulary not in (None, facts.vocabulary) and facts.words is not None:
            found.append(
                f"texts are numbered by {facts.vocabulary} tokens there, and the study has "
                f"{self.vocabulary}"
            )
        elif self.vocabulary is not None and facts.vocabulary > self.vocabulary:
            found.append(
                f"token ids run to {facts.vocabulary - 1} there, and the study has "
                f"{self.vocabulary} tokens"
            )
        agreed = self.class_names
        strange = [] if agreed is None else [n for n in facts.class_names if n not in agreed]
        if strange:  # it may lack some
            found.append(
                f"class {', '.join(map(_shown, strange))} is not among the classes of the study "
                f"({', '.join(map(_shown, agreed or ()))})"
            )
        return found


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a number")
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    return float(value)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def _are(value: object, check: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(check, value))


def _are_names(value: object) -> bool:
    return _are(value, lambda name: isinstance(name, str)) and len(set(value)) == len(value)  # type: ignore[arg-type, call-overload]


_FORMS: Mapping[str, tuple[str, Any]] = {
    "kind": (f"one of {', '.join(get_args(Kind))}", lambda v: v in get_args(Kind)),
    "input_shape": (
        "a list of whole numbers from 1, such as [30] or [3, 32, 32]",
        lambda v: _are(v, lambda size: _is_whole(size, 1)),
    ),
    "class_names": ("a list of names, each once", _are_names),
    "vocabulary": ("a whole number from 0", lambda v: _is_whole(v, 0)),
    "scale": (f"one of {', '.join(SCALES)}", lambda v: v in SCALES),
}


def _shown(value: object) -> str:
    return shown(list(value) if isinstance(value, tuple) else value)
