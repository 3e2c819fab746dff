"""Where a report's files go."""

from __future__ import annotations

from pathlib import Path

from fedcord.core.atomic import remove_stale, write_atomically
from fedcord.core.errors import ConfigError


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; missing folders are made.

    Raises:
        ConfigError: when the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(path.parent)
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to."
        ) from error
