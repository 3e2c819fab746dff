"""Tiny-ImageNet: 64x64 photographs of up to 200 classes, in the official folder layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.images import Pictures, is_image, read_images
from fedcord.data.formats.tree import Tree, open_tree
from fedcord.data.locate import Search, Wanted
from fedcord.data.spec import DatasetSpec

_ANNOTATIONS = "val/val_annotations.txt"


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Photographs, uint8 [N, 3, 64, 64]; the validation set is the test part.

    The official test labels are not public, so everyone tests on the validation set. A copy with
    fewer classes is fine.
    """
    found = search.require(
        Wanted(
            dataset=spec.name,
            places=(
                "tiny-imagenet-200",
                "tiny-imagenet-200.zip",
                "tiny-imagenet",
                "tiny-imagenet-[0-9]*",
            ),
            remote=(
                RemoteFile(
                    url="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                    path="tiny-imagenet-200.zip",
                    checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
                    size=248_100_043,
                ),
            ),
        )
    )
    tree = open_tree(found.path, found.root)
    top = _top(tree)
    train, classes = _train(tree, top)
    test = _validation(tree, top, classes)
    size = spec.integer("size", 64, 8, 512)
    pictures = [read_images(tree, [name for name, _ in rows], size) for rows in (train, test)]
    return Dataset(
        name=spec.name,
        kind="image",
        train=_split(pictures[0], train),
        test=_split(pictures[1], test),
        class_names=_class_names(tree, top, classes),
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        notes=tuple(note for part in pictures for note in part.notes),
    )


def _top(tree: Tree) -> str:
    """What precedes `train/` and `val/` in the names of the tree."""
    for name in tree.names:
        if name == _ANNOTATIONS or name.endswith(f"/{_ANNOTATIONS}"):
            return name.removesuffix(_ANNOTATIONS)
    raise DataError(
        f"{tree.path} has no {_ANNOTATIONS}; the official layout has train/CLASS/images/ and "
        "val/images/ beside that file: unpack the original archive, or use it packed."
    )


def _train(tree: Tree, top: str) -> tuple[list[tuple[str, int]], Mapping[str, int]]:
    prefix = f"{top}train/"
    names = [name for name in tree.names if name.startswith(prefix) and is_image(name)]
    of = [name[len(prefix) :].partition("/")[0] for name in names]
    classes = {wordnet: number for number, wordnet in enumerate(sorted(set(of)))}
    if not classes:
        raise DataError(f"{tree.path} has no images under {prefix}; fetch the archive again.")
    return [(name, classes[wordnet]) for name, wordnet in zip(names, of, strict=True)], classes


def _validation(tree: Tree, top: str, classes: Mapping[str, int]) -> list[tuple[str, int]]:
    present = set(tree.names)
    rows = []
    for number, line in enumerate(_lines(tree, top + _ANNOTATIONS), 1):
        file, _, rest = line.partition("\t")
        wordnet = rest.partition("\t")[0]
        if not wordnet:
            raise DataError(
                f"{tree.path}: {top}{_ANNOTATIONS} line {number} is not 'file<tab>class<tab>…'; "
                "fetch it again."
            )
        name = f"{top}val/images/{file}"
        if wordnet in classes:
            if name not in present:
                raise DataError(
                    f"{tree.path}: {name} is listed in {_ANNOTATIONS} but missing; fetch it again."
                )
            rows.append((name, classes[wordnet]))
    return rows


def _class_names(tree: Tree, top: str, classes: Mapping[str, int]) -> tuple[str, ...]:
    words = {}
    if f"{top}words.txt" in tree.names:
        lines = _lines(tree, f"{top}words.txt")
        words = {
            wordnet: text.partition(",")[0]
            for wordnet, _, text in (line.partition("\t") for line in lines)
        }
    return tuple(words.get(wordnet) or wordnet for wordnet in classes)


def _lines(tree: Tree, name: str) -> list[str]:
    return [
        line for line in tree.read(name).decode("utf-8", "replace").splitlines() if line.strip()
    ]


def _split(pictures: Pictures, rows: list[tuple[str, int]]) -> Split:
    return Split(pictures.pixels, np.array([label for _, label in rows], np.int64))
