"""The text form of a model choice: `name[:argument][,key=value…]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedcord.core.errors import ConfigError

LONGEST_NUMBER = 19
"""Digits of what counters can hold."""


@dataclass(frozen=True)
class ModelSpec:
    """A parsed choice, not yet checked against the table of models."""

    name: str
    argument: str
    values: Mapping[str, int | float | str]


def parse_spec(text: str) -> ModelSpec:
    """Split a choice into its parts.

    The argument ends at the first comma; a value holds no comma, so neither can a file's path.

    >>> parse_spec("cnn:32-64,kernel=5")
    ModelSpec(name='cnn', argument='32-64', values={'kernel': 5})
    """
    head, _, rest = text.strip().partition(",")
    name, _, argument = head.partition(":")
    pieces = [piece for piece in rest.split(",") if piece] if rest else []
    if "=" in argument:  # frozen:file=weights.safetensors
        pieces.insert(0, argument)
        argument = ""
    values: dict[str, int | float | str] = {}
    for piece in pieces:
        key, equals, value = piece.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise ConfigError(
                f"model '{text}': '{piece}' is not key=value; "
                "the form is name[:argument][,key=value…], such as cnn:32-64,kernel=5."
            )
        values[key.strip()] = _literal(value.strip())
    return ModelSpec(name.strip(), argument.strip(), values)


def parse_sizes(text: str) -> tuple[int, ...] | None:
    """`100-50` as (100, 50); None when it is not whole numbers from 1 joined by dashes."""
    parts = text.split("-")
    is_number = (p.isascii() and p.isdigit() and len(p) < LONGEST_NUMBER for p in parts)
    if not all(is_number) or not all(int(part) > 0 for part in parts):
        return None
    return tuple(int(part) for part in parts)


def _literal(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
