"""CPU seconds until layer-wise least squares is caught up with by gradients, in one process.

    python benchmarks/layerwise.py                  MNIST, some minutes
    python benchmarks/layerwise.py --quick          digits, seconds; the figures mean nothing

Everybody trains on the same ten clients (Dirichlet 0.1). The least-squares network goes first; then
FedAvg and FedProx train with the small convolutional network until they are as accurate on the test
set, or until their rounds are used up. Only clients' and server's work is timed, not evaluation, by
the process's own CPU clock: other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

from fedcord.core.contract import Env
from fedcord.engine.evaluation import evaluate
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config

LAYERS = {"kernel": 3, "stride": 2}


@dataclass(frozen=True)
class Trained:
    seconds: float
    rounds: int
    accuracy: float


def train(settings: dict[str, Any], until: float = 1.1) -> Trained:
    """Round by round until `until` is reached on the test set, or rounds are used up."""
    config = load_config({"validation": 0.0, "test": 0.0, **settings})
    made = build_experiment(config)
    algorithm, people = made.algorithm, made.population
    assert config.rounds is not None
    env = Env(made.task, config.seed, num_rounds=config.rounds)
    clients = [k for k, size in enumerate(people.train_sizes) if size]
    state, spent, accuracy = algorithm.init(env), 0.0, 0.0
    for round_ in range(config.rounds):
        here = replace(env, round=round_)
        start = time.process_time()
        updates = [
            (k, algorithm.client_update(state.shared, {}, people.client(k), here.at(k)).update)
            for k in clients
        ]
        state = algorithm.aggregate(state, iter(updates), here)
        spent += time.process_time() - start
        if algorithm.traits.rounds is None or round_ + 1 == config.rounds:
            accuracy = evaluate(algorithm, state.model, {}, people.test, here).accuracy
        if accuracy >= until:
            break
    return Trained(spent, state.round, accuracy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    common: dict[str, Any] = {"dataset": "mnist", "subset": 10_000, "model": ["cnn"], "rounds": 40}
    if arguments.quick:
        common = {"dataset": "digits", "rounds": 3}
    layers = {"layers": LAYERS}
    print("seed  method     rounds  accuracy  CPU s   least squares takes")
    with torch_threads(1):
        for seed in range(arguments.seeds):
            base = {**common, "seed": seed}
            solved = train({**base, "rounds": None, "algorithm": "fedacnnl", "params": layers})
            _show(seed, "fedacnnl", solved, "")
            for name in ("fedavg", "fedprox"):
                found = train({**base, "algorithm": name}, until=solved.accuracy)
                reached = found.accuracy >= solved.accuracy
                note = f"{solved.seconds / found.seconds:.0%}" + ("" if reached else " or less")
                _show(seed, name, found, note)


def _show(seed: int, name: str, run: Trained, note: str) -> None:
    numbers = f"{run.rounds:6d}  {run.accuracy:8.4f}  {run.seconds:5.1f}"
    print(f"{seed:4d}  {name:9s}  {numbers}   {note}", flush=True)


if __name__ == "__main__":
    main()
