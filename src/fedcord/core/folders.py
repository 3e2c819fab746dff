"""Where data sets and weights are looked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedcord.core.errors import ConfigError, shown

ENVIRONMENT = "FEDCORD_DATA"
CACHE = "~/.cache/fedcord/data"


def data_folders(given: Sequence[str | Path] | None = None) -> tuple[Path, ...]:
    """The folders in the order they are searched.

    `given` if there are any, else the environment variable FEDCORD_DATA (a list of folders like
    PATH), else the user's cache folder. A user without a home has none: built-in data needs none.
    """
    listed = [item.strip() for item in os.environ.get(ENVIRONMENT, "").split(os.pathsep)]
    named = given or list(filter(None, listed))
    if named:
        return tuple(user_path(folder) for folder in named)
    try:
        return (Path(CACHE).expanduser(),)
    except RuntimeError:
        return ()


def user_path(text: str | Path) -> Path:
    """A path as a person writes it, where `~` is the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"'{text}': the home folder it starts with is not known ({error}); write the whole "
            "path."
        ) from error
    except ValueError as error:  # of a name with a NUL, which no file can have
        raise ConfigError(f"{shown(str(text))}: cannot be a path ({error}).") from error
