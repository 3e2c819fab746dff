"""USPS: handwritten digits from envelopes, 16x16."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import read_checked
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.gzipped import unpacked
from fedcord.data.formats.images import channel_statistics
from fedcord.data.formats.libsvm import read_libsvm
from fedcord.data.locate import Search, Wanted
from fedcord.data.sources.npz_file import arrays_to_splits
from fedcord.data.spec import DatasetSpec

_TRAIN, _TEST = "usps.bz2", "usps.t.bz2"
_ADDRESS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"


def wanted_usps() -> Wanted:
    """One `usps.npz`, or the two published text files."""
    return Wanted(
        dataset="usps",
        places=("usps.npz", "usps", "USPS"),
        holds=((_TRAIN,), (_TEST,)),
        remote=(
            RemoteFile(
                f"{_ADDRESS}/{_TRAIN}", f"usps/{_TRAIN}", "md5:ec16c51db3855ca6c91edd34d0e9b197"
            ),
            RemoteFile(
                f"{_ADDRESS}/{_TEST}", f"usps/{_TEST}", "md5:8ea070ee2aca1ac39742fdd1ef5ed118"
            ),
        ),
    )


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Digits, uint8 [N, 1, 16, 16]."""
    found = search.require(wanted_usps())
    if found.path.is_file():
        train, test = arrays_to_splits(found.path, found.root)
    else:
        train = _split(found.path / _TRAIN, found.root)
        test = _split(found.path / _TEST, found.root)
    mean, std = channel_statistics(train.inputs)
    return Dataset(
        name=spec.name,
        kind="image",
        train=train,
        test=test,
        class_names=tuple(str(digit) for digit in range(10)),
        mean=mean,
        std=std,
    )


def _split(path: Path, root: Path) -> Split:
    values, labels = read_libsvm(path, unpacked(path, read_checked(path, root)), 256)
    if labels.min() < 1 or labels.max() > 10:
        raise DataError(
            f"{path} has labels from {labels.min()} to {labels.max()}, expected 1..10 (digit plus "
            "one); fetch it again."
        )
    # published grey levels lie in [-1, 1]
    pixels = np.clip(np.rint((values + 1) * 127.5), 0, 255).astype(np.uint8)
    return Split(pixels.reshape(-1, 1, 16, 16), labels - 1)
