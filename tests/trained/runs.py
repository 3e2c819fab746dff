"""Finished runs for tests, made in a second or less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcord.data.dataset import Dataset, Split
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run

IMAGE, VECTOR, TEXT = "image", "vector", "text"


def own_data(kind: str, size: int = 120) -> Dataset:
    """Two classes that are easy to tell, as images, vectors far from zero, or token ids."""
    rng = np.random.default_rng(5)
    labels = rng.permutation(np.arange(size) % 2)
    more: dict[str, Any] = {}
    if kind == IMAGE:
        inputs = rng.integers(0, 90, size=(size, 3, 8, 8)) + 120 * labels[:, None, None, None]
        inputs = inputs.astype(np.uint8)
        more = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
    elif kind == VECTOR:
        spread = rng.normal(size=(size, 5)) + 2 * labels[:, None]
        inputs = (spread * [1, 10, 100, 1, 1] + [0, 1000, -5, 7, 0]).astype(np.float32)
    else:
        inputs = rng.integers(1, 6, size=(size, 7)) + 5 * labels[:, None]
        more = {"vocabulary": 12}
    train = size * 2 // 3
    return Dataset(
        f"easy {kind}",
        kind,  # type: ignore[arg-type]
        Split(inputs[:train], labels[:train]),
        Split(inputs[train:], labels[train:]),
        ("calm", "wild"),
        **more,
    )


def finished(
    out: Path,
    algorithm: str,
    dataset: Dataset | None = None,
    name: str = "digits",
    **settings: Any,
) -> dict[str, Any]:
    """The result of a small run; on data of a name if none is given."""
    given: dict[str, Any] = {"algorithm": algorithm, "clients": 3, "partition": "iid", **settings}
    if dataset is not None:
        given["dataset"] = f"own:{dataset.name}"
    else:
        given |= {"dataset": name} | ({"subset": 200} if name == "digits" else {})
    return run(load_config(given), Place(out), dataset=dataset)
