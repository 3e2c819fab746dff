"""The cost of a round of federated averaging, here and elsewhere, in one interleaved run.

Usage: python benchmarks/fedavg_round.py [--quick] [--workloads W1 W2] [--fraction F] …
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from launch import PEERS_PYTHON, Contender, ContenderFailedError, busy_neighbour, run_contender
from line_up import BARE_FOREACH, CONTENDERS, NEIGHBOURED, SEQUENTIAL
from roofline import gflops
from round_tables import Roof, Runs, largest_difference, rounds_table, targets_table
from tables import provenance, spread, table, verdict, write
from workload import SHAPES, Workload, write_workload

FRACTION = {"W1": 0.1, "W2": 1.0}
ROUNDS = {"W1": 2, "W2": 4}
EQUALITY_FRACTION = 0.02
EQUALITY = 1e-6


def measure(
    workload: Workload, contenders: Sequence[Contender], repeats: int, rounds: int, fraction: float
) -> tuple[Runs, Roof]:
    """All contenders in turn, and again; with the roofline of one and two cores each time."""
    runs: Runs = {contender: [] for contender in contenders}
    roof: Roof = {1: [], 2: []}
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


def equality_line() -> str:
    """Stacked training against one client after another, on the same batches.

    Two rounds of little data: over many more steps the last bit decides now and then on which side
    of zero an activation falls, and from there on both are right and differ by more.
    """
    with tempfile.TemporaryDirectory() as folder:
        workload = write_workload(Path(folder), "W2", EQUALITY_FRACTION)
        both = (BARE_FOREACH, SEQUENTIAL)
        runs = {one: [run_contender(one, workload, 1, EQUALITY_FRACTION)] for one in both}
    off = largest_difference(runs, SEQUENTIAL, BARE_FOREACH)
    verdict_ = "met" if off <= EQUALITY else "**missed**"
    return (
        f"Stacked training against one client after another, two rounds of {workload.num_train:,} "
        f"examples: no weight differs by more than {off:.1e} (wanted ≤ {EQUALITY:g}: {verdict_})."
    )


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
            if name == "W2":
                sections.append(equality_line() + "\n")
            if name == "W1" and not given.no_neighbour:
                sections.append(neighbour_table(workload, repeats, rounds, fraction) + "\n")
    sections.append(
        "## How this was made\n\n" + provenance(["benchmarks/fedavg_round.py", *sys.argv[1:]])
    )
    default = "fedavg_round_quick.md" if given.quick else "fedavg_round.md"
    write(given.out or Path(__file__).parent / "results" / default, "\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
