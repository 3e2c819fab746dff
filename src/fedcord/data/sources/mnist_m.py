"""MNIST-M: MNIST digits blended over photographs, in one npz file."""

from __future__ import annotations

from fedcord.data.dataset import Dataset
from fedcord.data.locate import Search, Wanted
from fedcord.data.sources.npz_file import arrays_to_splits
from fedcord.data.spec import DatasetSpec

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def wanted_mnist_m() -> Wanted:
    """The file of MNIST-M; its authors offer no address for programs."""
    return Wanted(
        dataset="mnist-m",
        places=("mnist-m.npz", "mnist_m.npz"),
        advice="write mnist-m.npz with x_train, y_train, x_test, y_test (uint8, NHWC) from the "
        "authors' archive (Ganin et al. 2016)",
    )


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Coloured digits, uint8 [N, 3, H, W] (32x32 or 28x28, as the file has them)."""
    found = search.require(wanted_mnist_m())
    train, test = arrays_to_splits(found.path, found.root)
    return Dataset(
        name=spec.name,
        kind="image",
        train=train,
        test=test,
        class_names=tuple(str(digit) for digit in range(10)),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
    )
