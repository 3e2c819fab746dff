"""Hyper-parameters as checked dataclass fields.

A configurable object is a frozen dataclass whose fields are made by `param`, which records the
allowed range next to the default. `build` makes one from plain values (TOML, `--set`), and reports
every mistake at once.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fedcord.core.errors import ConfigError, gather, shown, unknown_name
from fedcord.core.names import is_plain, is_text
from fedcord.core.space import LINEAR, Space

T = TypeVar("T")

NONE = "none"
"""How None is written in files and on the command line."""
LARGEST = 2**63 - 1
"""What counters, files and tensors can hold; a larger whole number is a mistake everywhere."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Allowed values of a parameter, with the sentence that explains it."""

    doc: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] | None = None
    space: Space | None = None
    is_tuned: bool = True
    is_unwritten: bool = False
    named_by: tuple[str, Callable[[str], Any]] | None = None

    def describe(self) -> str:
        """The allowed values in words, empty when anything of the type is allowed."""
        parts = [
            f"{word} {limit:g}"
            for word, limit in (
                (">", self.above),
                (">=", self.at_least),
                ("<", self.below),
                ("<=", self.at_most),
            )
            if limit is not None
        ]
        numbers = " and ".join(parts)
        if self.choices is None:
            return numbers
        words = ", ".join(self.choices)
        return f"a number {numbers}, or {words}" if numbers else f"one of {words}"

    def problem(self, value: object) -> str | None:
        """Why `value` is not allowed, or None."""
        if isinstance(value, tuple):
            return next((why for why in map(self.problem, value) if why is not None), None)
        if self.choices is not None and isinstance(value, str):
            return None if value in self.choices else f"must be {self.describe()}"
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if isinstance(value, int) and abs(value) > LARGEST:
            return f"must be at most {LARGEST}"
        if not math.isfinite(value):
            return "must be a finite number"
        inside = (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )
        if inside:
            return None
        # beside a word, "must be >= 0" is easily overread
        sign = " (it is negative)" if value < 0 and self.choices is not None else ""
        return f"must be {self.describe()}{sign}"


def param(
    default: Any,
    doc: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] | None = None,
    space: tuple[float, float] | tuple[float, float, str] | None = None,
    tuned: bool = True,
    unwritten: bool = False,
    named_by: tuple[str, Callable[[str], Any]] | None = None,
) -> Any:
    """A dataclass field with a default, a sentence, and the values it may take.

    Args:
        default: of the field; an instance of another such class is a part with fields of its own.
        doc: the sentence.
        above: allowed values are larger.
        at_least: allowed values are not smaller.
        below: allowed values are smaller.
        at_most: allowed values are not larger.
        choices: allowed words.
        space: (low, high) or (low, high, "log"): where tuning looks unless it is told otherwise.
            Leave it out where the value changes what a run costs, or is not worth a search.
        tuned: of a part, whether tuning looks for values of its fields.
        unwritten: whether files leave the field out at its default, as for one that was added to
            methods people have run: configurations from before keep their identity.
        named_by: of a part whose class another field decides, the name of that field, which holds a
            word, and what makes the part of a word with its usual values.
    """
    allowed = None if choices is None else tuple(choices)
    where = None if space is None else Space(space[0], space[1], *(space[2:] or (LINEAR,)))
    bounds = Bounds(
        doc, above, at_least, below, at_most, allowed, where, tuned, unwritten, named_by
    )
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return dataclasses.field(default_factory=lambda: default, metadata={"bounds": bounds})
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def check_params(instance: Any) -> None:
    """Raise one ConfigError naming every field whose value is not allowed."""
    problems = []
    for field in dataclasses.fields(instance):
        bounds = field.metadata.get("bounds")
        value = getattr(instance, field.name)
        why = bounds.problem(value) if isinstance(bounds, Bounds) else None
        if why is not None:
            problems.append(f"{type(instance).__name__}.{field.name} = {shown(value)}: {why}.")
    if problems:
        raise ConfigError(problems)


def build(cls: type[T], values: Mapping[str, Any], where: str = "", see: str = "") -> T:
    """Make a configurable dataclass from plain values, reporting every mistake at once.

    Args:
        cls: a dataclass whose fields are made by `param`; nested dataclasses are allowed.
        values: field name to value; nested dataclasses take a mapping, and what it does not name
            stays as in the field's default. "none" stands for None, which TOML lacks.
        where: dotted prefix used in messages.
        see: the command that lists the parameters, for messages.
    """
    instance, problems = _build(cls, values, where, {}, see)
    if problems:
        raise ConfigError(problems)
    assert instance is not None
    return instance


