"""CIFAR-10 and CIFAR-100 (fine labels), in their binary version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.data.checksum import Official, read_checked
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.cifar_binary import read_cifar
from fedcord.data.formats.tar import read_members
from fedcord.data.locate import Found, Search, Wanted
from fedcord.data.spec import DatasetSpec

# one pair for both sets, as FedHPro has it, so that results compare with the published ones
_MEAN = (0.4914, 0.4822, 0.4465)
_STD = (0.2023, 0.1994, 0.2010)

_NAMES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

_FINE_NAMES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle",
    "bottle", "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle",
    "caterpillar", "cattle", "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch",
    "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox",
    "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom",
    "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree",
    "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road",
    "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake",
    "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle",
    "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
)  # fmt: skip


@dataclass(frozen=True)
class _Family:
    """What tells CIFAR-10 from CIFAR-100."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    label_bytes: int
    class_names: tuple[str, ...]
    official: Mapping[str, Official]
    archive: str
    archive_size: int
    archive_sha256: str

    @property
    def files(self) -> tuple[str, ...]:
        return self.train + self.test


_CIFAR10 = _Family(
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test=("test_batch.bin",),
    label_bytes=1,
    class_names=_NAMES,
    official={
        name: Official(30_730_000, sha256)
        for name, sha256 in {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        }.items()
    },
    archive="cifar-10-binary.tar.gz",
    archive_size=170_052_171,
    archive_sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

_CIFAR100 = _Family(
    folder="cifar-100-binary",
    train=("train.bin",),
    test=("test.bin",),
    label_bytes=2,
    class_names=_FINE_NAMES,
    official={
        "train.bin": Official(
            153_700_000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"
        ),
        "test.bin": Official(
            30_740_000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"
        ),
    },
    archive="cifar-100-binary.tar.gz",
    archive_size=169_001_437,
    archive_sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
)


def load_cifar10(spec: DatasetSpec, search: Search) -> Dataset:
    """Ten classes of photographs, uint8 [N, 3, 32, 32]."""
    return _load(spec.name, _CIFAR10, search)


def load_cifar100(spec: DatasetSpec, search: Search) -> Dataset:
    """A hundred classes of photographs, uint8 [N, 3, 32, 32]."""
    return _load(spec.name, _CIFAR100, search)


def _load(name: str, family: _Family, search: Search) -> Dataset:
    found = search.require(
        Wanted(
            dataset=name,
            places=(family.folder, f"{name}/{family.folder}", name, family.archive),
            holds=tuple((file,) for file in family.files),
            remote=(
                RemoteFile(
                    url=f"https://www.cs.toronto.edu/~kriz/{family.archive}",
                    path=family.archive,
                    checksum=f"sha256:{family.archive_sha256}",
                    size=family.archive_size,
                    members=family.files,
                    unpack_to=family.folder,
                ),
            ),
        )
    )
    contents = _contents(found, family)
    return Dataset(
        name=name,
        kind="image",
        train=_split(found, family, family.train, contents),
        test=_split(found, family, family.test, contents),
        class_names=family.class_names,
        mean=_MEAN,
        std=_STD,
    )


def _contents(found: Found, family: _Family) -> Mapping[str, bytes]:
    if found.path.is_dir():
        return {file: read_checked(found.path / file, found.root) for file in family.files}
    return read_members(found.path, family.files)


def _split(
    found: Found, family: _Family, files: Sequence[str], contents: Mapping[str, bytes]
) -> Split:
    parts = [
        read_cifar(
            found.path / file,
            contents[file],
            family.label_bytes,
            len(family.class_names),
            family.official[file],
        )
        for file in files
    ]
    return Split(
        np.concatenate([images for images, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
    )
