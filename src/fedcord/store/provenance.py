"""What a run was made with, so that a figure can be traced."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = ("fedcord", "torch", "numpy", "scipy", "scikit-learn", "safetensors")


def provenance(
    *,
    config_hash: str,
    partition_hash: str,
    data_hash: str,
    threads: int,
    device: str,
    command: str,
    reuse: Path | None = None,
) -> dict[str, Any]:
    """Versions, machine, and the identity of configuration, partition and data."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "config_hash": config_hash,
        "partition_hash": partition_hash,
        "data_hash": data_hash,
        "threads": threads,
        "device": device,
        **({} if reuse is None else {"reuse": str(reuse.absolute())}),
        **_here(),
    }


def changes_since(origin: Mapping[str, Any], device: str) -> list[str]:
    """What of Python, the packages, the source and the device is another now than at the start."""
    before, now = _versions(origin), _versions({**_here(), "device": device})
    return [
        f"{name} {before[name]} → {now.get(name)}"
        for name in before
        if before[name] is not None and before[name] != now.get(name)
    ]


def _here() -> dict[str, Any]:
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": versions(),
        "commit": _commit(),
    }


def identity(origin: Mapping[str, Any]) -> dict[str, Any]:
    """What a result carries of its provenance: which data, which code."""
    packages = origin.get("packages", {})
    return {
        "data_hash": origin.get("data_hash"),
        "commit": origin.get("commit"),
        "versions": {
            "fedcord": packages.get("fedcord"),
            "torch": packages.get("torch"),
            "python": origin.get("python"),
        },
    }


def versions() -> dict[str, str | None]:
    """Of the packages that decide results."""
    return {name: _version(name) for name in PACKAGES}


def _versions(origin: Mapping[str, Any]) -> dict[str, str | None]:
    packages = origin.get("packages")
    known = dict(packages) if isinstance(packages, Mapping) else {}
    more = {name: origin.get(name) for name in ("commit", "device")}
    return {"python": origin.get("python"), **known, **more}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _commit() -> str | None:
    """The commit of the source this package runs from, when it runs from a checkout."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(here), "rev-parse", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
