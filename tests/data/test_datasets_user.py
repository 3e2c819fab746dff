"""The user's own data: npz files and folders of pictures."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import ConfigError, DataError
from fedcord.data import load_dataset


def _save(path: Path, **arrays: Any) -> str:
    np.savez(path / "mine.npz", **arrays)
    return f"npz:{path / 'mine.npz'}"


def _four(x: Any, rows: int = 6) -> dict[str, Any]:
    y = np.arange(rows) % 3
    return {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]}


def _noise(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("shape", "channel_first"),
    [((6, 8, 9), (1, 8, 9)), ((6, 8, 9, 3), (3, 8, 9)), ((6, 3, 8, 9), (3, 8, 9))],
)
def test_image_layouts_become_channel_first(
    shape: tuple[int, ...], channel_first: tuple[int, ...], tmp_path: Path
) -> None:
    pixels = _noise(*shape)
    dataset = load_dataset(_save(tmp_path, **_four(pixels)))
    assert (dataset.name, dataset.kind, dataset.input_shape) == ("mine", "image", channel_first)
    at = {3: (4, 2, 5), 4: (4, 2, 5, 1) if shape[-1] == 3 else (4, 1, 2, 5)}[len(shape)]
    assert dataset.train.inputs[4, 1 if len(shape) == 4 else 0, 2, 5] == pixels[at]
    assert len(dataset.mean) == channel_first[0]


def test_ambiguous_layout_asks_and_obeys(tmp_path: Path) -> None:
    spec = _save(tmp_path, **_four(_noise(6, 3, 5, 3)))
    with pytest.raises(DataError, match=r"can be read two ways or none.*add \?layout=nhwc or"):
        load_dataset(spec)
    assert load_dataset(f"{spec}?layout=nhwc").input_shape == (3, 3, 5)
    assert load_dataset(f"{spec}?layout=nchw").input_shape == (3, 5, 3)


def test_vectors_with_string_labels_and_groups_are_divided(tmp_path: Path) -> None:
    rows = 50
    x = np.arange(rows * 2.0).reshape(rows, 2)
    y = np.array(["cat", "ant"])[np.arange(rows) % 2]
    user = np.array([7_000_000_001, 5])[np.arange(rows) // 25]
    spec = _save(tmp_path, x=x, y=y, user=user)
    dataset = load_dataset(spec)
    assert dataset.class_names == ("ant", "cat")
    assert dataset.group_names == {"user": ("5", "7000000001")}
    assert (len(dataset.train), len(dataset.test)) == (40, 10)
    assert np.bincount(dataset.test.labels).tolist() == [5, 5]
    for split in (dataset.train, dataset.test):
        row = (split.inputs[:, 0] / 2).astype(int)
        assert split.labels.tolist() == (1 - row % 2).tolist()
        assert split.groups["user"].tolist() == (1 - row // 25).tolist()
    again = load_dataset(spec)
    assert again.test.inputs.tobytes() == dataset.test.inputs.tobytes()


def test_groups_and_class_names_of_both_parts(tmp_path: Path) -> None:
    arrays = _four(np.zeros((6, 4))) | {
        "site_train": np.array(list("aabbcc")),
        "site_test": np.array(["b", "d"]),
        "class_names": np.array(["p", "q", "r", "s"]),
    }
    dataset = load_dataset(_save(tmp_path, **arrays))
    assert dataset.group_names["site"] == ("a", "b", "c", "d")
    assert dataset.test.groups["site"].tolist() == [1, 3]
    assert dataset.class_names == ("p", "q", "r", "s")


def test_medical_layout_merges_validation_into_training(tmp_path: Path) -> None:
    spec = _save(
        tmp_path,
        train_images=_noise(5, 6, 6, 3),
        train_labels=np.array([[0], [1], [2], [0], [1]], np.uint8),
        val_images=_noise(2, 6, 6, 3),
        val_labels=np.array([[2], [2]], np.uint8),
        test_images=_noise(3, 6, 6, 3),
        test_labels=np.array([[0], [1], [2]], np.uint8),
    )
    dataset = load_dataset(spec)
    assert dataset.train.labels.tolist() == [0, 1, 2, 0, 1, 2, 2]
    assert dataset.test.labels.tolist() == [0, 1, 2]


def test_token_ids_on_request(tmp_path: Path) -> None:
    spec = _save(tmp_path, **_four(np.arange(18).reshape(6, 3)))
    dataset = load_dataset(f"{spec}?kind=text")
    assert (dataset.kind, dataset.vocabulary) == ("text", 18)
    assert load_dataset(spec).kind == "vector"


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": np.zeros(1)}, "holds the arrays a; expected x_train"),
        (_four(np.zeros((6, 4, 4, 3))), r"inputs are float64 \[6, 4, 4, 3\]; allowed are uint8"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, 1, -1, 0])}, "labels run from -1 to 1"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, 1, 0.5, 0])}, "labels are float64"),
        ({"x": np.zeros((4, 2)), "y": np.array([0, 1, np.inf, 0])}, "labels are float64"),
        ({"x": np.zeros((4, 2)), "y": np.zeros((4, 2), int)}, r"labels have shape \[4, 2\]"),
        ({"x": np.zeros((4, 2)), "y": np.zeros(3, int)}, "'y' has 3 rows but x has 4"),
        (
            {"x": np.zeros((4, 2)), "y": np.zeros(4, int), "user": np.zeros(2, int)},
            "'user' has 2 rows but x has 4",
        ),
        (
            {"x": np.zeros((4, 2)), "y": np.zeros(4, int), "user": np.zeros(4)},
            "group 'user' are float64; expected whole numbers or strings",
        ),
        (
            {"x": np.array([[0.0], [1.0], [np.nan], [0.0]]), "y": np.zeros(4, int)},
            "x holds NaN or infinity, first in row 2",
        ),
        (
            {"x": np.array([[0.0], [1e300], [0.0], [0.0]]), "y": np.zeros(4, int)},
            "x holds NaN or infinity, first in row 1",
        ),
        (
            _four(np.zeros((6, 4))) | {"y_test": np.array(["a", "b"])},
            "labels are int64 and <U1 in different parts; use one type",
        ),
        (_four(np.zeros((6, 4))) | {"domain": np.zeros(6)}, "nothing uses the arrays domain"),
        (
            _four(np.zeros((6, 4))) | {"class_names": np.array(["a", "b"])},
            r"train labels contain 2 in row 2; allowed: 0\.\.1",
        ),
    ],
)
def test_wrong_arrays_are_refused(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        load_dataset(_save(tmp_path, **arrays))


def test_missing_npz_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.npz cannot be read \(No such file"):
        load_dataset(f"npz:{tmp_path / 'none.npz'}")


def _picture(value: int, size: tuple[int, int] = (10, 7)) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", size, (value, 10, 20)).save(buffer, "PNG")
    return buffer.getvalue()


def _folder(root: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return f"folder:{root}"


def test_class_folders_are_divided_and_resized(tmp_path: Path) -> None:
    files = {f"{c}/{n}.png": _picture(n) for c in ("wolf", "ape") for n in range(10)}
    spec = _folder(tmp_path / "zoo", files | {"wolf/notes.txt": b"x", "stray.png": _picture(1)})
    dataset = load_dataset(spec)
    assert (dataset.name, dataset.class_names) == ("zoo", ("ape", "wolf"))
    assert dataset.input_shape == (3, 32, 32)
    assert np.bincount(dataset.train.labels).tolist() == [8, 8]
    assert np.bincount(dataset.test.labels).tolist() == [2, 2]
    assert load_dataset(f"{spec}?size=64").input_shape == (3, 64, 64)
    (tmp_path / "zoo").rename(tmp_path / "renamed")
    moved = load_dataset(f"folder:{tmp_path / 'renamed'}")
    assert moved.test.inputs.tobytes() == dataset.test.inputs.tobytes()


def test_train_and_test_folders_are_respected_also_in_a_zip(tmp_path: Path) -> None:
    files = {
        f"{part}/{c}/{n}.png": _picture(n)
        for part, count in (("train", 3), ("test", 1))
        for c in "ab"
        for n in range(count)
    }
    with zipfile.ZipFile(tmp_path / "zoo.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    for spec in (_folder(tmp_path / "zoo", files), f"folder:{tmp_path / 'zoo.zip'}"):
        dataset = load_dataset(spec)
        assert (len(dataset.train), len(dataset.test)) == (6, 2)
        assert dataset.test.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.png": _picture(1)}, "has no images in class sub-folders"),
        ({"a/x.png": _picture(1)}, "has the single class 'a'"),
        ({"a/x.png": _picture(1), "b/bad.png": b"?"}, r"1 of 2 images cannot be read: b/bad\.png"),
        ({"train/a/x.png": _picture(1)}, "holds train; with train/ there must be test/"),
        (
            {
                "train/a/x.png": _picture(1),
                "train/b/x.png": _picture(1),
                "test/c/x.png": _picture(1),
            },
            "test/ has the classes c, which train/ has not",
        ),
    ],
)
def test_wrong_folders_are_refused(files: dict[str, bytes], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        load_dataset(_folder(tmp_path / "zoo", files))


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist; give a folder"):
        load_dataset(f"folder:{tmp_path / 'nowhere'}")


def _hospitals() -> dict[str, bytes]:
    return {
        f"{site}/{kind}/{n}.png": _picture(n)
        for site in ("Köln", "北京")
        for kind in ("gesund", "krank")
        for n in range(5)
    }


def test_first_level_may_be_the_group(tmp_path: Path) -> None:
    spec = _folder(tmp_path / "all", _hospitals())
    dataset = load_dataset(f"{spec}?group=hospital")
    assert dataset.class_names == ("gesund", "krank")
    assert dataset.group_names == {"hospital": ("Köln", "北京")}
    assert (len(dataset.train), len(dataset.test)) == (16, 4)
    for split in (dataset.train, dataset.test):
        for label, site, file in zip(
            split.labels, split.groups["hospital"], split.files, strict=True
        ):
            parts = file.split("/")
            assert parts[:2] == [("Köln", "北京")[site], ("gesund", "krank")[label]]
    assert dataset.notes == ()


def test_group_below_train_and_test(tmp_path: Path) -> None:
    files = {
        f"{part}/{name}": data for part in ("train", "test") for name, data in _hospitals().items()
    }
    dataset = load_dataset(_folder(tmp_path / "all", files) + "?group=site")
    assert (len(dataset.train), len(dataset.test)) == (20, 20)
    assert dataset.group_names == {"site": ("Köln", "北京")}
    assert dataset.test.files[0] == "test/Köln/gesund/0.png"


@pytest.mark.parametrize(
    ("option", "files", "words"),
    [
        (
            "",
            _hospitals(),
            r"class folders hold folders \(Köln, 北京\), where CLASS/NAME was expected; if the "
            r"outer folders are sites rather than classes, write \?group=NAME",
        ),
        (
            "?group=hospital",
            {f"x/{name}": data for name, data in _hospitals().items()},
            r"\(x/Köln, x/北京\), where HOSPITAL/CLASS/NAME was expected; put the pictures",
        ),
        (
            "?group=hospital",
            {"a/x.png": _picture(1), "b/x.png": _picture(1)},
            "no images in class sub-folders; expected HOSPITAL/CLASS/NAME",
        ),
    ],
)
def test_folders_at_the_wrong_depth_are_refused_with_advice(
    option: str, files: dict[str, bytes], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        load_dataset(_folder(tmp_path / "all", files) + option)


def test_what_is_left_out_is_told_in_one_note(tmp_path: Path) -> None:
    files = {f"{c}/{n}.png": _picture(n) for c in "ab" for n in range(3)}
    files |= {"c/notes.txt": b"x", "stray.png": _picture(1)}
    spec = _folder(tmp_path / "zoo", files)
    (tmp_path / "zoo" / "d").mkdir()
    dataset = load_dataset(spec)
    assert dataset.class_names == ("a", "b")
    assert dataset.notes == (
        "left out of zoo: folders without pictures: c, d; files that are no picture in a class "
        "folder: c/notes.txt, stray.png.",
    )


def test_a_name_that_is_not_utf8_is_kept_readable(tmp_path: Path) -> None:
    files = {f"{c}/{n}.png": _picture(n) for c in "ab" for n in range(3)}
    spec = _folder(tmp_path / "zoo", files)
    os.rename(tmp_path / "zoo" / "b", os.fsencode(tmp_path / "zoo") + b"/caf\xe9")
    assert load_dataset(spec).class_names == ("a", "caf\\xe9")


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [
        ([1, 2, 1, 2, 2, 1], None, ("1", "2")),
        ([5, 999_999, 5, 5, 999_999, 5], None, ("5", "999999")),
        ([1.0, 3.0, 1.0, 3.0, 1.0, 3.0], None, ("1", "3")),
        ([1, 2, 1, 2, 2, 1], ["no", "yes"], ("no", "yes")),
        ([0, 2, 0, 2, 2, 0], ["a", "b", "c"], ("a", "b", "c")),
    ],
)
def test_classes_are_those_that_occur(
    labels: list[float], names: list[str] | None, classes: tuple[str, ...], tmp_path: Path
) -> None:
    given = {} if names is None else {"class_names": np.array(names)}
    dataset = load_dataset(_save(tmp_path, x=np.zeros((6, 2)), y=np.array(labels), **given))
    assert dataset.class_names == classes
    assert set(dataset.train.labels.tolist()) == ({0, 2} if len(classes) == 3 else {0, 1})


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_medical_labels_of_another_shape_are_refused(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    images = _noise(2, 6, 6)
    arrays = {f"{part}_images": images for part in ("train", "val", "test")}
    labels = {f"{part}_labels": np.zeros((2, 1), int) for part in ("train", "test")}
    with pytest.raises(DataError, match=r"labels have shape \[.*\]; expected \[N\]"):
        load_dataset(_save(tmp_path, **arrays, **labels, val_labels=np.zeros(shape, int)))


def test_token_ids_beyond_any_table_are_refused(tmp_path: Path) -> None:
    spec = _save(tmp_path, **_four(np.full((6, 3), 10**12)))
    with pytest.raises(DataError, match="token ids run to 1000000000000; allowed are 0 to 9999999"):
        load_dataset(f"{spec}?kind=text")


@pytest.mark.parametrize("prefix", ["npz", "folder"])
def test_a_home_that_is_not_known_is_named(prefix: str) -> None:
    with pytest.raises(DataError, match="'~nobody-here/x': the home folder it starts with"):
        load_dataset(f"{prefix}:~nobody-here/x")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises((ConfigError, DataError), match="cannot be a path"):
        load_dataset("npz:~\0")


def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    for place in (tmp_path / "pipe.npz", Path("/dev/zero")):
        with pytest.raises(DataError, match=r"cannot be read \(it is a pipe or device"):
            load_dataset(f"npz:{place}")
    with pytest.raises(DataError, match="it is a folder, not a file"):
        load_dataset(f"npz:{tmp_path}")
    with pytest.raises(DataError, match=r"neither a folder nor a \.zip archive"):
        load_dataset(f"folder:{tmp_path / 'pipe.npz'}")


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _folder(tmp_path / "zoo", {f"{c}/{n}.png": _picture(n) for c in "ab" for n in range(3)})
    real = os.scandir

    def closed(path: Any) -> Any:  # permissions do not bind the superuser, who may run the tests
        if str(path).endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(DataError, match=r"zoo/b' cannot be read \(Permission denied\)"):
        load_dataset(spec)


def test_a_link_back_to_a_folder_above_is_passed_over(tmp_path: Path) -> None:
    spec = _folder(tmp_path / "zoo", {f"{c}/{n}.png": _picture(n) for c in "ab" for n in range(3)})
    (tmp_path / "zoo" / "c").symlink_to(tmp_path / "zoo")
    assert load_dataset(spec).class_names == ("a", "b")
