"""What real sites cost: a round over Flower's SuperLink and SuperNodes against a simulated one.

The same W1 rounds (see README.md) with 4 clients: `processes` with two workers, Flower's simulation
engine, and Flower's deployment on loopback. Bits are equal; the difference is the way there and
back. Usage: python benchmarks/deployment.py [--subset N] [--rounds R] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workload import BATCH_SIZE, LEARNING_RATE, MODELS, SEED

NODES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subset", type=int, default=6000, help="training images (default 6000)")
    parser.add_argument("--rounds", type=int, default=4, help="the first is not counted")
    parser.add_argument("--out", type=Path, default=None, help="markdown file")
    arguments = parser.parse_args()
    ways = {
        "fedcord processes, 2 workers": ["run", "fedavg", "--engine", "processes"],
        "Flower's simulation": ["flower", "simulate", "fedavg", "--nodes", str(NODES)],
        "Flower's deployment, 4 SuperNodes": ["flower", "run", "fedavg", "--nodes", str(NODES)],
    }
    lines = [
        "| way | round s, median (lowest, highest) | whole s | CPU-s in all |",
        "|---|---|---|---|",
    ]
    hashes = set()
    for title, words in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            rounds, whole, cpu, found = _measured(words, Path(folder), arguments)
        hashes.add(found)
        counted = rounds[1:] or rounds
        middle, low, high = statistics.median(counted), min(counted), max(counted)
        lines.append(
            f"| {title} | {middle:.2f} ({low:.2f}, {high:.2f}) | {whole:.1f} | {cpu:.1f} |"
        )
        print(lines[-1], flush=True)
    lines += ["", f"Different final states: {len(hashes)} (1: equal bits)."]
    print(lines[-1])
    if arguments.out is not None:
        arguments.out.write_text("\n".join(lines) + "\n")


def _measured(
    words: list[str], folder: Path, arguments: argparse.Namespace
) -> tuple[list[float], float, float, str]:
    """Seconds of every round, of the command, CPU seconds of it and its children, and the hash."""
    settings = {
        "--dataset": "mnist",
        "--partition": "dirichlet:0.1",
        "--clients": NODES,
        "--subset": arguments.subset,
        "--rounds": arguments.rounds,
        "--model": MODELS["W1"],
        "--seed": SEED,
        "--out": folder / "run",
    }
    command = [sys.executable, "-m", "fedcord.cli.main", *words]
    command += [str(word) for pair in settings.items() for word in pair]
    for name, value in {"lr": LEARNING_RATE, "batch_size": BATCH_SIZE, "epochs": 1}.items():
        command += ["--set", f"local.{name}={value}"]
    before, started = _children_seconds(), time.perf_counter()
    subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL, env=os.environ)
    whole, cpu = time.perf_counter() - started, _children_seconds() - before
    metrics = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    result = json.loads((folder / "run" / "result.json").read_text())
    return [json.loads(line)["seconds"] for line in metrics], whole, cpu, result["state_hash"]


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
