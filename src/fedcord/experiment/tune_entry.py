"""The entry `[tune]` of a study file: what `--tune`, `--space` and `--search` say.

[tune]
trials = 8
space = { local.lr = "0.01:0.3:log", "fedprox:proximal_weight" = "0.001:1:log" }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedcord.core.errors import ConfigError, shown, unknown_name

SPACE = "[tune] space"
"""How messages call what flags call `--space`."""
FORM = '"LOW:HIGH", "LOW:HIGH:log", or a list of values'


@dataclass(frozen=True)
class TuneEntry:
    """What a study says of its tuning; `plan_tuning` judges whether it makes sense.

    Attributes:
        trials: of every contender.
        space: as texts of `--space`; none: what algorithms declare.
        search: how trials are proposed; None: as usual.
    """

    trials: object
    space: tuple[str, ...] = ()
    search: str | None = None

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> TuneEntry:
        """From a study file, or one ConfigError with every mistake."""
        names = [field.name for field in fields(TuneEntry)]
        problems = [
            unknown_name("entry of [tune]", str(name), names)
            for name in values
            if name not in names
        ]
        if "trials" not in values:
            problems.append("[tune] needs trials, how many every contender gets, such as 8.")
        search, space = values.get("search"), values.get("space", {})
        if search is not None and not isinstance(search, str):
            problems.append(f"[tune] search = {shown(search)}: must be a word, in quotes.")
        texts = []
        if not isinstance(space, Mapping):
            problems.append(f"{SPACE} = {shown(space)}: must be a table of parameters.")
        else:
            for name, value in _flat(space):
                if not _is_space(value):
                    problems.append(f"{SPACE} {name} = {shown(value)}: must be {FORM}.")
                else:
                    texts.append(f"{name}={_written(value)}")
        if problems:
            raise ConfigError(problems)
        return TuneEntry(values["trials"], tuple(texts), search)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names: `local.lr = …` is a table in a table, unless the name is in quotes."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _is_space(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_choice(one) for one in value)
    return isinstance(value, str)


def _is_choice(value: object) -> bool:
    is_word = isinstance(value, str) and not set(value) & {",", ":"}
    return is_word or isinstance(value, int | float)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_written, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
