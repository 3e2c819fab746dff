"""Gaussian class clusters of any size, for tests of scale."""

from __future__ import annotations

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.machine import data_limit, gigabytes
from fedcord.core.rng import numpy_generator
from fedcord.data.dataset import Array, Dataset, Labels, Split
from fedcord.data.locate import Search
from fedcord.data.spec import DatasetSpec

_SEPARATION = 3.0  # distance of a class centre from the origin, in standard deviations of a cluster
_LARGEST_TEST = 10_000
_BLOCK = 65_536


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Vectors, float32 [samples, dim], in balanced classes.

    With `clients=K` training rows carry a group "client": K runs of nearly equal length. The test
    part has a fifth of the rows, at most 10,000. `seed` makes another set of the same size. Made
    to one scale, they are not standardised unless `scale=standard` asks for it.
    """
    samples = spec.integer("samples", 10_000, 1, 100_000_000)
    classes = spec.integer("classes", 10, 2, 100_000)
    dim = spec.integer("dim", 32, 1, 100_000)
    clients = spec.integer("clients", 0, 0, 10_000_000)
    seed = spec.integer("seed", 0, 0, 2**31 - 1)
    if clients > samples:
        raise DataError(
            f"data set '{spec.name}': clients={clients} is more than samples={samples}; give every "
            "client at least one sample."
        )
    num_test = min(max(1, samples // 5), _LARGEST_TEST)
    size, limit = 4 * dim * (samples + num_test + 2 * classes), data_limit()
    if size > limit:
        raise DataError(
            f"data set '{spec.name}': samples={samples} and classes={classes} of dim={dim} need "
            f"{gigabytes(size)}; at most {gigabytes(limit)}, a quarter of this machine's memory, "
            "are made: choose fewer or smaller ones."
        )
    directions = numpy_generator(seed, "data.synthetic.centres").standard_normal((classes, dim))
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    centres = (_SEPARATION * directions / np.maximum(lengths, 1e-12)).astype(np.float32)
    groups = {}
    if clients:
        groups["client"] = (np.arange(samples, dtype=np.int64) * clients) // samples
    return Dataset(
        name=spec.name,
        kind="vector",
        train=_draw("train", samples, centres, seed, groups),
        test=_draw("test", num_test, centres, seed, {}),
        class_names=tuple(str(label) for label in range(classes)),
        scale=spec.scale("none"),
    )


def _draw(part: str, rows: int, centres: Array, seed: int, groups: dict[str, Labels]) -> Split:
    generator = numpy_generator(seed, f"data.synthetic.{part}")
    labels = generator.permutation(np.arange(rows, dtype=np.int64) % len(centres))
    inputs = generator.standard_normal((rows, centres.shape[1]), dtype=np.float32)
    for start in range(0, rows, _BLOCK):  # in blocks: no second array of the full size
        inputs[start : start + _BLOCK] += centres[labels[start : start + _BLOCK]]
    return Split(inputs, labels, groups)
