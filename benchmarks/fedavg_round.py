"""The cost of a round of federated averaging, here and elsewhere, in one interleaved run.

Usage: python benchmarks/fedavg_round.py [--quick] [--workloads W1 W2] [--fraction F] …
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from launch import (
    PEERS_PYTHON,
    Contender,
    ContenderFailedError,
    Run,
    busy_neighbour,
    run_contender,
)
from roofline import gflops
from tables import provenance, spread, table, verdict, write
from workload import SHAPES, Workload, write_workload

BARE = Contender("bare loop (fused SGD)", "bare_loop", "fused")
BARE_FOREACH = Contender("bare loop (autograd.grad + foreach)", "bare_loop", "foreach")
BARE_TWO = Contender("bare loop (fused SGD), 2 threads", "bare_loop", "fused", threads=2, cores=2)
DATALOADER = Contender("bare DataLoader loop", "dataloader_loop")
SEQUENTIAL = Contender("**fedcord sequential**", "fedcord_engine", "sequential")
PROCESSES = Contender("**fedcord processes**, 2 workers", "fedcord_engine", "processes", cores=2)
PFL = Contender("pfl", "pfl_simulation", is_peer=True)
PFL_TWO = Contender("pfl, 2 threads (its default)", "pfl_simulation", "", 2, 2, True)
PFL_RUN = Contender("pfl, 2 processes (torchrun)", "pfl_simulation", "torchrun", 1, 2, True, 2)
FLOWER = Contender("Flower simulation, 2 actors", "flower_simulation", "", 1, 2, True)

CONTENDERS = (
    BARE,
    BARE_FOREACH,
    BARE_TWO,
    DATALOADER,
    SEQUENTIAL,
    PROCESSES,
    PFL,
    PFL_TWO,
    PFL_RUN,
    FLOWER,
)
NEIGHBOURED = (BARE_TWO, SEQUENTIAL, PROCESSES)
FRACTION = {"W1": 0.1, "W2": 1.0}
ROUNDS = {"W1": 2, "W2": 4}

Runs = dict[Contender, list[Run]]


def measure(
    workload: Workload, contenders: Sequence[Contender], repeats: int, rounds: int, fraction: float
) -> tuple[Runs, dict[int, list[float]]]:
    """All contenders in turn, and again; with the roofline of one and two cores each time."""
    runs: Runs = {contender: [] for contender in contenders}
    roof: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(repeats):
        for cores, values in roof.items():
            values.append(gflops(cores))
        for contender in contenders:
            try:
                run = run_contender(contender, workload, rounds, fraction)
            except ContenderFailedError as error:
                print(f"{contender.name}: {error}", file=sys.stderr)
                continue
            runs[contender].append(run)
            print(
                f"{workload.name} {repeat + 1}/{repeats} {contender.name}: "
                f"{run.samples_per_second:,.0f} samples/s, {run.cpu:.2f} CPU-s",
                file=sys.stderr,
            )
    return {contender: done for contender, done in runs.items() if done}, roof


def rounds_table(name: str, runs: Runs, roof: dict[int, list[float]]) -> str:
    """One row per contender."""
    header = [
        "contender",
        "cores",
        "train samples/s",
        "train CPU-s/round",
        "evaluation CPU-s",
        "evaluation s",
        "round s",
        "roofline",
        "peak MB",
        "accuracy",
        "weights off by",
    ]
    reference = runs.get(BARE, next(iter(runs.values())))[0].weights
    rows = []
    for contender, done in runs.items():
        speed = [run.samples_per_second for run in done]
        ceilings = roof[contender.cores]
        shares = [
            100 * value * SHAPES[name].train_flop / (1e9 * ceiling)
            for value, ceiling in zip(speed, ceilings, strict=False)
        ]
        rows.append(
            [
                contender.name,
                str(contender.cores),
                spread(speed, 0),
                spread([run.train_cpu for run in done]),
                spread([run.eval_cpu for run in done]),
                spread([run.eval_wall for run in done]),
                spread([run.wall for run in done]),
                f"{spread(shares, 0)} %",
                spread([run.peak_bytes / 1e6 for run in done], 0),
                f"{done[-1].accuracy:.4f}",
                f"{max(float(np.abs(run.weights - reference).max()) for run in done):.0e}",
            ]
        )
    return table(header, rows)


def ratios(
    runs: Runs, value: Callable[[Run], float], over: Contender, under: Contender
) -> list[float]:
    """Repeat by repeat, so that a slow minute hits both."""
    pairs = zip(runs.get(over, []), runs.get(under, []), strict=False)
    return [value(a) / value(b) for a, b in pairs]


def _cpu(run: Run) -> float:
    return run.cpu


def _train_cpu(run: Run) -> float:
    return run.train_cpu


def _speed(run: Run) -> float:
    return run.samples_per_second


def _rounds_per_second(run: Run) -> float:
    return 1 / run.wall


def targets_table(name: str, runs: Runs, roof: dict[int, list[float]]) -> str:
    """What we hold ourselves to."""
    rows: list[list[str]] = []

    def add(label: str, values: list[float], target: float, at_most: bool = False) -> None:
        if values:
            rows.append(verdict(label, values, target, at_most=at_most))

    if name == "W1":
        best = min((BARE, BARE_FOREACH), key=lambda c: np.median([_cpu(r) for r in runs[c]]))
        add(
            "sequential / best bare loop, CPU-s per round",
            ratios(runs, _cpu, SEQUENTIAL, best),
            1.05,
            True,
        )
        add("processes / sequential, samples/s", ratios(runs, _speed, PROCESSES, SEQUENTIAL), 1.5)
        for peer, factor in ((PFL, 1.5), (PFL_TWO, 1.5), (PFL_RUN, 1.5), (FLOWER, 2.5)):
            label = f"processes / {peer.name}"
            add(f"{label}, samples/s", ratios(runs, _speed, PROCESSES, peer), factor)
            add(f"{label}, rounds/s", ratios(runs, _rounds_per_second, PROCESSES, peer), factor)
        flop = SHAPES[name].train_flop / 1e9
        pairs = zip(runs.get(PROCESSES, []), roof[2], strict=False)
        add(
            "processes / 2-core sgemm",
            [run.samples_per_second * flop / top for run, top in pairs],
            0.55,
        )
    else:
        bare = (BARE, BARE_FOREACH)
        best = min(bare, key=lambda c: np.median([_train_cpu(r) for r in runs[c]]))
        add(
            f"best bare loop ({best.variant}) / stacked sequential, CPU-s of training",
            ratios(runs, _train_cpu, best, SEQUENTIAL),
            2.0,
        )
        add(
            "stacked sequential / best bare loop, samples/s",
            ratios(runs, _speed, SEQUENTIAL, best),
            2.0,
        )
        off = [float(np.abs(run.weights - runs[best][0].weights).max()) for run in runs[SEQUENTIAL]]
        rows.append(["stacked weights against the bare loop's", f"{max(off):.1e}", "≤ 1e-06",
                     "met" if max(off) <= 1e-6 else "**missed**"])  # fmt: skip
    return table(["target", "measured", "wanted", ""], rows)


def neighbour_table(workload: Workload, repeats: int, rounds: int, fraction: float) -> str:
    """The same rounds alone and beside another busy process."""
    slowdowns: dict[Contender, list[float]] = {contender: [] for contender in NEIGHBOURED}
    for _ in range(repeats):
        for contender, values in slowdowns.items():
            alone = run_contender(contender, workload, rounds, fraction)
            with busy_neighbour():
                beside = run_contender(contender, workload, rounds, fraction)
            values.append(alone.samples_per_second / beside.samples_per_second)
    rows = []
    for contender, values in slowdowns.items():
        # two cores divided fairly among its busy processes (or threads) and the neighbour
        share = max(1.0, (contender.cores + 1) / 2)
        rows.append(verdict(f"{contender.name}: slower by", values, share * 1.1, at_most=True))
    return table(["with one busy neighbour", "measured", "its share + 10 %", ""], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--workloads", nargs="+", default=["W1", "W2"], choices=["W1", "W2"])
    parser.add_argument("--fraction", type=float, help="share of the training data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, help="measured rounds per run")
    parser.add_argument("--no-peers", action="store_true", help="leave pfl and Flower out")
    parser.add_argument("--no-neighbour", action="store_true", help="leave the busy one out")
    parser.add_argument("--out", type=Path, help="markdown file")
    given = parser.parse_args()
    contenders = [c for c in CONTENDERS if not (c.is_peer and given.no_peers)]
    if not given.no_peers and not PEERS_PYTHON.exists():
        sys.exit(
            "the peers' environment .venv-bench is missing; run `make bench` or use --no-peers"
        )
    repeats = 1 if given.quick else given.repeats
    sections = ["# A round of federated averaging\n"]
    for name in given.workloads:
        fraction = given.fraction or (0.02 if given.quick else FRACTION[name])
        rounds = given.rounds or (1 if given.quick else ROUNDS[name])
        with tempfile.TemporaryDirectory() as folder:
            workload = write_workload(Path(folder), name, fraction)
            shape = SHAPES[name]
            runs, roof = measure(workload, contenders, repeats, rounds, fraction)
            sections += [
                f"## {name}: {shape.title}\n",
                f"{shape.parameters:,} parameters, {shape.train_flop / 1e6:.2f} MFLOP "
                f"per training example, {workload.num_train:,} training examples; "
                f"{rounds} measured rounds after one to warm up, {repeats} repeats. sgemm: "
                f"{spread(roof[1], 0)} GFLOP/s on one core, {spread(roof[2], 0)} on two.\n",
                rounds_table(name, runs, roof) + "\n",
                targets_table(name, runs, roof) + "\n",
            ]
            if name == "W1" and not given.no_neighbour:
                sections.append(neighbour_table(workload, repeats, rounds, fraction) + "\n")
    sections.append(
        "## How this was made\n\n" + provenance(["benchmarks/fedavg_round.py", *sys.argv[1:]])
    )
    default = "fedavg_round_quick.md" if given.quick else "fedavg_round.md"
    write(given.out or Path(__file__).parent / "results" / default, "\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
