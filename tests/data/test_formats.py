"""Each format: a small file written by hand, read back, then damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data.checksum import Official
from fedcord.data.formats.cifar_binary import read_cifar
from fedcord.data.formats.gzipped import unpacked
from fedcord.data.formats.idx import read_idx
from fedcord.data.formats.labelled_csv import read_labelled_csv
from fedcord.data.formats.libsvm import read_libsvm
from fedcord.data.formats.mat import read_digit_mat
from fedcord.data.formats.npz import read_npz

WHERE = Path("some.file")


def _idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_idx_is_read_plain_and_packed(packed: bool, tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(_idx(images)) if packed else _idx(images))
    np.testing.assert_array_equal(read_idx(path, 3), images)
    with pytest.raises(DataError, match="size of the official file"):
        read_idx(path, 3, official=Official(len(_idx(images)), "0" * 64))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_idx(np.zeros((2, 3, 4), np.uint8))[:-1], r"\[2, 3, 4\], that is 40 bytes, but it has 39"),
        (_idx(np.zeros((2, 3, 4), np.uint8)) + b"x", "that is 40 bytes, but it has 41"),
        (_idx(np.zeros((2, 3, 4), np.uint8))[:9], "bytes, but it has 9"),
        (_idx(np.zeros(4, np.uint8)), "starts with bytes 00 00 08 01, expected 00 00 08 03"),
        (b"", "starts with bytes none"),
    ],
)
def test_damaged_idx_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(data)
    with pytest.raises(DataError, match=words):
        read_idx(path, 3)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.gz", gzip.compress(b"content" * 99, mtime=0)[:-9]),
        ("a.gz", b"plain"),
        ("a.bz2", bz2.compress(b"content" * 99)[:-9]),
        ("a.bz2", b"plain"),
    ],
    ids=["cut gzip", "no gzip", "cut bzip2", "no bzip2"],
)
def test_damaged_compression_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(DataError, match=rf"{name} cannot be unpacked \(.*truncated or damaged"):
        unpacked(Path(name), data)


@pytest.mark.parametrize(("label_bytes", "head"), [(1, b"\x07"), (2, b"\x01\x07")])
def test_cifar_records_are_labels_then_planes(label_bytes: int, head: bytes) -> None:
    record = head + b"r" * 1024 + b"g" * 1024 + b"b" * 1024
    images, labels = read_cifar(WHERE, record * 2, label_bytes, 10)
    assert labels.tolist() == [7, 7]
    assert images.shape == (2, 3, 32, 32)
    assert [chr(images[1, channel, 5, 5]) for channel in range(3)] == ["r", "g", "b"]
    with pytest.raises(DataError, match=f"{len(record) - 1} bytes, expected a multiple"):
        read_cifar(WHERE, record[:-1], label_bytes, 10)
    with pytest.raises(DataError, match=r"record 0 has label 7, allowed are 0\.\.4"):
        read_cifar(WHERE, record, label_bytes, 5)
    with pytest.raises(DataError, match="has 0 bytes"):
        read_cifar(WHERE, b"", label_bytes, 10)


def _mat(path: Path, **content: object) -> Path:
    from scipy.io import savemat

    savemat(path, content)
    return path


def test_mat_digits_are_channel_first_and_ten_is_zero(tmp_path: Path) -> None:
    pixels = np.arange(4 * 5 * 3 * 2, dtype=np.uint8).reshape(4, 5, 3, 2)
    path = _mat(tmp_path / "a.mat", X=pixels, y=np.array([[10], [3]], np.uint8))
    images, labels = read_digit_mat(path)
    assert labels.tolist() == [0, 3]
    assert images.shape == (2, 3, 4, 5)
    assert images[1, 2, 3, 4] == pixels[3, 4, 2, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"X": np.zeros((4, 4, 3, 2), np.uint8)}, "and no y; expected X"),
        ({"X": np.zeros((4, 4), np.uint8), "y": [[1]]}, r"X of shape \[4, 4\]"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": [[1]]}, "2 uint8 images and 1 labels"),
        ({"X": np.zeros((4, 4, 3, 1)), "y": [[1]]}, "1 float64 images and 1 labels"),
        ({"X": np.zeros((4, 4, 3, 1), np.uint8), "y": [[11]]}, "labels from 11 to 11"),
    ],
)
def test_mat_with_other_content_is_refused(
    content: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        read_digit_mat(_mat(tmp_path / "a.mat", **content))


def test_truncated_mat_is_refused(tmp_path: Path) -> None:
    path = _mat(tmp_path / "a.mat", X=np.zeros((32, 32, 3, 9), np.uint8), y=np.ones((9, 1)))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"a\.mat is not a readable MATLAB file"):
        read_digit_mat(path)


def test_libsvm_lines_are_sparse() -> None:
    values, labels = read_libsvm(WHERE, b"3 1:-1 3:.5\n\n10 2:1\n", 3)
    assert labels.tolist() == [3, 10]
    assert values.tolist() == [[-1, 0, 0.5], [0, 1, 0]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"3 4:1\n", "line 1 .*index 4 is outside 1..3"),
        (b"1 1:1\nx 1:1\n", "line 2 is not"),
        (b"1 1\n", "line 1 is not"),
        (b"", "is empty"),
    ],
)
def test_damaged_libsvm_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_libsvm(WHERE, data, 3)


def test_npz_is_read_without_pickle(tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", x=np.arange(3))
    assert read_npz(tmp_path / "good.npz")["x"].tolist() == [0, 1, 2]
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="array 'x' holds Python objects, which are never loaded"):
        read_npz(tmp_path / "objects.npz")
    np.save(tmp_path / "single.npy", np.arange(3))
    with pytest.raises(DataError, match=r"single\.npy is not an \.npz archive"):
        read_npz(tmp_path / "single.npy")


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_truncated_npz_is_refused(kept: float, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).integers(0, 9, 5000))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(DataError, match=r"a\.npz cannot be read.*truncated or damaged"):
        read_npz(path)


def test_npz_with_flipped_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(5000))
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read at 'x'"):
        read_npz(path)


def test_labelled_csv_joins_its_columns() -> None:
    texts, labels = read_labelled_csv(WHERE, b'"3","A ""title""","text, more"\n"1","b","c"\n', 4)
    assert texts == ['A "title" text, more', "b c"]
    assert labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'"1","a","b"\n"5","a","b"\n', r"record 2 is not 'class 1\.\.4"),
        (b'"1","a","b"\n"2","a","b', "record 2 is not"),
        (b'"1","a","b"\n"2"\n', "record 2 is not"),
        (b'"1","\xff","b"\n', "record 1 is not"),
        (b"", "holds no records"),
    ],
)
def test_damaged_csv_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_labelled_csv(WHERE, data, 4)


