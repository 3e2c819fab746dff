"""Whether the library that the primitives come from is installed."""

from __future__ import annotations

import importlib.util

from fedcord.core.errors import ConfigError

LIBRARY = "cryptography"


def check_available() -> None:
    """Refuse masked rounds where there is nothing to mask with, before anything is asked."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise ConfigError(
            f"masked sums (--secure) need the package {LIBRARY}, which is not installed here; "
            "install it with: pip install 'fedcord[secure]'."
        )
