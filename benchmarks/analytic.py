"""Speed of the analytic family as ratios within one run, one thread.

    python benchmarks/analytic.py            about two minutes
    python benchmarks/analytic.py --quick    seconds; the figures mean nothing

1. Sums of features at D = 768 against the machine's own symmetric rank-k update.
2. The guarded Cholesky solve against an explicit inverse.
3. The server for K clients, D = 768, C = 100: sums against the pairwise recursion as published,
   written plainly here with its inverses and products.
4. Many clients of 8 samples, D = 256: each makes its own message; time per client, peak memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg.blas
import torch
from torch import Tensor

from fedcord.algorithms.analytic.closed_form import (
    add_messages,
    solve_stats,
    stats_update,
    summed_stats,
)
from fedcord.algorithms.analytic.stats import StatsAccumulator
from fedcord.core.contract import Update
from fedcord.ops.gram import GramAccumulator, single_blas
from fedcord.ops.ridge import solve_ridge

TAG = 1


def cpu_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of several runs after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def samples(count: int, size: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, size, generator=generator)
    return features, torch.randint(classes, (count,), generator=generator)


def accumulation(rows: int, size: int) -> None:
    features, labels = samples(rows, size, 100, 0)
    wide = features.double().numpy()
    out = np.zeros((size, size), order="F")

    def bare() -> None:
        with single_blas():
            scipy.linalg.blas.dsyrk(1.0, wide.T, beta=1.0, c=out, lower=1, overwrite_c=1)

    def ours() -> None:
        GramAccumulator(size).add(features)

    def client() -> None:
        total = StatsAccumulator(size, 100, TAG)
        total.add(features, labels)
        total.stats()

    flops = rows * size**2 / 1e9
    bare_rate, rate = flops / cpu_seconds(bare), flops / cpu_seconds(ours)
    whole = flops / cpu_seconds(client)
    print(f"accumulation, {rows} x {size} float32 -> float64")
    print(f"  dsyrk alone on float64      {bare_rate:6.1f} GFLOP/s")
    print(f"  GramAccumulator             {rate:6.1f} GFLOP/s   {rate / bare_rate:.0%} of it")
    print(f"  whole statistics, packed    {whole:6.1f} GFLOP/s   {whole / bare_rate:.0%} of it")


def solving(size: int) -> None:
    features, _ = samples(4 * size, size, 100, 1)
    gram, moment = features.double().T @ features.double(), torch.randn(size, 100).double()
    eye = torch.eye(size, dtype=torch.float64)
    inverse = cpu_seconds(lambda: torch.linalg.inv(gram + eye) @ moment, 3)
    cholesky = cpu_seconds(
        lambda: torch.cholesky_solve(moment, torch.linalg.cholesky(gram + eye)), 3
    )
    guarded = cpu_seconds(lambda: solve_ridge(gram, moment, 1.0), 3)
    print(f"solve, {size} x {size} with 100 right sides")
    print(
        f"  inverse {inverse * 1e3:.0f} ms, Cholesky {cholesky * 1e3:.0f} ms "
        f"({inverse / cholesky:.1f}x), guarded with report {guarded * 1e3:.0f} ms "
        f"({inverse / guarded:.1f}x)"
    )


def server(num_clients: int, size: int, classes: int) -> None:
    per_client = 2 * size // num_clients + 20
    updates: list[tuple[int, Update]] = []
    published: list[tuple[Tensor, Tensor]] = []
    eye = torch.eye(size, dtype=torch.float64)
    pooled_gram = torch.zeros(size, size, dtype=torch.float64)
    pooled_moment = torch.zeros(size, classes, dtype=torch.float64)
    for client in range(num_clients):
        features, labels = samples(per_client, size, classes, client)
        total = StatsAccumulator(size, classes, TAG)
        total.add(features, labels)
        stats = total.stats()
        updates.append((client, stats_update(stats, "packed64")))
        gram = stats.gram_matrix()
        pooled_gram += gram
        pooled_moment += stats.moment
        published.append((gram + eye, torch.linalg.solve(gram + eye, stats.moment)))
    start = time.process_time()
    sums = add_messages({}, iter(updates), TAG)
    solved = solve_stats(summed_stats(sums, "packed64"), 0.0)
    ours = time.process_time() - start
    start = time.process_time()
    weight = published_recursion(published)
    theirs = time.process_time() - start
    central = torch.linalg.solve(pooled_gram, pooled_moment)
    print(f"server, {num_clients} clients, {size} features, {classes} classes, CPU time")
    print(f"  pairwise recursion as published {theirs:8.2f} s   error {error(weight, central):.1e}")
    print(
        f"  sums and one solve              {ours:8.3f} s   "
        f"error {error(solved.weight, central):.1e}   {theirs / ours:.0f}x faster"
    )


def published_recursion(clients: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The aggregation law with its inverses and products, then the removal of ridges (γ = 1)."""
    inv = torch.linalg.inv
    total, weight = clients[0]
    eye = torch.eye(len(total), dtype=torch.float64)
    for gram, model in clients[1:]:
        left = eye - inv(total) @ gram @ (eye - inv(total + gram) @ gram)
        right = eye - inv(gram) @ total @ (eye - inv(total + gram) @ total)
        weight = left @ weight + right @ model
        total = total + gram
    ridge = len(clients)
    removed: Tensor = ridge * inv(total - ridge * eye) @ weight
    return weight + removed


