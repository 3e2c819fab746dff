"""Where a user's own algorithm, `module:Class`, is found."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def find_own_modules(names: Iterable[str]) -> None:
    """Let modules that the user names be found in the current folder, after everything installed.

    Call it with names that the user wrote, never with names from a run folder: results of others
    are read without running what lies beside them.
    """
    folder = str(Path.cwd())
    if any(":" in name for name in names) and folder not in sys.path:
        sys.path.append(folder)
