"""TOML as files and single values are written in it, with one kind of error."""

from __future__ import annotations

import tomllib
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text; whatever is wrong with it is a ValueError.

    Python's reader also gives up on deep nesting, with an error that is not about the text.
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def parse_value(text: str) -> Any:
    """A value written as in TOML; anything else is a word.

    >>> parse_value("0.1"), parse_value("adam"), parse_value("[1, 2]")
    (0.1, 'adam', [1, 2])
    """
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text.strip()
    # more lines or a comment were not meant to vanish
    is_whole = "\n" not in text and (isinstance(value, str | list | dict) or "#" not in text)
    return value if is_whole else text
