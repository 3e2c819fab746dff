"""The user's own arrays: `npz:PATH`, and data sets published in the same layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.dataset import STANDARD, Array, Dataset, Kind, Labels, Split
from fedcord.data.formats.images import channel_statistics
from fedcord.data.formats.npz import read_npz
from fedcord.data.locate import Search
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec
from fedcord.data.vocabulary import Vocabulary

_CHANNELS = (1, 3, 4)
_NAMES, _WORDS = "class_names", "words"
_LARGEST_LABEL = 2**53  # the whole numbers that float64 holds exactly
_LARGEST_VOCABULARY = 10_000_000


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Images or vectors from an npz file.

    Layouts: `x_train y_train x_test y_test`; or `x y`, of which a fixed stratified fifth becomes
    the test part; or MedMNIST's `train_images train_labels [val_*] test_images test_labels`, with
    the validation part merged into training. Further one-dimensional arrays become groups (`user`
    beside `x y`, or `user_train` and `user_test`). Labels and groups may be whole numbers or
    strings; the classes are those that occur, and `class_names` may name them. uint8 arrays with
    three or four axes are images; two axes are vectors, or token ids with `?kind=text`. Beside
    token ids `words` may list the words of a `Vocabulary` that made them.
    """
    path = user_path(spec.path)
    layout = spec.choice("layout", "auto", ("auto", "nhwc", "nchw"))
    kind = spec.choice("kind", "auto", ("auto", "text"))
    scale = spec.scale(STANDARD)
    arrays = dict(read_npz(path))
    given_names = arrays.pop(_NAMES, None)
    given_words = arrays.pop(_WORDS, None) if kind == "text" else None
    parts = _parts(path, arrays)
    train_x, train_y, train_groups = parts[0]
    test_x, test_y, test_groups = parts[-1] if len(parts) > 1 else (None, None, {})

    labels, class_names = _classes(path, [train_y, test_y], given_names)
    inputs, resolved = _inputs(path, [train_x, test_x], layout, kind)
    groups: list[dict[str, Labels]] = [{}, {}]
    group_names: dict[str, tuple[str, ...]] = {}
    for name, values in train_groups.items():
        numbers, called = _ranked(path, f"group '{name}'", [values, test_groups.get(name)])
        for target, column in zip(groups, numbers, strict=False):
            target[name] = column
        group_names[name] = called
    if len(inputs) == 1:
        _check_rows(path, inputs[0], labels[0], groups[0])
        rows = stratified_test_part(labels[0], "npz")
        splits = [
            Split(inputs[0][r], labels[0][r], {k: v[r] for k, v in groups[0].items()}) for r in rows
        ]
    else:
        splits = [Split(x, y, g) for x, y, g in zip(inputs, labels, groups, strict=True)]
    mean, std = channel_statistics(splits[0].inputs) if resolved == "image" else ((), ())
    words = None if given_words is None else _words(path, given_words, inputs[0])
    vocabulary = _vocabulary(path, splits) if resolved == "text" else 0
    return Dataset(
        name=path.stem,
        kind=resolved,
        train=splits[0],
        test=splits[1],
        class_names=class_names,
        mean=mean,
        std=std,
        group_names=group_names,
        vocabulary=vocabulary if words is None else words.size,
        words=words,
        scale=scale,
    )


@dataclass(frozen=True)
class NewRows:
    """Examples to be predicted.

    Attributes:
        inputs: as they are stored.
        kind: what they are.
        ids: [N] what each is called, if the file says so.
        classes: [N] the name of each one's class, if the file says so.
        has_names: whether classes have names rather than numbers.
    """

    inputs: Array
    kind: Kind
    ids: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    has_names: bool = False


def read_new_rows(spec: DatasetSpec, kind: Kind) -> NewRows:
    """The inputs `x` of an npz file, with `id` and `y` if it has them.

    Args:
        spec: the file, and how its images are laid out.
        kind: what the model takes; two axes of whole numbers may be vectors or token ids.
    """
    path = user_path(spec.path)
    arrays = dict(read_npz(path))
    if "x" not in arrays:
        raise DataError(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or 'none'}; expected x, the "
            "examples to predict."
        )
    layout = spec.choice("layout", "auto", ("auto", "nhwc", "nchw"))
    wanted = spec.choice("kind", "text" if kind == "text" else "auto", ("auto", "text"))
    if kind == "text" and arrays["x"].dtype.kind == "U" and arrays["x"].ndim == 1:
        read: tuple[list[Array], Kind] = [arrays["x"]], "text"  # texts as they are written
    else:
        read = _inputs(path, [arrays["x"]], layout, wanted)
    inputs, found = read
    columns = {}
    for name in ("id", "y"):
        column = arrays.get(name)
        if column is None:
            continue
        if column.size != len(inputs[0]):
            raise DataError(
                f"{path}: {name} has shape {list(column.shape)}; give one for each example."
            )
        columns[name] = column.reshape(-1)
    ids, labels = columns.get("id"), columns.get("y")
    return NewRows(
        inputs[0],
        found,
        None if ids is None else tuple(map(_word, ids.tolist())),
        None if labels is None else _class_words(path, labels, arrays.get(_NAMES)),
        labels is not None and (labels.dtype.kind in "US" or _NAMES in arrays),
    )


