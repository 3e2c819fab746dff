"""The binary version of CIFAR-10 and CIFAR-100: label bytes, then three colour planes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import Official, check_official
from fedcord.data.dataset import Array, Labels

_PIXELS = 3 * 32 * 32


def read_cifar(
    path: Path, data: bytes, label_bytes: int, num_classes: int, official: Official | None = None
) -> tuple[Array, Labels]:
    """Images uint8 [N, 3, 32, 32] and labels int64 [N].

    Args:
        path: named in errors.
        data: the file's bytes.
        label_bytes: 1 for CIFAR-10; 2 for CIFAR-100, of which the last is the fine label.
        num_classes: labels must be below it.
        official: the published file.
    """
    record = label_bytes + _PIXELS
    if not data or len(data) % record:
        raise DataError(
            f"{path} has {len(data)} bytes, expected a multiple of {record} (one record is "
            f"{label_bytes} label and {_PIXELS} pixel bytes); it is truncated: fetch it again."
        )
    if official is not None:
        check_official(path, data, official)
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)
    labels = rows[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= num_classes:
        row = int(np.argmax(labels >= num_classes))
        raise DataError(
            f"{path}: record {row} has label {labels[row]}, allowed are 0..{num_classes - 1}; it "
            "is not in the expected format: fetch it again."
        )
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32).copy(), labels
