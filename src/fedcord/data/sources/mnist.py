"""MNIST and Fashion-MNIST, in idx files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import Official
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.idx import read_idx
from fedcord.data.locate import Found, Search, Wanted
from fedcord.data.spec import DatasetSpec

_TRAIN_IMAGES = "train-images-idx3-ubyte"
_TRAIN_LABELS = "train-labels-idx1-ubyte"
_TEST_IMAGES = "t10k-images-idx3-ubyte"
_TEST_LABELS = "t10k-labels-idx1-ubyte"
_SIZES = {
    _TRAIN_IMAGES: 47_040_016,
    _TRAIN_LABELS: 60_008,
    _TEST_IMAGES: 7_840_016,
    _TEST_LABELS: 10_008,
}


@dataclass(frozen=True)
class _Family:
    """What tells one member of the family from another."""

    places: tuple[str, ...]
    address: str
    contents: Mapping[str, str]  # SHA-256 of the unpacked files
    packed: Mapping[str, tuple[int, str]]  # size and SHA-256 of the published .gz files
    class_names: tuple[str, ...]
    mean: float
    std: float


_MNIST = _Family(
    places=("mnist", "MNIST/raw", "MNIST"),
    address="https://ossci-datasets.s3.amazonaws.com/mnist",
    contents={
        _TRAIN_IMAGES: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        _TRAIN_LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        _TEST_IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        _TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    packed={
        _TRAIN_IMAGES: (
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        _TRAIN_LABELS: (
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        _TEST_IMAGES: (
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        _TEST_LABELS: (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    },
    class_names=tuple(str(digit) for digit in range(10)),
    mean=0.1307,
    std=0.3081,
)

_FASHION = _Family(
    places=("fashion-mnist", "FashionMNIST/raw", "fashion_mnist"),
    address="https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    contents={
        _TRAIN_IMAGES: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        _TRAIN_LABELS: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        _TEST_IMAGES: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        _TEST_LABELS: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    packed={
        _TRAIN_IMAGES: (
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        _TRAIN_LABELS: (
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        _TEST_IMAGES: (
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        _TEST_LABELS: (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    },
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    mean=0.2860,
    std=0.3530,
)


def load_mnist(spec: DatasetSpec, search: Search) -> Dataset:
    """Handwritten digits, uint8 [N, 1, 28, 28]."""
    return _load(spec.name, _MNIST, search)


def load_fashion(spec: DatasetSpec, search: Search) -> Dataset:
    """Articles of clothing, uint8 [N, 1, 28, 28]."""
    return _load(spec.name, _FASHION, search)


def wanted_mnist() -> Wanted:
    """The files of MNIST, for those who only ask whether it is there."""
    return _wanted("mnist", _MNIST)


def _wanted(name: str, family: _Family) -> Wanted:
    return Wanted(
        dataset=name,
        places=family.places,
        holds=tuple(_alternatives(file) for file in _SIZES),
        remote=tuple(
            RemoteFile(
                url=f"{family.address}/{file}.gz",
                path=f"{family.places[0]}/{file}.gz",
                checksum=f"sha256:{sha256}",
                size=size,
            )
            for file, (size, sha256) in family.packed.items()
        ),
    )


def _alternatives(file: str) -> tuple[str, ...]:
    dotted = file.replace("-idx", ".idx")  # how some unpackers rename them
    return (file, f"{file}.gz", dotted, f"{dotted}.gz")


def _load(name: str, family: _Family, search: Search) -> Dataset:
    found = search.require(_wanted(name, family))
    return Dataset(
        name=name,
        kind="image",
        train=_split(found, family, (_TRAIN_IMAGES, _TRAIN_LABELS)),
        test=_split(found, family, (_TEST_IMAGES, _TEST_LABELS)),
        class_names=family.class_names,
        mean=(family.mean,),
        std=(family.std,),
    )


def _split(found: Found, family: _Family, files: Sequence[str]) -> Split:
    arrays = []
    for file, rank in zip(files, (3, 1), strict=True):
        official = Official(_SIZES[file], family.contents[file])
        arrays.append(read_idx(found.pick(_alternatives(file)), rank, found.root, official))
    images, labels = arrays
    if len(images) != len(labels):
        raise DataError(
            f"{found.path}: {files[0]} has {len(images)} images but {files[1]} has {len(labels)} "
            "labels; the two files do not belong together: fetch both again."
        )
    return Split(images[:, None], labels.astype(np.int64))