def _class_words(path: Path, labels: Array, given: Array | None) -> tuple[str, ...]:
    if labels.dtype.kind in "US":
        return tuple(map(_word, labels.tolist()))
    (numbers,) = _whole(path, [labels])
    names = () if given is None else tuple(map(_word, given.reshape(-1).tolist()))
    return tuple(names[n] if n < len(names) else str(n) for n in numbers.tolist())


def arrays_to_splits(path: Path, root: Path) -> tuple[Split, Split]:
    """Training and test images of a published npz file with whole-number labels."""
    parts = _parts(path, dict(read_npz(path, root)))
    if len(parts) != 2:
        raise DataError(f"{path} has no test part; expected x_train, y_train, x_test and y_test.")
    inputs, kind = _inputs(path, [part[0] for part in parts], "auto", "auto")
    if kind != "image":
        raise DataError(
            f"{path} holds {parts[0][0].dtype} {list(parts[0][0].shape)}; expected uint8 images."
        )
    labels = _whole(path, [part[1] for part in parts])
    return Split(inputs[0], labels[0]), Split(inputs[1], labels[1])


_Part = tuple[Array, Array, Mapping[str, Array]]


def _parts(path: Path, arrays: Mapping[str, Array]) -> list[_Part]:
    """One part to be divided, or a training and a test part: inputs, labels, groups."""
    keys = set(arrays)
    if {"x_train", "y_train", "x_test", "y_test"} <= keys:
        groups = _extra(arrays, "_train"), _extra(arrays, "_test")
        used = {f"{name}_train" for name in ("x", "y", *groups[0])}
        unused = sorted(keys - used - {f"{name.removesuffix('_train')}_test" for name in used})
        if unused:
            raise DataError(
                f"{path}: nothing uses the arrays {', '.join(unused)}; name a group NAME_train and "
                "NAME_test, or remove them."
            )
        return [
            (arrays["x_train"], arrays["y_train"], groups[0]),
            (arrays["x_test"], arrays["y_test"], groups[1]),
        ]
    if {"train_images", "train_labels", "test_images", "test_labels"} <= keys:
        return _medical(path, arrays)
    if {"x", "y"} <= keys:
        rest = {key: array for key, array in arrays.items() if key not in ("x", "y")}
        return [(arrays["x"], arrays["y"], rest)]
    raise DataError(
        f"{path} holds the arrays {', '.join(sorted(keys)) or 'none'}; expected x_train, y_train, "
        "x_test, y_test, or x, y, or MedMNIST's train_images, train_labels, test_images, "
        "test_labels."
    )


def _extra(arrays: Mapping[str, Array], ending: str) -> dict[str, Array]:
    return {
        key.removesuffix(ending): array
        for key, array in arrays.items()
        if key.endswith(ending) and key not in (f"x{ending}", f"y{ending}")
    }


def _medical(path: Path, arrays: Mapping[str, Array]) -> list[_Part]:
    images, labels = [arrays["train_images"]], [arrays["train_labels"]]
    if "val_images" in arrays and "val_labels" in arrays:
        images.append(arrays["val_images"])
        labels.append(arrays["val_labels"])
    if images[0].ndim == 0 or any(part.shape[1:] != images[0].shape[1:] for part in images):
        raise DataError(
            f"{path}: train_images and val_images have the shapes "
            f"{' and '.join(str(list(part.shape)) for part in images)}; bring them to one image "
            "size."
        )
    return [
        (np.concatenate(images), np.concatenate(_flat(path, "labels", labels)), {}),
        (arrays["test_images"], arrays["test_labels"], {}),
    ]


def _inputs(
    path: Path, arrays: list[Array | None], layout: str, kind: str
) -> tuple[list[Array], Kind]:
    present = [array for array in arrays if array is not None]
    first = present[0]
    if kind == "text":
        if first.ndim != 2 or any(array.dtype.kind not in "iu" for array in present):
            raise DataError(
                f"{path}: kind=text needs whole numbers [N, L], found {first.dtype} "
                f"{list(first.shape)}."
            )
        return [array.astype(np.int64) for array in present], "text"
    if first.ndim == 2 and all(array.dtype.kind in "iufb" for array in present):
        with np.errstate(over="ignore"):  # what overflows is reported by row as infinite
            return [array.astype(np.float32) for array in present], "vector"
    if first.ndim in (3, 4) and all(array.dtype == np.uint8 for array in present):
        order = _layout(path, first, layout)
        return [_channels_first(array, order) for array in present], "image"
    raise DataError(
        f"{path}: inputs are {first.dtype} {list(first.shape)}; allowed are uint8 images "
        "[N, H, W], [N, H, W, C] or [N, C, H, W], and "
        "number vectors [N, D]: scale float images to 0..255 and "
        "convert them with .astype('uint8')."
    )


