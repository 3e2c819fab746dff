"""Every named data set from small files in its official layout."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data import Dataset, load_dataset
from fedcord.data.vocabulary import Vocabulary

RNG_SEED = 3


def _pixels(*shape: int) -> Any:
    return np.random.default_rng(RNG_SEED).integers(0, 256, shape, dtype=np.uint8)


def _idx(array: Any) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + bytes(array.tobytes())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _mnist(folder: Path, name: str = "mnist", ending: str = "") -> None:
    pack: Callable[[bytes], bytes] = gzip.compress if ending else bytes
    for part, rows in (("train", 6), ("t10k", 4)):
        images = _idx(_pixels(rows, 28, 28))
        labels = _idx((np.arange(rows) % 10).astype(np.uint8))
        _write(folder / name / f"{part}-images-idx3-ubyte{ending}", pack(images))
        _write(folder / name / f"{part}-labels-idx1-ubyte{ending}", pack(labels))


def _cifar(label_bytes: int, labels: list[int]) -> bytes:
    rows = _pixels(len(labels), label_bytes + 3072)
    rows[:, label_bytes - 1] = labels
    return bytes(rows.tobytes())


def _cifar10(folder: Path) -> None:
    for name in [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]:
        _write(folder / "cifar-10-batches-bin" / f"{name}.bin", _cifar(1, [3, 9]))


def _usps_npz(folder: Path) -> None:
    y = np.arange(6, dtype=np.uint8)
    folder.mkdir(exist_ok=True)
    np.savez(
        folder / "usps.npz",
        x_train=_pixels(6, 16, 16), y_train=y, x_test=_pixels(2, 16, 16), y_test=y[:2],
    )  # fmt: skip


def _svhn(folder: Path, name: str = "svhn", prefix: str = "") -> None:
    from scipy.io import savemat

    (folder / name).mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        content = {"X": _pixels(32, 32, 3, 3), "y": np.array([[10], [1], [9]], np.uint8)}
        savemat(folder / name / f"{prefix}{part}_32x32.mat", content)


def _jpeg(value: int, size: int = 64) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (size, size), (value, 50, 90)).save(buffer, "JPEG")
    return buffer.getvalue()


def _tiny(folder: Path, name: str = "tiny-imagenet-200") -> Path:
    top = folder / name
    for wordnet in ("n02", "n01"):
        for n in range(2):
            _write(top / "train" / wordnet / "images" / f"{wordnet}_{n}.JPEG", _jpeg(40 * n))
    for n in range(3):
        _write(top / "val" / "images" / f"val_{n}.JPEG", _jpeg(9))
    lines = [f"val_{n}.JPEG\t{w}\t0\t0\t9\t9" for n, w in enumerate(("n02", "n01", "n99"))]
    _write(top / "val" / "val_annotations.txt", "\n".join(lines).encode())
    _write(top / "words.txt", b"n01\tgoldfish, Carassius\nn02\tviaduct\n")
    return top


def _office(folder: Path) -> Path:
    top = folder / "office-caltech10"
    for domain in ("amazon", "caltech10", "dslr", "webcam"):
        for label in ("bike", "mug"):
            for n in range(5):
                _write(top / domain / label / f"{n}.jpg", _jpeg(10 * n))
    return top


def _load(name: str, folder: Path) -> Dataset:
    return load_dataset(name, data_dirs=[folder])


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_sets(name: str, ending: str, tmp_path: Path) -> None:
    _mnist(tmp_path, name, ending)
    dataset = _load(name, tmp_path)
    assert dataset.train.inputs.shape == (6, 1, 28, 28)
    np.testing.assert_array_equal(dataset.train.inputs[:, 0], _pixels(6, 28, 28))
    assert dataset.test.labels.tolist() == [0, 1, 2, 3]
    assert dataset.mean == ((0.1307,) if name == "mnist" else (0.286,))


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    _mnist(tmp_path)
    labels = _idx(np.zeros(5, np.uint8))
    _write(tmp_path / "mnist" / "train-labels-idx1-ubyte", labels)
    with pytest.raises(DataError, match="has 6 images but train-labels-idx1-ubyte has 5 labels"):
        _load("mnist", tmp_path)


def test_label_above_nine_is_refused(tmp_path: Path) -> None:
    _mnist(tmp_path)
    _write(tmp_path / "mnist" / "t10k-labels-idx1-ubyte", _idx(np.full(4, 10, np.uint8)))
    with pytest.raises(DataError, match="test labels contain 10 in row 0"):
        _load("mnist", tmp_path)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_altered_mnist_of_official_size_is_refused(ending: str, tmp_path: Path) -> None:
    _mnist(tmp_path, ending=ending)
    data = _idx(np.zeros(10_000, np.uint8))
    path = tmp_path / "mnist" / f"t10k-labels-idx1-ubyte{ending}"
    _write(path, gzip.compress(data) if ending else data)
    with pytest.raises(DataError, match=r"t10k-labels.*official file \(10008 bytes\) but SHA-256"):
        _load("mnist", tmp_path)


def test_prototype_spec_11_6_cifar10_layout_and_constants(tmp_path: Path) -> None:
    _cifar10(tmp_path)
    dataset = _load("cifar10", tmp_path)
    assert dataset.train.inputs.shape == (10, 3, 32, 32)
    assert dataset.test.labels.tolist() == [3, 9]
    assert dataset.mean == (0.4914, 0.4822, 0.4465)
    assert dataset.std == (0.2023, 0.1994, 0.2010)


def test_altered_cifar10_of_official_size_is_refused(tmp_path: Path) -> None:
    _cifar10(tmp_path)
    _write(tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin", bytes(30_730_000))
    with pytest.raises(DataError, match=r"data_batch_1.*but SHA-256 .*expected cee91656"):
        _load("cifar10", tmp_path)


def test_truncated_cifar10_is_refused(tmp_path: Path) -> None:
    _cifar10(tmp_path)
    _write(tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin", _cifar(1, [1, 2])[:-1])
    with pytest.raises(DataError, match=r"data_batch_4\.bin has 6145 bytes, expected a multiple"):
        _load("cifar10", tmp_path)


def test_sums_file_in_the_folder_is_enforced(tmp_path: Path) -> None:
    _cifar10(tmp_path)
    sums = f"{'0' * 64}  test_batch.bin\n".encode()
    _write(tmp_path / "cifar-10-batches-bin" / "SHA256SUMS", sums)
    with pytest.raises(DataError, match=r"test_batch\.bin has SHA-256 .* SHA256SUMS lists 0000"):
        _load("cifar10", tmp_path)


def test_cifar100_uses_fine_labels_also_from_the_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-100-binary.tar.gz", "w:gz") as archive:
        for name in ("train.bin", "test.bin"):
            data = _cifar(2, [0, 99])
            info = tarfile.TarInfo(f"cifar-100-binary/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
            _write(tmp_path / "plain" / "cifar-100-binary" / name, data)
    packed, plain = _load("cifar100", tmp_path), _load("cifar100", tmp_path / "plain")
    assert packed.train.labels.tolist() == [0, 99]
    assert (packed.class_names[0], packed.class_names[99]) == ("apple", "worm")
    assert packed.train.inputs.tobytes() == plain.train.inputs.tobytes()


def test_svhn_labels_are_the_digits(tmp_path: Path) -> None:
    _svhn(tmp_path)
    dataset = _load("svhn", tmp_path)
    assert dataset.train.labels.tolist() == [0, 1, 9]
    assert dataset.input_shape == (3, 32, 32)


def test_usps_from_npz_and_from_the_published_text(tmp_path: Path) -> None:
    _usps_npz(tmp_path / "one")
    assert _load("usps", tmp_path / "one").input_shape == (1, 16, 16)
    line = "10 1:-1 2:1 256:0\n"
    for name in ("usps.bz2", "usps.t.bz2"):
        _write(tmp_path / "two" / "usps" / name, bz2.compress(line.encode()))
    dataset = _load("usps", tmp_path / "two")
    assert dataset.train.labels.tolist() == [9]
    assert dataset.train.inputs[0, 0, 0, :2].tolist() == [0, 255]
    assert dataset.train.inputs[0, 0, 15, 15] == 128
    _write(tmp_path / "two" / "usps" / "usps.bz2", bz2.compress(b"11 1:0\n"))
    with pytest.raises(DataError, match=r"labels from 11 to 11, expected 1\.\.10"):
        _load("usps", tmp_path / "two")


def test_published_npz_must_hold_images_in_two_parts(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist-m.npz", x=np.zeros((4, 2)), y=np.zeros(4, int))
    with pytest.raises(DataError, match=r"mnist-m\.npz has no test part"):
        _load("mnist-m", tmp_path)
    flat, y = np.zeros((4, 2)), np.zeros(4, int)
    np.savez(tmp_path / "mnist-m.npz", x_train=flat, y_train=y, x_test=flat, y_test=y)
    with pytest.raises(DataError, match="expected uint8 images"):
        _load("mnist-m", tmp_path)


def test_prototype_spec_11_4_digit_domains_in_one_shape_with_their_own_tests(
    tmp_path: Path,
) -> None:
    _mnist(tmp_path)
    with pytest.raises(DataError, match="found mnist"):
        _load("digits-domains", tmp_path)
    _usps_npz(tmp_path)
    _svhn(tmp_path)
    dataset = _load("digits-domains", tmp_path)
    assert dataset.group_names["domain"] == ("mnist", "usps", "svhn")
    assert dataset.input_shape == (3, 32, 32)
    assert np.bincount(dataset.train.groups["domain"]).tolist() == [6, 6, 3]
    assert np.bincount(dataset.test.groups["domain"]).tolist() == [4, 2, 3]
    assert dataset.mean == (0.485, 0.456, 0.406)
    grey = dataset.train.inputs[dataset.train.groups["domain"] == 0]
    np.testing.assert_array_equal(grey[:, 0], grey[:, 2])
    chosen = _load("digits-domains?domains=usps,mnist", tmp_path)
    assert chosen.group_names["domain"] == ("mnist", "usps")
    with pytest.raises(DataError, match=r"domains=syn' was not found"):
        _load("digits-domains?domains=mnist,syn", tmp_path)
    _svhn(tmp_path, "syn", "synth_")
    synthetic = _load("digits-domains?domains=mnist,syn", tmp_path)
    assert synthetic.train.labels[-3:].tolist() == [0, 1, 9]


def test_office_caltech_is_divided_within_each_class_of_each_domain(tmp_path: Path) -> None:
    top = _office(tmp_path)
    dataset = _load("office-caltech10", tmp_path)
    assert dataset.group_names["domain"] == ("amazon", "caltech", "dslr", "webcam")
    assert dataset.class_names == ("bike", "mug")
    cells = dataset.test.groups["domain"] * 2 + dataset.test.labels
    assert np.bincount(cells).tolist() == [1] * 8
    assert dataset.input_shape == (3, 32, 32)
    assert _load("office-caltech10?size=64", tmp_path).input_shape == (3, 64, 64)
    for file in (top / "dslr" / "mug").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="domain 'dslr' has no images of mug"):
        _load("office-caltech10", tmp_path)


def test_tiny_imagenet_tests_on_its_validation_set(tmp_path: Path) -> None:
    top = _tiny(tmp_path)
    dataset = _load("tiny-imagenet", tmp_path)
    assert dataset.class_names == ("goldfish", "viaduct")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert dataset.test.labels.tolist() == [1, 0]
    assert dataset.input_shape == (3, 64, 64)
    (top / "val" / "images" / "val_1.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_1\.JPEG is listed in val/val_annotations\.txt but"):
        _load("tiny-imagenet", tmp_path)
    (top / "val" / "val_annotations.txt").unlink()
    with pytest.raises(DataError, match=r"has no val/val_annotations\.txt; the official layout"):
        _load("tiny-imagenet", tmp_path)


def test_prototype_spec_11_5_ag_news_tokens_vocabulary_and_padding(tmp_path: Path) -> None:
    _write(tmp_path / "ag_news_csv" / "train.csv", b'"1","War","war peace"\n"4","A","b"\n')
    _write(tmp_path / "ag_news_csv" / "test.csv", b'"2","Peace","unseen WAR"\n')
    dataset = _load("ag-news", tmp_path)
    assert (dataset.kind, dataset.input_shape, dataset.vocabulary) == ("text", (200,), 6)
    # war is the most frequent word; a, b and peace follow by spelling
    assert dataset.train.inputs[0, :4].tolist() == [2, 2, 5, 0]
    assert dataset.test.inputs[0, :4].tolist() == [5, 1, 2, 0]
    assert dataset.train.labels.tolist() == [0, 3]
    short = _load("ag-news?length=2&vocabulary=3", tmp_path)
    assert short.test.inputs.tolist() == [[1, 1]]
    assert short.train.inputs.tolist() == [[2, 2], [1, 1]]
    assert dataset.words == Vocabulary(("war", "a", "b", "peace"), 200)
    assert short.words == Vocabulary(("war",), 2)


def test_ham10000_in_medical_layout(tmp_path: Path) -> None:
    parts = {"train": 4, "val": 2, "test": 3}
    arrays = {f"{part}_images": _pixels(rows, 28, 28, 3) for part, rows in parts.items()}
    arrays |= {f"{part}_labels": np.full((rows, 1), 6, np.uint8) for part, rows in parts.items()}
    np.savez(tmp_path / "ham10000-28.npz", **arrays)
    dataset = _load("ham10000", tmp_path)
    assert (len(dataset.train), len(dataset.test), dataset.num_classes) == (6, 3, 7)
    assert dataset.input_shape == (3, 28, 28)
