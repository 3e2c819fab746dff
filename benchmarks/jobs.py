"""A study of six methods and three seeds, one run at a time and two at a time.

    python benchmarks/jobs.py [--rounds 20] [--jobs 2]

Says how long each took and their ratio, and fails if any state differs in a bit. It wants the
machine to itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHODS = ("fedavg", "fedprox", "moon", "fedproto", "afl", "fedavg-oneshot")
SEEDS = 3


def timed(root: Path, jobs: int, rounds: int) -> tuple[float, dict[str, str]]:
    """Seconds of the whole command, report included, and every run's final state."""
    words = ["compare", *METHODS, "--seeds", str(SEEDS), "--rounds", str(rounds), "--clients", "10"]
    words += ["--dataset", "digits", "--model", "mlp:200", "--jobs", str(jobs), "--out", str(root)]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "fedcord.cli.main", *words, "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    results = sorted(root.glob("*/*/result.json"))
    assert len(results) == len(METHODS) * SEEDS
    states = {str(p.relative_to(root)): json.loads(p.read_text())["state_hash"] for p in results}
    return seconds, states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, wanted = timed(Path(folder) / "one", 1, chosen.rounds)
        many, found = timed(Path(folder) / "many", chosen.jobs, chosen.rounds)
    assert found == wanted, "the bits differ"
    print(f"{len(METHODS)} methods × {SEEDS} seeds: --jobs 1 {one:.1f} s, ", end="")
    print(f"--jobs {chosen.jobs} {many:.1f} s, ratio {many / one:.2f}; equal bits")


if __name__ == "__main__":
    main()