def conformed(instance: T, where: str = "") -> T:
    """`instance` itself if `build` would make it so, else one with its values converted.

    Raises:
        ConfigError: with every value that `build` would refuse.
    """
    assert dataclasses.is_dataclass(instance)
    hints = typing.get_type_hints(type(instance))
    problems: list[str] = []
    converted: dict[str, Any] = {}
    for field in dataclasses.fields(instance):
        value, label = getattr(instance, field.name), where + field.name
        usual = _usual_of(field, instance)
        if dataclasses.is_dataclass(usual):
            if type(value) is not type(usual):
                problems.append(
                    f"{label} is a {type(value).__name__}, but is written down as its values, from "
                    f"which a {type(usual).__name__} is made again; give one."
                )
                continue
            with gather(problems):
                converted[field.name] = conformed(value, label + ".")
            continue
        converted[field.name], why = _checked(field, value, hints[field.name])
        if why is not None:
            problems.append(f"{label} = {shown(value)}: {why}.")
    if problems:
        raise ConfigError(problems)
    # by how they are written: 1 equals 1.0, but makes another file and another hash
    changed = {k: v for k, v in converted.items() if repr(v) != repr(getattr(instance, k))}
    return dataclasses.replace(instance, **changed) if changed else instance  # type: ignore[type-var]


def describe(
    cls: type[Any], prefix: str = "", usual: Any = None, tuned: bool = True
) -> list[tuple[str, str, str, str]]:
    """Rows (dotted name, default, allowed, sentence) for every parameter of `cls`.

    Args:
        cls: a configurable dataclass.
        prefix: of the names.
        usual: an instance with the defaults where they are not those of the class.
        tuned: whether to say where tuning looks, of those it looks for.
    """
    rows = []
    for field in sorted(dataclasses.fields(cls), key=lambda f: f.kw_only is True):  # as called
        default = _default(field) if usual is None else getattr(usual, field.name)
        name = prefix + field.name
        bounds = field.metadata.get("bounds")
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            inner = tuned and (not isinstance(bounds, Bounds) or bounds.is_tuned)
            rows += describe(type(default), name + ".", default, inner)
        elif isinstance(bounds, Bounds):
            where = f"; tuned over {bounds.space}" if bounds.space is not None and tuned else ""
            rows.append((name, repr(default), bounds.describe(), bounds.doc + where))
    return rows


def declared_spaces(instance: Any, prefix: str = "") -> dict[str, Space]:
    """Dotted names of the parameters that tuning looks for by itself, and where."""
    found: dict[str, Space] = {}
    for field in dataclasses.fields(instance):
        bounds, value = field.metadata.get("bounds"), getattr(instance, field.name)
        if not isinstance(bounds, Bounds) or not bounds.is_tuned:
            continue
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found |= declared_spaces(value, f"{prefix}{field.name}.")
        elif bounds.space is not None:
            found[prefix + field.name] = bounds.space
    return found


def value_of(instance: Any, name: str) -> Any:
    """The value of a parameter by its dotted name."""
    for part in name.split("."):
        instance = getattr(instance, part)
    return instance


def parameters_like(cls: type[Any], name: str) -> list[str]:
    """Dotted names of the parameters that someone who writes `name` may mean: it or its last part.

    Dashes stand for underscores, as in flags.
    """
    wanted = name.replace("-", "_")
    known = [row[0] for row in describe(cls)]
    return [own for own in known if own == wanted or own.endswith(f".{wanted}")]


def plain(instance: Any, default: Any = None) -> dict[str, Any]:
    """The inverse of `build`: nested plain values that TOML and JSON can hold.

    None is left out where it is the default, else it is written as "none". So is, at its default,
    a field that asks for it.

    Args:
        instance: a configurable dataclass.
        default: the instance that stands in its place by default; that of its class if not given.
    """
    out: dict[str, Any] = {}
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        is_own = default is None or naming_of(field) is not None
        usual = _usual_of(field, instance) if is_own else getattr(default, field.name)
        if value is None:
            if usual is not None:
                out[field.name] = NONE
            continue
        bounds = field.metadata.get("bounds")
        if isinstance(bounds, Bounds) and bounds.is_unwritten and value == usual:
            continue
        nested = dataclasses.is_dataclass(value) and not isinstance(value, type)
        out[field.name] = plain(value, usual) if nested else value
    return out


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None


