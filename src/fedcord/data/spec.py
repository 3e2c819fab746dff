"""What a user writes to name a data set: `name`, `name?key=value&key=value`, or `csv:PATH`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote

from fedcord.core.errors import DataError, unknown_name
from fedcord.data.dataset import SCALES, Scale


def as_option(text: str) -> str:
    """A text as the value of an option: what divides options is escaped.

    >>> as_option("Blood & urine")
    'Blood %26 urine'
    """
    return "".join(f"%{ord(mark):02X}" if mark in "%&?," else mark for mark in text)


@dataclass(frozen=True)
class DatasetSpec:
    """A data set's name taken apart.

    Attributes:
        name: the registered name, or the prefix before a colon.
        path: what follows the colon; empty for registered names.
        options: the values after the question mark, as written.
    """

    name: str
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, prefixes: Iterable[str]) -> DatasetSpec:
        """Take `text` apart; only the given prefixes are followed by a path."""
        head, mark, query = text.rpartition("?")
        if not mark:
            head, query = text, ""
        options: dict[str, str] = {}
        for item in filter(None, query.split("&")):
            key, equals, value = item.partition("=")
            if not equals or not key or not value or key in options:
                raise DataError(
                    f"data set '{text}': '{item}' is not an option; write each once as key=value, "
                    "joined by '&', after a single '?'."
                )
            options[key] = value
        prefix, colon, path = head.partition(":")
        if colon and prefix in set(prefixes):
            if not path:
                raise DataError(f"data set '{text}': no path after '{prefix}:'; add one.")
            return cls(prefix, path, options)
        return cls(head, "", options)

    def check_options(self, allowed: Iterable[str]) -> None:
        """Refuse options that the data set does not have."""
        names = list(allowed)
        for key in self.options:
            if not names:
                raise DataError(f"data set '{self.name}' has no options, but '{key}' was given.")
            if key not in names:
                raise DataError(unknown_name(f"option of data set '{self.name}'", key, names))

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """The option `key` as a whole number between `low` and `high`."""
        text = self.options.get(key)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise DataError(
                f"data set '{self.name}': {key}={text} is not allowed; "
                f"give a whole number from {low} to {high}."
            )
        return value

    def choice(self, key: str, default: str, allowed: Iterable[str]) -> str:
        """The option `key` as one of a few words."""
        value = self.options.get(key, default)
        names = list(allowed)
        if value not in names:
            raise DataError(unknown_name(f"{key} of data set '{self.name}'", value, names))
        return value

    def text(self, key: str) -> str:
        """The option `key` as it was meant: `%26` stands for `&`; empty when it is not given."""
        return unquote(self.options.get(key, ""))

    def texts(self, key: str) -> tuple[str, ...]:
        """The option `key` as several texts, divided by commas; `%2C` stands for a comma."""
        return tuple(unquote(part) for part in self.options.get(key, "").split(",") if part)

    def scale(self, default: Scale) -> Scale:
        """How vectors are scaled (`?scale=`)."""
        return cast(Scale, self.choice("scale", default, SCALES))
