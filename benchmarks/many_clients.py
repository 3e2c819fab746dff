"""Ten thousand clients: what a visit costs beyond its training, and what a client costs in memory.

Usage: python benchmarks/many_clients.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from launch import watch
from tables import provenance, spread, table, verdict, write

OPTIMIZERS = ("sgd", "adam")
ENGINES = ("sequential", "processes")
TARGET_MS = 2.0


@dataclass(frozen=True)
class Crowd:
    """One run: seconds per visit in CPU time and on the clock, when few and when all take part."""

    cpu_few: float
    cpu_all: float
    wall_few: float
    wall_all: float
    peak_bytes: int
    data_bytes: int


def run_crowd(engine: str, optimizer: str, clients: int) -> Crowd:
    """In a fresh interpreter."""
    with tempfile.TemporaryDirectory() as private:
        command = [sys.executable, "-m", "contenders.crowd", engine, optimizer, str(clients)]
        text, peak = watch(command, 1, Path(private))
    found = json.loads(text)
    few, everyone = found["visits"]
    return Crowd(
        found["few"]["train_cpu"] / few,
        found["all"]["train_cpu"] / everyone,
        found["few"]["train_wall"] / few,
        found["all"]["train_wall"] / everyone,
        peak,
        found["data_bytes"],
    )


def visits_table(clients: int, repeats: int) -> str:
    """Cost of a visit by each engine against the bare loop, in one interleaved run."""
    runs: dict[tuple[str, str], list[Crowd]] = {}
    for _ in range(repeats):
        for optimizer in OPTIMIZERS:
            for engine in ("bare", *ENGINES):
                done = run_crowd(engine, optimizer, clients)
                runs.setdefault((engine, optimizer), []).append(done)
                print(f"{engine} {optimizer}: {1e3 * done.cpu_all:.2f} ms/visit", file=sys.stderr)
    rows = []
    for (engine, optimizer), done in runs.items():
        path = "one by one" if optimizer == "adam" or engine == "bare" else "stacked"
        rows.append(
            [
                f"{engine}, {optimizer} ({path})",
                spread([1e3 * run.cpu_few for run in done]),
                spread([1e3 * run.cpu_all for run in done]),
                spread([1e3 * run.wall_all for run in done]),
                spread([run.peak_bytes / 1e6 for run in done], 0),
            ]
        )
    header = ["engine", "CPU ms/visit, 1 %", "CPU ms/visit, all", "wall ms/visit, all", "peak MB"]
    verdicts = []
    for optimizer in OPTIMIZERS:
        bare = runs["bare", optimizer]
        for engine in ENGINES:
            for share, value in (("1 %", "cpu_few"), ("all", "cpu_all")):
                pairs = zip(runs[engine, optimizer], bare, strict=True)
                over = [1e3 * (getattr(a, value) - getattr(b, value)) for a, b in pairs]
                label = f"{engine}, {optimizer}, {share}: CPU ms beyond the bare loop"
                verdicts.append(verdict(label, over, TARGET_MS, at_most=True))
    targets = table(["target", "measured", "wanted", ""], verdicts)
    return f"{table(header, rows)}\n\n{targets}"


def memory_table(numbers: list[int], repeats: int) -> str:
    """Peak memory over the number of clients, and the slope of a straight line through it."""
    rows = []
    for engine in ENGINES:
        peaks, data = [], 0.0
        for clients in numbers:
            done = [run_crowd(engine, "sgd", clients) for _ in range(repeats)]
            peaks.append(median(run.peak_bytes for run in done))
            data = done[0].data_bytes / clients
        slope = float(np.polyfit(numbers, peaks, 1)[0])
        cells = [f"{peak / 1e6:,.0f}" for peak in peaks]
        rows.append([engine, *cells, f"{slope / 1e3:.1f}", f"{data / 1e3:.1f}"])
    header = ["engine", *[f"{n:,} clients, MB" for n in numbers]]
    return table([*header, "slope, kB per client", "its own data, kB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few clients, to see that it works")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="markdown file")
    given = parser.parse_args()
    numbers = [200, 400, 1000] if given.quick else [1000, 2500, 5000, 10_000]
    repeats = 1 if given.quick else given.repeats
    sections = [
        "# Many clients\n",
        "`synthetic`, 50 examples of 32 numbers per client, MLP 32-64-10, batch 32, one epoch; a "
        f"round with 1 % and one with all of {numbers[-1]:,} clients, evaluation not counted.\n",
        "## Cost of a visit\n",
        visits_table(numbers[-1], repeats) + "\n",
        "## Memory, all clients in a round\n",
        memory_table(numbers, 1) + "\n",
        "## How this was made\n",
        provenance(["benchmarks/many_clients.py", *sys.argv[1:]]),
    ]
    default = "many_clients_quick.md" if given.quick else "many_clients.md"
    write(given.out or Path(__file__).parent / "results" / default, "\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
