"""The text form of a partition: `name[:argument][,key=value]…`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NEXT_OPTION = re.compile(r",(?=\s*[A-Za-z_][A-Za-z_0-9]*\s*=)")


@dataclass(frozen=True)
class PartitionText:
    """A partition's text taken apart, before anything is known about the name.

    Attributes:
        name: what stands before the colon or the first option.
        argument: what follows the colon, or None; it may hold commas and colons, as paths do.
        options: the values as written.
        repeated: options that were given more than once.
    """

    name: str
    argument: str | None
    options: Mapping[str, str]
    repeated: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> PartitionText:
        """Take `text` apart.

        >>> PartitionText.parse("dirichlet:0.1,min=10").options
        {'min': '10'}
        """
        head, *rest = _NEXT_OPTION.split(text)
        name, colon, argument = head.partition(":")
        options: dict[str, str] = {}
        repeated = []
        for item in rest:
            key, _, value = (part.strip() for part in item.partition("="))
            if key in options:
                repeated.append(key)
            options[key] = value
        return cls(name.strip(), argument.strip() if colon else None, options, tuple(repeated))


def value_of(text: str) -> bool | int | float | str:
    """The plain value a text stands for."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def text_of(value: object) -> str:
    """The inverse of `value_of`, with one spelling per value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
