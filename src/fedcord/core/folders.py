"""Where data sets and weights are looked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ENVIRONMENT = "FEDCORD_DATA"
CACHE = "~/.cache/fedcord/data"


def data_folders(given: Sequence[str | Path] | None = None) -> tuple[Path, ...]:
    """The folders in the order they are searched.

    `given` if there are any, else the environment variable FEDCORD_DATA (a list of folders like
    PATH), else the user's cache folder.
    """
    listed = [item.strip() for item in os.environ.get(ENVIRONMENT, "").split(os.pathsep)]
    return tuple(Path(f).expanduser() for f in given or list(filter(None, listed)) or [CACHE])
