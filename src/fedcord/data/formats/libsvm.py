"""The sparse text format `label index:value …`, as USPS is published."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array, Labels


def read_libsvm(path: Path, data: bytes, num_features: int) -> tuple[Array, Labels]:
    """Values float64 [N, D] (absent ones 0) and labels int64 [N] as written."""
    lines = [line.split() for line in data.decode("ascii", errors="replace").splitlines()]
    lines = [line for line in lines if line]
    values = np.zeros((len(lines), num_features))
    labels = np.zeros(len(lines), np.int64)
    for row, (label, *cells) in enumerate(lines):
        try:
            labels[row] = int(label)
            for cell in cells:
                index, _, value = cell.partition(":")
                if not 1 <= int(index) <= num_features:
                    raise ValueError(f"index {index} is outside 1..{num_features}")
                values[row, int(index) - 1] = float(value)
        except ValueError as error:
            raise DataError(
                f"{path} line {row + 1} is not 'label index:value …' ({error}); fetch it again."
            ) from error
    if not lines:
        raise DataError(f"{path} is empty; fetch it again.")
    return values, labels