def _layout(path: Path, images: Array, layout: str) -> str:
    if images.ndim == 3 or layout != "auto":
        return layout
    last, second = images.shape[3] in _CHANNELS, images.shape[1] in _CHANNELS
    if last == second:
        raise DataError(
            f"{path}: images of shape {list(images.shape)} can be read two ways or none; the "
            f"channel axis must have {', '.join(map(str, _CHANNELS))} entries: add ?layout=nhwc or "
            "?layout=nchw."
        )
    return "nhwc" if last else "nchw"


def _channels_first(images: Array, order: str) -> Array:
    if images.ndim == 3:
        return images[:, None].copy()
    if images.ndim == 4 and order == "nhwc":
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images


def _classes(
    path: Path, columns: list[Array | None], given: Array | None
) -> tuple[list[Labels], tuple[str, ...]]:
    """Labels from 0 and the name of each: those that occur, in ascending order.

    Whole numbers may begin anywhere and leave gaps. Given names are those of the numbers 0, 1, …,
    or, where labels begin elsewhere, those of the numbers that occur.
    """
    flat = _flat(path, "labels", columns)
    if all(column.dtype.kind in "US" for column in flat):
        return _ranked(path, "labels", columns)
    numbers = _whole(path, columns)
    values = np.unique(np.concatenate(numbers))
    if given is None:
        names = tuple(str(value) for value in values)
    else:
        names = tuple(_word(value) for value in given.reshape(-1))
        if len(values) != len(names) or values[-1] < len(names):
            return numbers, names
    return [np.searchsorted(values, column).astype(np.int64) for column in numbers], names


def _whole(path: Path, columns: list[Array | None]) -> list[Labels]:
    """Labels that are whole numbers from 0, as they are."""
    numbers = []
    for column in _flat(path, "labels", columns):
        whole = column.dtype.kind in "iub" or (
            column.dtype.kind == "f"
            and bool(np.all(np.isfinite(column) & (column == np.rint(column))))
        )
        if not whole:
            raise DataError(
                f"{path}: labels are {column.dtype}; expected whole numbers from 0, or strings."
            )
        low, top = (column.min().item(), column.max().item()) if column.size else (0, 0)
        if low < 0 or top > _LARGEST_LABEL:
            raise DataError(
                f"{path}: labels run from {low} to {top}; expected whole numbers from 0 to "
                f"{_LARGEST_LABEL}, or strings."
            )
        numbers.append(column.astype(np.int64))
    return numbers


def _ranked(
    path: Path, what: str, columns: list[Array | None]
) -> tuple[list[Labels], tuple[str, ...]]:
    """Every value (a word, a user number of any size) by its rank, and the values as names."""
    flat = _flat(path, what, columns)
    if any(column.dtype.kind not in "USiub" for column in flat):
        raise DataError(f"{path}: {what} are {flat[0].dtype}; expected whole numbers or strings.")
    values = np.unique(np.concatenate(flat))
    names = tuple(_word(value) for value in values)
    return [np.searchsorted(values, column).astype(np.int64) for column in flat], names


def _word(value: object) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return readable(text)


def _vocabulary(path: Path, splits: list[Split]) -> int:
    """One more than the largest token id; a table of that many rows is part of the network."""
    top = max((int(split.inputs.max()) for split in splits if split.inputs.size), default=0)
    if top >= _LARGEST_VOCABULARY:
        raise DataError(
            f"{path}: token ids run to {top}; allowed are 0 to {_LARGEST_VOCABULARY - 1}: number "
            "the tokens that occur from 1."
        )
    return 1 + top


def _words(path: Path, given: Array, inputs: Array) -> Vocabulary:
    if given.dtype.kind != "U" or given.ndim != 1:
        raise DataError(
            f"{path}: {_WORDS} are {given.dtype} {list(given.shape)}; expected the words with the "
            "token ids 2, 3 and so on."
        )
    try:
        return Vocabulary(tuple(given.tolist()), inputs.shape[1])
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _flat(path: Path, what: str, columns: Sequence[Array | None]) -> list[Array]:
    present = [column for column in columns if column is not None]
    for column in present:
        if column.ndim == 0 or column.size != len(column):
            raise DataError(f"{path}: {what} have shape {list(column.shape)}; expected [N].")
    if len({"n" if column.dtype.kind in "iubf" else column.dtype.kind for column in present}) > 1:
        found = " and ".join(str(column.dtype) for column in present)
        raise DataError(f"{path}: {what} are {found} in different parts; use one type for all.")
    return [column.reshape(-1) for column in present]


def _check_rows(path: Path, inputs: Array, labels: Labels, groups: Mapping[str, Labels]) -> None:
    """What must be said in terms of the file's rows, before they are divided."""
    for name, column in {"y": labels, **groups}.items():
        if len(column) != len(inputs):
            raise DataError(
                f"{path}: '{name}' has {len(column)} rows but x has {len(inputs)}; give one each."
            )
    finite = np.isfinite(inputs).all(axis=1) if inputs.ndim == 2 else np.ones(1, bool)
    if not finite.all():
        raise DataError(
            f"{path}: x holds NaN or infinity, first in row {int(np.argmin(finite))}; clean or "
            "impute the data."
        )
