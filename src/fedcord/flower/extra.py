"""Flower is an extra: whoever needs it says so, and what to install."""

from __future__ import annotations

import importlib.util

from fedcord.core.errors import ConfigError


def require_flower() -> None:
    """Refuse to go on without Flower."""
    _require("flwr", "Flower")


def require_simulation() -> None:
    """Refuse to go on without Flower and Ray, which its simulation engine computes with."""
    _require("flwr", "Flower")
    _require("ray", "Flower's simulation engine", "flower-simulation")


def require_cryptography() -> None:
    """Refuse to go on without what keys and certificates are made by."""
    _require("cryptography", "making keys")


def _require(package: str, purpose: str, extra: str = "flower") -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"{purpose} needs the package '{package}', which is not installed; "
            f"install it with: pip install 'fedcord[{extra}]'"
        )
