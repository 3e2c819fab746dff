"""Cropped digits in MATLAB files, as SVHN and SYN are published."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import Official, read_checked
from fedcord.data.dataset import Array, Labels


def read_digit_mat(
    path: Path, root: Path | None = None, official: Official | None = None
) -> tuple[Array, Labels]:
    """Images uint8 [N, 3, H, W] and digits int64 [N] of a file with `X` [H, W, 3, N] and `y`.

    The digit 0 may be stored as 10, as SVHN does.
    """
    from scipy.io import loadmat  # deferred: slow to import

    data = read_checked(path, root, official)
    try:
        content = loadmat(io.BytesIO(data), variable_names=["X", "y"])
    except Exception as error:  # scipy raises many types on damaged bytes, all meaning the same
        if isinstance(error, MemoryError):
            raise
        raise DataError(
            f"{path} is not a readable MATLAB file ({error}); it is truncated or damaged: fetch it "
            "again."
        ) from error
    images, labels = content.get("X"), content.get("y")
    if images is None or labels is None or images.ndim != 4 or images.shape[2] != 3:
        shape = None if images is None else list(images.shape)
        raise DataError(
            f"{path} holds X of shape {shape}{'' if labels is not None else ' and no y'}; expected "
            "X [H, W, 3, N] and y [N, 1]: use the cropped-digits file of the data set."
        )
    digits = labels.reshape(-1).astype(np.int64)
    if images.dtype != np.uint8 or len(digits) != images.shape[3]:
        raise DataError(
            f"{path} holds {images.shape[3]} {images.dtype} images and {len(digits)} labels; "
            "expected as many labels as uint8 images: fetch it again."
        )
    if len(digits) and not (digits.min() >= 0 and digits.max() <= 10):
        raise DataError(
            f"{path} has labels from {digits.min()} to {digits.max()}; expected digits 0..9, "
            "with 10 for 0: fetch it again."
        )
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits % 10
