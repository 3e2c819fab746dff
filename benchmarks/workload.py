"""The two workloads, as files that every contender reads.

The benchmark writes the very same examples, partition and first weights for everybody; a contender
needs NumPy and PyTorch to read them, not fedcord.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from fedcord.core.rng import torch_generator

SEED = 0
NUM_CLIENTS = 20
BATCH_SIZE = 32
LEARNING_RATE = 0.01
MODELS = {"W1": "cnn:32-64,kernel=5,fc=512", "W2": "mlp:100"}


@dataclass(frozen=True)
class Shape:
    """What a workload computes, for the roofline.

    Attributes:
        title: for the table.
        parameters: of the network.
        train_flop: floating-point operations of one training example, forward and backward.
    """

    title: str
    parameters: int
    train_flop: int


def _train_flop(layers: list[int]) -> int:
    """Forward, weight gradient and input gradient; the first layer's input needs no gradient."""
    return 3 * sum(layers) - layers[0]


SHAPES = {
    "W1": Shape(
        "CNN, 5×5 convolutions 32/64 with pooling, fc 512",
        582_026,
        _train_flop(
            [2 * 24 * 24 * 32 * 25, 2 * 8 * 8 * 64 * 800, 2 * 1024 * 512, 2 * 512 * 10],
        ),
    ),
    "W2": Shape("MLP 784-100-10", 79_510, _train_flop([2 * 784 * 100, 2 * 100 * 10])),
}


@dataclass(frozen=True)
class Workload:
    """A folder of arrays.

    Attributes:
        folder: where they are.
        name: W1 or W2.
    """

    folder: Path
    name: str

    def array(self, name: str) -> Tensor:
        """One array, mapped into memory; writing to it does not change the file."""
        return torch.from_numpy(np.load(self.folder / f"{name}.npy", mmap_mode="c"))

    @cached_property
    def bounds(self) -> list[int]:
        """[K + 1] where each client's examples start, and the end of the last."""
        bounds: list[int] = self.array("bounds").tolist()
        return bounds

    @property
    def num_train(self) -> int:
        """Training examples of all clients."""
        return self.bounds[-1]

    def client(self, client: int) -> tuple[Tensor, Tensor]:
        """Prepared inputs [n, 1, 28, 28] and labels [n] of one client, as views."""
        rows = slice(self.bounds[client], self.bounds[client + 1])
        return self.array("inputs")[rows], self.array("labels")[rows]

    def test(self) -> tuple[Tensor, Tensor]:
        """Prepared inputs and labels of the test set."""
        return self.array("test_inputs"), self.array("test_labels")

    def first_weights(self) -> list[Tensor]:
        """Weights in the order of the network's parameters, copied."""
        names = json.loads((self.folder / "weights.json").read_text())
        return [self.array(f"weight_{name}").clone() for name in names]


def batch_stream(round_: int, client: int) -> Generator:
    """The stream fedcord draws a client's batch order from, so that all can train alike."""
    return torch_generator(SEED, "batches", round_, client)


def write_workload(folder: Path, name: str, fraction: float) -> Workload:
    """Write the arrays of a workload; needs fedcord with its data.

    Args:
        folder: an empty folder.
        name: W1 or W2.
        fraction: share of the training examples to keep, chosen at random.
    """
    experiment = fedcord_experiment(name, fraction, rounds=1)
    population, task = experiment.population, experiment.task
    starts = [*population.bounds[:, 0].tolist(), len(population.labels)]
    arrays = {
        "inputs": task.prepare(population.inputs),
        "labels": population.labels,
        "bounds": torch.tensor(starts),
        "test_inputs": task.prepare(population.test.inputs),
        "test_labels": population.test.labels,
    }
    weights = task.initial_network(torch_generator(SEED, "init")).state_dict()
    arrays |= {f"weight_{name}": tensor.contiguous() for name, tensor in weights.items()}
    for label, tensor in arrays.items():
        np.save(folder / f"{label}.npy", tensor.numpy())
    (folder / "weights.json").write_text(json.dumps(list(weights)))
    return Workload(folder, name)


def fedcord_experiment(name: str, fraction: float, rounds: int):  # type: ignore[no-untyped-def]
    """The workload as fedcord builds it from a configuration."""
    from fedcord.data.registry import load_dataset
    from fedcord.experiment.build import build_experiment
    from fedcord.experiment.load import load_config

    config = load_config(
        {
            "algorithm": "fedavg",
            "dataset": "mnist",
            "partition": "dirichlet:0.1",
            "clients": NUM_CLIENTS,
            "rounds": rounds,
            "model": (MODELS[name],),
            "seed": SEED,
            "validation": 0.0,
            "test": 0.0,
            "params": {"local": {"lr": LEARNING_RATE, "batch_size": BATCH_SIZE, "epochs": 1}},
        }
    )
    dataset = load_dataset("mnist")
    if fraction < 1:
        count = round(fraction * len(dataset.train))
        rows = np.sort(np.random.default_rng(SEED).permutation(len(dataset.train))[:count])
        train = dataset.train
        dataset = replace(
            dataset, train=replace(train, inputs=train.inputs[rows], labels=train.labels[rows])
        )
    return build_experiment(config, dataset)
