"""Office-Caltech10: ten kinds of objects photographed in four worlds."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array, Dataset, Split
from fedcord.data.formats.images import is_image, read_images
from fedcord.data.formats.tree import Tree, open_tree
from fedcord.data.locate import Search, Wanted
from fedcord.data.sources.mnist_m import IMAGENET_MEAN, IMAGENET_STD
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec

DOMAINS = ("amazon", "caltech", "dslr", "webcam")
_SPELLINGS = {"caltech10": "caltech", **{name: name for name in DOMAINS}}


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Objects, uint8 [N, 3, size, size] (32 by default), with group "domain".

    There is no official split: a fixed 80/20 one is made within each class of each domain.
    """
    size = spec.integer("size", 32, 8, 512)
    found = search.require(
        Wanted(
            dataset=spec.name,
            places=(
                "office-caltech10",
                "office-caltech10.zip",
                "office-caltech10-[0-9]*",
                "office_caltech_10",
                "office_caltech_10.zip",
            ),
            advice="fetch Office-Caltech10 (Gong et al. 2012) from its authors as folders "
            "domain/class/image or a zip of them",
        )
    )
    tree = open_tree(found.path, found.root)
    names, domains, class_of = _index(tree)
    class_names = tuple(sorted(set(class_of)))
    labels = np.searchsorted(np.array(class_names), np.array(class_of)).astype(np.int64)
    pictures = read_images(tree, names, size)
    images = pictures.pixels
    train, test = stratified_test_part(domains * len(class_names) + labels, spec.name)
    return Dataset(
        name=spec.name,
        kind="image",
        train=Split(images[train], labels[train], {"domain": domains[train]}),
        test=Split(images[test], labels[test], {"domain": domains[test]}),
        class_names=class_names,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        group_names={"domain": DOMAINS},
        notes=pictures.notes,
        grey=pictures.grey,
    )


def _index(tree: Tree) -> tuple[list[str], Array, list[str]]:
    """Image names, their domain numbers [N] and their class names."""
    names, domains, classes = [], [], []
    for name in tree.names:
        parts = [part.lower() for part in PurePosixPath(name).parts]
        domain = next((part for part in parts[:-2] if part in _SPELLINGS), None)
        if domain is not None and is_image(name):
            names.append(name)
            domains.append(DOMAINS.index(_SPELLINGS[domain]))
            classes.append(PurePosixPath(name).parts[-2])
    found = {
        domain: {c for d, c in zip(domains, classes, strict=True) if DOMAINS[d] == domain}
        for domain in DOMAINS
    }
    everything = set().union(*found.values())
    for domain, there in found.items():
        if there != everything or not there:
            lacking = ", ".join(sorted(everything - there)) or "every class"
            raise DataError(
                f"{tree.path}: domain '{domain}' has no images of {lacking}; expected "
                "domain/class/image with the same classes in amazon, caltech (or caltech10), dslr "
                "and webcam: complete the folder."
            )
    return names, np.array(domains, np.int64), classes
