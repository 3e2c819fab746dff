"""Parsed files with typed access, whose errors name the file and say what to do."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.core.errors import CheckpointError
from fedcord.core.regular_files import read_regular

RERUN = "delete the folder and run it again, or leave it out of the report"


@dataclass(frozen=True)
class Fields:
    """Typed access to a parsed file, with errors that name it."""

    path: Path
    values: Mapping[str, Any]

    def wrong(self, key: str) -> CheckpointError:
        """The error for a key that is absent or of the wrong type."""
        state = "lacks" if key not in self.values else "has an unusable"
        return CheckpointError(f"{self.path} {state} '{key}'; {RERUN}.")

    def text(self, key: str) -> str:
        """A string."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.wrong(key)
        return value

    def whole(self, key: str) -> int:
        """A whole number."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key)
        return value

    def number(self, key: str) -> float:
        """A finite number."""
        value = self.number_or_none(key)
        if value is None:
            raise self.wrong(key)
        return value

    def number_or_none(self, key: str) -> float | None:
        """A missing, null or non-finite number is None: nothing was measured."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(key)
        return float(value) if math.isfinite(value) else None

    def numbers(self, key: str) -> tuple[float, ...]:
        """The measured ones of a list; empty when absent."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.wrong(key)
        entries = {str(index): entry for index, entry in enumerate(value)}
        return tuple(Fields(self.path, {key: entries}).table_of_numbers(key).values())

    def table_of_numbers(self, key: str) -> dict[str, float]:
        """The measured ones of a table; empty when absent."""
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(key)
        inner = Fields(self.path, value)
        found = {str(name): inner.number_or_none(name) for name in value}
        return {name: number for name, number in found.items() if number is not None}


def read_text(path: Path) -> str:
    """The file's text, or an error that names the file."""
    try:
        return read_regular(path).decode()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing; {RERUN}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); {RERUN}.") from error


def read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file."""
    try:
        values = json.loads(read_text(path))
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON ({error}); {RERUN}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is not a JSON object; {RERUN}.")
    return values


def read_toml(path: Path) -> Mapping[str, Any]:
    """The TOML table in a file."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CheckpointError(f"{path} is not TOML ({error}); {RERUN}.") from error
