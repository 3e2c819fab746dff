r"""A data set and a partition file as another library's clients hold them.

    python studies/peer_split.py split.json --dataset mnist --mean 0.5 --std 0.5 --out peer

PFLlib and FL-bench put a data set's training and test examples together and let every client keep a
quarter of its own for its test. `split.json` says who holds what, as indices into training
examples followed by test examples:

    {"train": [[client 0's], [client 1's], …], "test": [[client 0's], [client 1's], …]}

Written are `peer/data.npz`, pixels from 0 to 1 less `mean` over `std` and no common test set, and
`peer/clients.json`:

    fedcord run ditto --dataset "npz:peer/data.npz?scale=none" --partition file:peer/clients.json \
        --clients 0 --validation 0

A run's accuracy is then that of all clients on their own test parts, every example counting once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import fedcord


def write(split: Path, dataset: str, mean: float, std: float, out: Path) -> None:
    """The two files."""
    data = fedcord.load_dataset(dataset)
    pixels = np.concatenate([data.train.inputs, data.test.inputs]).reshape(
        -1, data.train.inputs[0].size
    )
    labels = np.concatenate([data.train.labels, data.test.labels])
    inputs = (pixels.astype(np.float32) / np.float32(255) - np.float32(mean)) / np.float32(std)
    parts = json.loads(split.read_text(encoding="utf-8"))
    clients = [sorted(a + b) for a, b in zip(parts["train"], parts["test"], strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    none = np.zeros(0, dtype=np.int64)
    np.savez(
        out / "data.npz", x_train=inputs, y_train=labels, x_test=inputs[none], y_test=labels[none]
    )
    named = {"clients": clients, "test": [sorted(test) for test in parts["test"]]}
    (out / "clients.json").write_text(json.dumps(named), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("split", type=Path, help="who trains and tests on what, as JSON")
    parser.add_argument("--dataset", default="mnist", help="a data set of images")
    parser.add_argument("--mean", type=float, default=0.5, help="taken from pixels of 0 to 1")
    parser.add_argument("--std", type=float, default=0.5, help="that they are divided by")
    parser.add_argument("--out", type=Path, default=Path("peer"), help="folder for both files")
    given = parser.parse_args()
    write(given.split, given.dataset, given.mean, given.std, given.out)
