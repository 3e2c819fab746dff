"""Markdown with medians and ranges, and the facts without which figures mean little."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

from launch import PEERS_PYTHON


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`median (lowest–highest)`."""
    parts = [f"{value:,.{digits}f}" for value in (median(values), min(values), max(values))]
    return f"{parts[0]} ({parts[1]}–{parts[2]})" if len(values) > 1 else parts[0]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; all but the first column to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def verdict(
    name: str, values: Sequence[float], target: float, *, at_most: bool = False
) -> list[str]:
    """A row of the table of targets."""
    found = median(values)
    is_met = found <= target if at_most else found >= target
    sign = "≤" if at_most else "≥"
    return [name, spread(values), f"{sign} {target:g}", "met" if is_met else "**missed**"]


def provenance(command: Sequence[str]) -> str:
    """How the figures were made: command, date, versions, machine."""
    packages = [f"{name} {metadata.version(name)}" for name in ("torch", "numpy")]
    packages += _peers(("torch", "pfl", "flwr", "ray"))
    load = os.getloadavg()[0]
    return "\n".join(
        [
            f"- command: `python {' '.join(command)}`",
            f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; commit {_commit()}",
            f"- machine: {os.cpu_count()} cores, {_cpu()}, {_memory_gb():.0f} GB, "
            f"{platform.system()}; load average at the end {load:.1f}",
            f"- versions: Python {platform.python_version()}, {', '.join(packages)}",
        ]
    )


def write(path: Path, text: str) -> None:
    """In one go: a reader never sees half a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
    print(text)
    print(f"written to {path.name}", file=sys.stderr)


def _peers(names: Sequence[str]) -> list[str]:
    if not PEERS_PYTHON.exists():
        return []
    code = (
        "from importlib.metadata import version\n"
        f"print(*(f'{{n}} {{version(n)}}' for n in {tuple(names)}), sep=', ')"
    )
    done = subprocess.run([PEERS_PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return [f"peers' environment: {done.stdout.strip()}"] if done.returncode == 0 else []


def _commit() -> str:
    run = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    return done.stdout.strip() or "unknown"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