def _announcing(total: int, name: str = "x.npy") -> bytes:
    """A small npz whose directory says that a member unpacks to `total` bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\0" * 1000)
    data = bytearray(buffer.getvalue())
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = total.to_bytes(4, "little")
    return bytes(data)


def test_npz_larger_than_the_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.data.formats.npz.data_limit", lambda: 10**9)
    path = tmp_path / "a.npz"
    path.write_bytes(_announcing(4 * 10**9))
    with pytest.raises(DataError, match=r"unpacks to 4 GB; at most 1 GB, a quarter of .* uint8"):
        read_npz(path)


@pytest.mark.parametrize("shape", ["(10000000000000,)", "(3, 2)", "(-3,)", "()"])
def test_npz_whose_header_does_not_fit_its_bytes_is_refused(shape: str, tmp_path: Path) -> None:
    good = io.BytesIO()
    np.save(good, np.arange(3, dtype=np.int64))
    header = good.getvalue()[:128].replace(b"(3,)", shape.encode()).replace(b" " * 8, b"")
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        fixed = header[:8] + (len(header) - 10).to_bytes(2, "little") + header[10:]
        archive.writestr("x.npy", fixed + good.getvalue()[128:])
    with pytest.raises(DataError, match=r"a\.npz cannot be read at 'x' \(its header announces"):
        read_npz(path)


def test_locked_and_strangely_packed_npz_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    first, entry = 0, data.index(b"PK\x01\x02")
    locked, strange = bytearray(data), bytearray(data)
    locked[first + 6] |= 1
    locked[entry + 8] |= 1
    strange[first + 8] = strange[entry + 10] = 98  # PPMd
    (tmp_path / "a.npz").write_bytes(locked)
    with pytest.raises(DataError, match=r"'x\.npy' is locked with a password"):
        read_npz(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(strange)
    with pytest.raises(DataError, match=r"cannot be read at 'x' \(That compression method"):
        read_npz(tmp_path / "a.npz")


def test_npz_with_something_else_inside_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("README.txt", "hello")
    with pytest.raises(DataError, match=r"holds 'README\.txt', which is no array"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_packed_file_that_swells_is_refused(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.data.formats.gzipped.data_limit", lambda: 1000)
    name = "a.gz" if pack is gzip.compress else "a.bz2"
    assert unpacked(Path(name), pack(b"0" * 1000)) == b"0" * 1000
    with pytest.raises(DataError, match="unpacks to more than 1e-06 GB"):
        unpacked(Path(name), pack(b"0" * 1001))
