"""The user's own pictures: `folder:PATH`, one sub-folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.data.formats.images import SUFFIXES, channel_statistics, is_image, read_images
from fedcord.data.formats.tree import Tree, open_tree
from fedcord.data.locate import Search
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Pictures resized to uint8 [N, C, size, size] (`?size=`, 32 by default).

    The folder (or zip archive) holds class folders, of which a fixed stratified fifth becomes the
    test part, or `train/` and `test/` with the same class folders. All-grey collections keep one
    channel.
    """
    size = spec.integer("size", 32, 4, 1024)
    path = Path(spec.path).expanduser()
    if not path.exists():
        raise DataError(f"{path} does not exist; give a folder with one sub-folder per class.")
    tree = open_tree(path)
    rows = [tuple(name.split("/")) for name in tree.names if is_image(name)]
    top = {parts[0] for parts in rows if len(parts) > 1}
    divided = top == {"train", "test"}
    if not divided and top & {"train", "test"} and all(len(parts) > 2 for parts in rows):
        raise DataError(
            f"{path} holds {', '.join(sorted(top))}; with train/ there must be test/ and nothing "
            "else, or put the class folders directly inside."
        )
    depth = 1 if divided else 0
    rows = [parts for parts in rows if len(parts) > depth + 1]
    if not rows:
        raise DataError(
            f"{path} has no images in class sub-folders; expected CLASS/NAME or train/CLASS/NAME "
            f"and test/CLASS/NAME with names ending in {', '.join(SUFFIXES)}."
        )
    class_names = tuple(
        sorted({parts[depth] for parts in rows if parts[0] != "test" or not divided})
    )
    _check_classes(tree, class_names, {parts[depth] for parts in rows})
    number = {name: label for label, name in enumerate(class_names)}
    labels = np.array([number[parts[depth]] for parts in rows], np.int64)
    images = read_images(tree, ["/".join(parts) for parts in rows], size, channels=None)
    if divided:
        held_out = np.array([parts[0] == "test" for parts in rows])
        train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    else:
        train, test = stratified_test_part(labels, "folder")
    mean, std = channel_statistics(images[train])
    return Dataset(
        name=path.stem or spec.name,
        kind="image",
        train=Split(images[train], labels[train]),
        test=Split(images[test], labels[test]),
        class_names=class_names,
        mean=mean,
        std=std,
    )


def _check_classes(tree: Tree, trained: tuple[str, ...], everything: set[str]) -> None:
    unseen = sorted(everything - set(trained))
    if unseen:
        raise DataError(
            f"{tree.path}: test/ has the classes {', '.join(unseen)}, which train/ has not; add "
            "training images or remove them."
        )
    if len(trained) < 2:
        raise DataError(
            f"{tree.path} has the single class '{trained[0]}'; at least two are needed."
        )