def naming_of(field: dataclasses.Field[Any]) -> tuple[str, Callable[[str], Any]] | None:
    """The field that names this part's class, and what makes the part of its word."""
    bounds = field.metadata.get("bounds")
    return bounds.named_by if isinstance(bounds, Bounds) else None


def _usual_of(field: dataclasses.Field[Any], instance: Any) -> Any:
    """What stands in a field by default, next to the values that `instance` has."""
    naming = naming_of(field)
    if naming is None:
        return _default(field)
    by, make = naming
    return make(getattr(instance, by))


def _build(
    cls: type[T], values: Mapping[str, Any], where: str, usual: Mapping[str, Any], see: str
) -> tuple[T | None, list[str]]:
    """An instance or what is wrong; `usual` has the fields that are not named in `values`."""
    assert dataclasses.is_dataclass(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    problems: list[str] = []
    chosen: dict[str, Any] = dict(usual)
    unknown: set[str] = set()  # parts whose class is not known
    for name, field in fields.items():
        naming = naming_of(field)
        if naming is not None and (naming[0] in values or name not in chosen):
            by, make = naming
            found: list[str] = []
            with gather(found):
                chosen[name] = make(str(values.get(by, _default(fields[by]))))
            problems += [f"{where}{by}: {why}" for why in found]
            unknown |= {name} if found else set()
    for name, value in values.items():
        label = where + name
        if name in unknown:
            continue
        if name not in fields:
            known = [row[0] for row in describe(cls, where)]
            problems.append(unknown_name("parameter", label, known, see))
            continue
        default = _default(fields[name])
        if dataclasses.is_dataclass(default) and isinstance(value, Mapping):
            part = chosen.get(name, default)
            own = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
            nested, more = _build(type(part), value, label + ".", own, see)
            problems += more
            chosen[name] = nested
            continue
        hint = hints[name] if naming_of(fields[name]) is None else type(chosen[name])
        chosen[name], why = _checked(fields[name], value, hint)
        if why is not None:
            problems.append(f"{label} = {shown(value)}: {why}.")
    if problems:
        return None, problems
    try:
        return cls(**chosen), []
    except ConfigError as error:  # rules that involve several fields
        return None, [where + problem for problem in error.problems]


def _checked(field: dataclasses.Field[Any], value: Any, hint: Any) -> tuple[Any, str | None]:
    """`value` as the field's type, and why it is not allowed there, if so."""
    converted, why = _convert(value, hint)
    bounds = field.metadata.get("bounds")
    if not isinstance(bounds, Bounds):
        return converted, why
    if why is None:
        why = bounds.problem(converted)
    elif bounds.choices is not None and not isinstance(value, str):
        # the type alone would not say what to write
        why = f"must be {bounds.describe()}"
    return converted, why


def _convert(value: Any, hint: Any) -> tuple[Any, str | None]:
    """`value` as the annotated type, or the reason why it is not one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value in (None, NONE) and type(None) in options:
            return None, None
        tried = [_convert(value, option) for option in options if option is not type(None)]
        fits = [result for result in tried if result[1] is None]
        return fits[0] if fits else tried[0]
    if typing.get_origin(hint) is typing.Literal:
        allowed = typing.get_args(hint)
        return value, None if value in allowed else "must be one of " + ", ".join(map(str, allowed))
    if typing.get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        inner = typing.get_args(hint)[0]
        parts = [_convert(part, inner) for part in value]
        wrong = [why for _, why in parts if why is not None]
        return tuple(part for part, _ in parts), wrong[0] if wrong else None
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value), None
        except OverflowError:
            return value, "must be a finite number"
    if hint is str and isinstance(value, str) and not is_text(value):
        return value, (
            "it holds bytes that are not UTF-8, which no configuration file can store; rename the "
            "file or folder that has them"
        )
    if hint is str and isinstance(value, str) and not is_plain(value):
        return value, "must be text without line breaks and other control characters"
    if isinstance(hint, type) and isinstance(value, hint):
        if isinstance(value, bool) and hint is not bool:
            return value, f"must be of type {hint.__name__}, not true/false"
        return value, None
    if dataclasses.is_dataclass(hint):
        names = ", ".join(field.name for field in dataclasses.fields(hint))
        return value, f"must be a table of its parts ({names})"
    expected = getattr(hint, "__name__", str(hint))
    return value, f"must be of type {expected}, not {type(value).__name__}"
