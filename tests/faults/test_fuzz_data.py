"""Whatever a file or folder holds, it is loaded or refused in words; nothing else is raised."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedcord.core.errors import ConfigError, DataError
from fedcord.data import load_dataset
from tests.faults.budget import examples

LOADERS = ("", "?kind=text", "?layout=nhwc", "?layout=nchw", "?scale=none")
KEYS = (
    *("x", "y", "x_train", "y_train", "x_test", "y_test", "class_names", "user", "user_train"),
    *("user_test", "train_images", "train_labels", "val_images", "val_labels", "test_images"),
    *("test_labels", "ÿ", "../up", ""),
)

fuzzed = settings(
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def loads_or_refuses(spec: str) -> None:
    """The promise under test."""
    with contextlib.suppress(DataError, ConfigError):
        load_dataset(spec)


def _load_npz(data: bytes, option: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.npz"
        path.write_bytes(data)
        loads_or_refuses(f"npz:{path}{option}")


def _npz(arrays: dict[str, Any], compressed: bool = False) -> bytes:
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", content.getvalue())
    return buffer.getvalue()


def _good(images: bool, compressed: bool) -> bytes:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (6, 5, 4), dtype=np.uint8) if images else rng.normal(size=(6, 3))
    y = np.array([0, 1, 2, 0, 1, 2])
    return _npz({"x": x, "y": y, "user": np.array(list("aabbcc"))}, compressed)


_shapes = npst.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
_dtypes = st.one_of(
    npst.scalar_dtypes(),
    npst.unicode_string_dtypes(max_len=3),
    npst.byte_string_dtypes(max_len=3),
    st.just(np.dtype([("a", "i4"), ("b", "f8")])),
    st.just(np.dtype(object)),
)
_any_array = _dtypes.flatmap(
    lambda dtype: (
        st.just(np.array([{}, None], object))
        if dtype.hasobject
        else npst.arrays(dtype, _shapes, fill=st.nothing())
    )
)


@st.composite
def _nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """Arrays of one of the layouts with the right number of rows, of odd types and values."""
    rows = draw(st.integers(0, 5))
    layout = draw(
        st.sampled_from(
            (
                ("x", "y"),
                ("x_train", "y_train", "x_test", "y_test"),
                ("train_images", "train_labels", "test_images", "test_labels"),
                (
                    *("train_images", "train_labels", "val_images", "val_labels"),
                    *("test_images", "test_labels"),
                ),
            )
        )
    )
    inner = draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    kind = draw(st.sampled_from([np.uint8, np.float32, np.float64, np.int64, np.float16, np.bool_]))
    arrays: dict[str, Any] = {}
    for name in layout:
        if "y" in name or "labels" in name:
            shape = draw(st.sampled_from([(rows,), (rows, 1), (rows, 2), (rows + 1,)]))
            values = st.integers(-1, 3) | st.integers(-(2**63), 2**63 - 1)
            column = npst.arrays(np.int64, shape, elements=values)
            words = npst.arrays(npst.unicode_string_dtypes(max_len=2), shape)
            arrays[name] = draw(
                column
                | words
                | npst.arrays(npst.byte_string_dtypes(max_len=2), shape)
                | npst.arrays(npst.floating_dtypes() | npst.unsigned_integer_dtypes(), shape)
            )
        else:
            arrays[name] = draw(npst.arrays(kind, (rows, *inner)))
    if draw(st.booleans()):
        arrays["class_names"] = draw(npst.arrays(npst.unicode_string_dtypes(max_len=2), (3,)))
    return arrays


@seed(13)
@settings(fuzzed, max_examples=examples(40))
@given(
    st.dictionaries(st.sampled_from(KEYS), _any_array, max_size=6),
    st.sampled_from(LOADERS),
)
def test_any_arrays(arrays: dict[str, Any], option: str) -> None:
    _load_npz(_npz(arrays), option)


@seed(13)
@settings(fuzzed, max_examples=examples(40))
@given(_nearly_right(), st.sampled_from(LOADERS))
def test_arrays_that_are_nearly_right(arrays: dict[str, Any], option: str) -> None:
    _load_npz(_npz(arrays), option)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes changed, cut out, repeated or cut off; mostly where headers are."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(changed) - 1)))
        how = draw(st.sampled_from(["change", "number", "drop", "repeat", "end"]))
        if how == "change":
            changed[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
        elif how == "number":
            changed[place : place + 4] = draw(st.sampled_from([b"\0" * 4, b"\xff" * 4, b"\0\0\0@"]))
        elif how == "drop":
            del changed[place : place + draw(st.integers(1, 30))]
        elif how == "repeat":
            changed[place:place] = changed[place : place + draw(st.integers(1, 30))]
        else:
            del changed[place:]
    return bytes(changed)


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from(LOADERS))
def test_damaged_npz(data: st.DataObject, images: bool, compressed: bool, option: str) -> None:
    _load_npz(data.draw(damaged(_good(images, compressed))), option)


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(
    st.text(
        st.sampled_from("{}()[]'\",: 0123456789<>|fiuOVUSdescrshapefortran_orderTrueFalse-LNone\n"),
        max_size=70,
    )
    | st.builds(
        "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}".format,
        st.sampled_from(["<f8", "|O", "<U0", "<U999999999", ">i2", "|V0", "<M8[s]", "?", "x", ""]),
        st.sampled_from(["True", "False", "3"]),
        st.lists(st.integers(-2, 10**20), max_size=3).map(tuple),
    ),
    st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 9)]),
)
def test_damaged_array_header(header: str, version: tuple[int, int]) -> None:
    width = 2 if version == (1, 0) else 4
    text = header.encode()
    array = b"\x93NUMPY" + bytes(version) + len(text).to_bytes(width, "little") + text + b"\0" * 48
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", array)
        archive.writestr("y.npy", array)
    _load_npz(buffer.getvalue(), "")


def _pictures() -> list[bytes]:
    from PIL import Image

    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = 6
    colour = Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8))
    wide = Image.fromarray(rng.integers(0, 4096, (6, 5), dtype=np.uint16))
    real = Image.fromarray(rng.normal(size=(6, 5)).astype(np.float32))
    made = []
    for picture, form in (
        *((colour, form) for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")),
        *((wide, "PNG"), (wide, "TIFF"), (real, "TIFF")),
    ):
        buffer = io.BytesIO()
        picture.save(buffer, form, **({"exif": exif} if form in ("JPEG", "PNG") else {}))
        made.append(buffer.getvalue())
    return made


PICTURES = _pictures()
_part = st.sampled_from(
    ["a", "b", "train", "test", "Köln", "北", "[x]", "a b", ".hidden", "é\u0301"]
)
_file = st.sampled_from(["0.png", "1.jpg", "2.tif", "x.txt", "noending", "3.PNG"])
_names = st.lists(_part, max_size=4).flatmap(
    lambda parts: _file.map(lambda file: "/".join((*parts, file)))
)
_contents = st.one_of(
    st.sampled_from(PICTURES),
    st.sampled_from(PICTURES).flatmap(damaged),
    st.binary(max_size=20),
)


@seed(13)
@settings(fuzzed, max_examples=examples(30))
@given(
    st.dictionaries(_names, _contents, max_size=8),
    st.sampled_from(["", "?group=hospital", "?size=4", "?size=4&group=site"]),
    st.booleans(),
)
def test_folders_of_pictures(files: dict[str, bytes], option: str, as_zip: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "pictures"
        root.mkdir()
        if as_zip:
            root = root / "all.zip"
            with zipfile.ZipFile(root, "w") as archive:
                for name, content in files.items():
                    archive.writestr(name, content)
        else:
            for name, content in files.items():
                with contextlib.suppress(OSError):  # a file where another name needs a folder
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_bytes(content)
        loads_or_refuses(f"folder:{root}{option}")


@seed(13)
@settings(fuzzed, max_examples=examples(30))
@given(st.sampled_from(PICTURES).flatmap(damaged))
def test_damaged_pictures(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("a/0.png", PICTURES[0]), ("b/0.png", content)):
            (Path(folder) / name).parent.mkdir()
            (Path(folder) / name).write_bytes(data)
        loads_or_refuses(f"folder:{folder}?size=4")


@seed(13)
@settings(fuzzed, max_examples=examples(60))
@given(
    st.sampled_from(["npz:", "folder:", "mnist", ""]),
    st.text(max_size=15) | st.sampled_from(["~nouser/x", "/dev/zero", "\udce9", "a\0b", "a" * 300]),
    st.text(max_size=10) | st.sampled_from(["?size=9", "?group=", "?scale=x", "?scale=none"]),
)
def test_any_name(prefix: str, path: str, options: str) -> None:
    loads_or_refuses(f"{prefix}{path}{options}")
