"""Parsed files with typed access, whose errors name the file and say what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.core.errors import CheckpointError
from fedcord.core.regular_files import read_regular
from fedcord.core.toml import parse_toml

RERUN = "delete the folder and run it again, or leave it out of the report"
LARGEST = 2**63
"""No count that a run writes reaches this; what does is damage, and would overflow in a mean."""


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

    def text_or_none(self, key: str) -> str | None:
        """A string; None where it is missing or null."""
        return None if self.values.get(key) is None else self.text(key)

    def whole(self, key: str) -> int:
        """A whole number that is not negative."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
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
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise self.wrong(key)
        return float(value) if math.isfinite(value) else None

    def share(self, key: str) -> float:
        """A number from 0 to 1."""
        value = self.share_or_none(key)
        if value is None:
            raise self.wrong(key)
        return value

    def share_or_none(self, key: str) -> float | None:
        """A number from 0 to 1; None where nothing was measured."""
        value = self.number_or_none(key)
        if value is not None and not 0 <= value <= 1:
            raise self.wrong(key)
        return value

    def shares_or_none(self, key: str) -> tuple[float | None, ...]:
        """A list of shares, None where nothing was measured; empty when absent."""
        entries = self.entries(key)
        found = Fields(self.path, {key: dict(enumerate(entries))}).table_of_shares(key)
        return tuple(found.get(str(index)) for index in range(len(entries)))

    def table_of_shares(self, key: str) -> dict[str, float]:
        """The measured ones of a table; empty when absent."""
        value = self.table(key)
        inner = Fields(self.path, value)
        try:
            found = {str(name): inner.share_or_none(name) for name in value}
        except CheckpointError as error:
            raise self.wrong(key) from error
        return {name: number for name, number in found.items() if number is not None}

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty when absent."""
        entries = self.entries(key)
        if not all(isinstance(n, int) and 0 <= n < LARGEST for n in entries):
            raise self.wrong(key)
        return tuple(int(n) for n in entries)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty when absent."""
        entries = self.entries(key)
        if not all(isinstance(entry, str) for entry in entries):
            raise self.wrong(key)
        return tuple(entries)

    def entries(self, key: str) -> list[Any]:
        """A list of anything; empty when absent or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(key)
        return value or []

    def table(self, key: str) -> Mapping[str, Any]:
        """A table of anything; empty when absent or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(key)
        return value or {}


def read_text(path: Path) -> str:
    """The file's text, or an error that names the file."""
    if path.exists() and not path.is_file():  # reading a pipe or a device might never end
        raise CheckpointError(f"{path} is not a regular file; {RERUN}.")
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
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON ({error}); {RERUN}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is not a JSON object; {RERUN}.")
    return values


def read_toml(path: Path) -> Mapping[str, Any]:
    """The TOML table in a file."""
    try:
        return parse_toml(read_text(path))
    except ValueError as error:
        raise CheckpointError(f"{path} is not TOML ({error}); {RERUN}.") from error
