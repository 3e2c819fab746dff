"""The user's own pictures: `folder:PATH`, one sub-folder per class, or per group and class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.dataset import Array, Dataset, Labels, Split
from fedcord.data.formats.images import (
    SUFFIXES,
    channel_statistics,
    first_few,
    is_image,
    read_images,
)
from fedcord.data.formats.tree import Tree, open_tree
from fedcord.data.grey_range import stated_range
from fedcord.data.locate import Search
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec

PARTS = ("train", "test")


@dataclass(frozen=True)
class _Layout:
    """Which levels of folders stand above a picture.

    Attributes:
        is_divided: whether the first is `train` or `test`.
        group: what the next stands for, such as `hospital`; empty when it is the class already.
    """

    is_divided: bool
    group: str

    @property
    def class_level(self) -> int:
        return self.is_divided + bool(self.group)

    @property
    def form(self) -> str:
        """How a picture's name must look below the folder."""
        inner = f"{self.group.upper()}/CLASS/NAME" if self.group else "CLASS/NAME"
        return f"train/{inner} and test/{inner}" if self.is_divided else inner


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Pictures resized to uint8 [N, C, size, size] (`?size=`, 32 by default).

    The folder (or zip archive) holds class folders, of which a fixed stratified fifth becomes the
    test part, or `train/` and `test/` with the same class folders. With `?group=hospital` class
    folders lie in folders that stand for hospitals, and rows carry the group "hospital". All-grey
    collections keep one channel. `?range=0:4095` says which values of pictures with more than 8
    bits are black and white, which they decide themselves otherwise.
    """
    size, grey = spec.integer("size", 32, 4, 1024), stated_range(spec)
    path = user_path(spec.path)
    if not path.exists():
        raise DataError(f"{path} does not exist; give a folder with one sub-folder per class.")
    tree = open_tree(path)
    layout = _layout(tree, spec.options.get("group", ""))
    level = layout.class_level
    rows, stray = _rows(tree, layout)
    class_names = _class_names(tree, layout, rows)
    labels = _numbered([row[level] for row in rows], class_names)
    groups, group_names = {}, {}
    if layout.group:
        group_names[layout.group] = tuple(sorted({row[level - 1] for row in rows}))
        of = [row[level - 1] for row in rows]
        groups[layout.group] = _numbered(of, group_names[layout.group])
    pictures = read_images(tree, ["/".join(row) for row in rows], size, None, grey)
    if layout.is_divided:
        held_out = np.array([row[0] == "test" for row in rows])
        train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    else:
        strata = labels
        for group in groups.values():
            strata = group * len(class_names) + labels
        train, test = stratified_test_part(strata, "folder")
    files = [readable("/".join(row)) for row in rows]

    def split(part: Array) -> Split:
        own = {name: values[part] for name, values in groups.items()}
        return Split(pictures.pixels[part], labels[part], own, tuple(files[row] for row in part))

    mean, std = channel_statistics(pictures.pixels[train])
    return Dataset(
        name=readable(path.stem) or spec.name,
        kind="image",
        train=split(train),
        test=split(test),
        class_names=tuple(map(readable, class_names)),
        mean=mean,
        std=std,
        group_names={name: tuple(map(readable, words)) for name, words in group_names.items()},
        notes=(*_left_out(tree, layout, rows, stray), *pictures.notes),
        grey=pictures.grey,
    )


def _layout(tree: Tree, group: str) -> _Layout:
    images = [PurePosixPath(name).parts for name in tree.names if is_image(name)]
    top = {parts[0] for parts in images if len(parts) > 1}
    is_divided = top == set(PARTS)
    if not is_divided and top & set(PARTS) and all(len(parts) > 2 for parts in images):
        raise DataError(
            f"{tree.path} holds {', '.join(sorted(top))}; with train/ there must be test/ and "
            "nothing else, or put the class folders directly inside."
        )
    return _Layout(is_divided, group)


def _rows(tree: Tree, layout: _Layout) -> tuple[list[tuple[str, ...]], list[str]]:
    """The pictures of classes, and the files that are none."""
    depth = layout.class_level + 2
    rows, stray, deeper = [], [], set()
    for name in tree.names:
        parts = PurePosixPath(name).parts
        if not is_image(name) or len(parts) < depth:
            stray.append(name)
        elif len(parts) > depth:
            deeper.add("/".join(parts[: depth - 1]))
        else:
            rows.append(parts)
    if deeper:
        advice = "put the pictures directly into them"
        if not layout.group:
            advice = (
                "if the outer folders are sites rather than classes, write ?group=NAME after the "
                f"path, as in ?group=hospital; otherwise {advice}"
            )
        raise DataError(
            f"{tree.path}: class folders hold folders ({first_few(sorted(deeper))}), where "
            f"{layout.form} was expected; {advice}."
        )
    if not rows:
        raise DataError(
            f"{tree.path} has no images in class sub-folders; expected {layout.form}, or the same "
            f"below train/ and test/, with names ending in {', '.join(SUFFIXES)}."
        )
    return rows, stray


def _class_names(tree: Tree, layout: _Layout, rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    level = layout.class_level
    trained = sorted({row[level] for row in rows if row[0] != "test" or not layout.is_divided})
    unseen = sorted({row[level] for row in rows} - set(trained))
    if unseen:
        raise DataError(
            f"{tree.path}: test/ has the classes {', '.join(unseen)}, which train/ has not; add "
            "training images or remove them."
        )
    if len(trained) < 2:
        raise DataError(
            f"{tree.path} has the single class '{trained[0]}'; at least two are needed."
        )
    return tuple(trained)


def _numbered(words: Iterable[str], names: tuple[str, ...]) -> Labels:
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[word] for word in words], np.int64)


def _left_out(
    tree: Tree, layout: _Layout, rows: list[tuple[str, ...]], stray: list[str]
) -> tuple[str, ...]:
    """One note on folders without pictures and files that are no class's pictures."""
    used = {row[:depth] for row in rows for depth in range(1, len(row))}
    folders = [PurePosixPath(name).parts for name in tree.folders]
    empty = [
        "/".join(parts)
        for parts in folders
        if len(parts) <= layout.class_level + 1 and parts not in used
    ]
    found = []
    if empty:
        found.append(f"folders without pictures: {first_few(list(map(readable, empty)))}")
    if stray:
        found.append(
            f"files that are no picture in a class folder: {first_few(list(map(readable, stray)))}"
        )
    return (f"left out of {tree.path.name}: {'; '.join(found)}.",) if found else ()