def many_clients(num_clients: int, size: int, classes: int) -> None:
    pool, labels = samples(4096, size, classes, 7)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def messages() -> Iterator[tuple[int, Update]]:
        for client in range(num_clients):
            rows = (torch.arange(8) + 8 * client) % 4096
            total = StatsAccumulator(size, classes, TAG)
            total.add(pool[rows], labels[rows])
            yield client, stats_update(total.stats(), "packed64")

    start = time.process_time()
    sums = add_messages({}, messages(), TAG)
    solve_stats(summed_stats(sums, "packed64"), 1.0)
    spent = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - memory
    print(f"{num_clients:,} clients of 8 samples, {size} features, each with its own message")
    print(
        f"  {spent:.1f} s CPU, {spent / num_clients * 1e3:.2f} ms per client; peak memory grew "
        f"by {grown:.0f} MB"
    )


def figure(path: str) -> None:
    """Largest change of any model when other clients' samples are dealt anew, as a bar chart."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fedcord"
    from matplotlib import pyplot as plt

    from fedcord.algorithms.registry import algorithm_class
    from fedcord.core.contract import Env
    from fedcord.core.params import build
    from fedcord.experiment.build import build_experiment
    from fedcord.experiment.invariance import check_invariance
    from fedcord.experiment.load import load_config

    experiment = build_experiment(load_config({"algorithm": "afl", "dataset": "digits"}))
    population = experiment.population
    clients = [population.client(k) for k in range(population.num_clients)]
    chosen: dict[str, tuple[str, dict[str, object]]] = {
        name: (name, {}) for name in ("afl", "fedhip", "apfl", "deepafl", "safle", "fedacnnl")
    }
    chosen["afl-aa, ridges kept"] = ("afl-aa", {"remove_ridge": False})
    chosen["fedavg"] = ("fedavg", {})
    found = {}
    for label, (name, values) in chosen.items():
        env = Env(experiment.task, 0, num_rounds=5)
        method = build(algorithm_class(name), values)
        found[label] = max(check_invariance(method, clients, env).difference, 1e-17)
        print(f"  {label:<22} {found[label]:.1e}")
    _, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    colours = ["#c2410c" if value > 1e-6 else "#1d4ed8" for value in found.values()]
    axes.barh(list(found), list(found.values()), color=colours)
    axes.set_xscale("log")
    axes.set_xlim(1e-17, 10)
    axes.invert_yaxis()
    axes.set_xlabel("largest relative change of a model")
    plt.savefig(path, format="svg", metadata={"Date": None})


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--figure", metavar="SVG", help="only draw the picture of invariance")
    arguments = parser.parse_args()
    quick = arguments.quick
    torch.set_num_threads(1)
    if arguments.figure:
        figure(arguments.figure)
        return
    accumulation(512 if quick else 8192, 768)
    solving(256 if quick else 768)
    server(4 if quick else 100, 128 if quick else 768, 100)
    many_clients(200 if quick else 100_000, 256, 10)


if __name__ == "__main__":
    main()
