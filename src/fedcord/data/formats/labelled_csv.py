"""Text classification tables: class number, then text columns, all quoted."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Labels


def read_labelled_csv(path: Path, data: bytes, num_classes: int) -> tuple[list[str], Labels]:
    """Texts (all columns after the first, joined by a space) and labels int64 [N] from 0.

    The file counts its classes from 1.
    """
    texts: list[str] = []
    labels: list[int] = []
    try:
        for row in csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True):
            if len(row) < 2 or not row[0].isdecimal() or not 1 <= int(row[0]) <= num_classes:
                raise ValueError(f"it starts {','.join(row)[:40]!r}")
            labels.append(int(row[0]) - 1)
            texts.append(" ".join(row[1:]))
    except (ValueError, csv.Error) as error:
        raise DataError(
            f"{path}: record {len(labels) + 1} is not 'class 1..{num_classes}, title, text' "
            f"({error}); the file is truncated or damaged: fetch it again."
        ) from error
    if not labels:
        raise DataError(f"{path} holds no records; fetch it again.")
    return texts, np.array(labels, np.int64)
