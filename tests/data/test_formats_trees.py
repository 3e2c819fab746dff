"""Trees of files in folders and archives, and the pictures in them."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data.formats.images import channel_statistics, decode, read_images, resized
from fedcord.data.formats.tar import read_members
from fedcord.data.formats.tree import open_tree


def _png(value: int, size: int = 6, mode: str = "RGB") -> bytes:
    from PIL import Image

    colour = (value, 0, 255 - value) if mode == "RGB" else value
    buffer = io.BytesIO()
    Image.new(mode, (size, size), colour).save(buffer, "PNG")
    return buffer.getvalue()


def _zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_folder_and_zip_are_the_same_tree(tmp_path: Path) -> None:
    files = {"b/two.png": b"2", "a/one.png": b"1", ".hidden/x.png": b"", "__MACOSX/a.png": b""}
    for name, data in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(data)
    for tree in (open_tree(tmp_path / "tree"), open_tree(_zip(tmp_path / "t.zip", files))):
        assert tree.names == ("a/one.png", "b/two.png")
        assert tree.read("b/two.png") == b"2"


@pytest.mark.parametrize("name", ["../up.png", "/abs.png", "a/../../b.png"])
def test_zip_with_unsafe_names_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds the unsafe name"):
        open_tree(_zip(tmp_path / "t.zip", {name: b""}))


def test_damaged_zip_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "t.zip", {"a.png": b"content" * 50})
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"t\.zip: 'a\.png' cannot be read"):
        open_tree(path).read("a.png")
    path.write_bytes(data[:-30])
    with pytest.raises(DataError, match=r"t\.zip is not a readable zip archive"):
        open_tree(path)
    (tmp_path / "t.rar").write_bytes(b"")
    with pytest.raises(DataError, match=r"neither a folder nor a \.zip archive"):
        open_tree(tmp_path / "t.rar")


def test_folder_tree_enforces_its_sums_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.png").write_bytes(b"1")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  a/one.png\n")
    with pytest.raises(DataError, match="SHA256SUMS lists 0000"):
        open_tree(tmp_path).read("a/one.png")


def _tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_tar_members_are_read_by_base_name_and_links_are_not_followed(tmp_path: Path) -> None:
    link = tarfile.TarInfo("x/b.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    path = _tar(tmp_path / "a.tar.gz", [(tarfile.TarInfo("../../x/a.bin"), b"12"), (link, b"")])
    assert read_members(path, ["a.bin"]) == {"a.bin": b"12"}
    with pytest.raises(DataError, match=r"a\.tar\.gz lacks b\.bin"):
        read_members(path, ["a.bin", "b.bin"])


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_truncated_tar_is_refused(kept: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(50_000)
    path = _tar(tmp_path / "a.tar.gz", [(tarfile.TarInfo("a.bin"), noise)])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(DataError, match=r"a\.tar\.gz is not a readable tar archive"):
        read_members(path, ["a.bin"])


def test_images_are_decoded_to_one_size_and_channel_count(tmp_path: Path) -> None:
    tree = open_tree(_zip(tmp_path / "t.zip", {"a.png": _png(200), "b.png": _png(9, 12, "L")}))
    images = read_images(tree, ["a.png", "b.png"], 8).pixels
    assert images.shape == (2, 3, 8, 8)
    assert images[0, :, 4, 4].tolist() == [200, 0, 55]
    assert images[1, :, 4, 4].tolist() == [9, 9, 9]
    assert read_images(tree, ["b.png"], 8, channels=None).pixels.shape == (1, 1, 8, 8)
    assert read_images(tree, ["a.png", "b.png"], 8, channels=None).pixels.shape == (2, 3, 8, 8)
    assert read_images(tree, ["a.png"], 8, channels=1).pixels[0, 0, 0, 0] == round(
        0.299 * 200 + 0.114 * 55
    )


def _saved(pixels: Any, form: str, **options: Any) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_more_than_eight_bits_are_scaled_by_the_range_of_all(form: str, tmp_path: Path) -> None:
    dark, bright = (np.full((4, 4), value, np.uint16) for value in (1000, 4095))  # 12 bits used
    bright[0, 0] = 0
    files = {"a.png": _saved(dark, form), "b.png": _saved(bright, form)}
    tree = open_tree(_zip(tmp_path / "t.zip", files))
    pictures = read_images(tree, ["a.png", "b.png"], 4, channels=None)
    assert pictures.pixels[0].tolist() == np.full((1, 4, 4), round(255 * 1000 / 4095)).tolist()
    assert pictures.pixels[1, 0, 0, :2].tolist() == [0, 255]
    assert pictures.notes == (
        "2 of 2 pictures have more than 8 bits of grey: their values from 0 to 4095 were scaled to "
        "0 to 255.",
    )


def test_float_pictures_are_scaled_and_refused_with_nan(tmp_path: Path) -> None:
    values = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    holed = np.where(values > 0, np.float32("nan"), values)
    files = {"a.tif": _saved(values, "TIFF"), "b.tif": _saved(holed, "TIFF"), "c.png": _png(9)}
    tree = open_tree(_zip(tmp_path / "t.zip", files))
    pictures = read_images(tree, ["a.tif", "c.png"], 4)
    assert pictures.pixels[0, 0].reshape(-1).tolist() == [17 * n for n in range(16)]
    assert pictures.pixels[1, :, 0, 0].tolist() == [9, 0, 246]
    assert "values from -1 to 1 were scaled" in pictures.notes[0]
    with pytest.raises(DataError, match=r"b\.tif \(it holds NaN or infinity\)"):
        read_images(tree, ["b.tif"], 4)


def test_sixteen_bits_per_colour_are_told(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    row = b"\0" + struct.pack(">3H", 4095, 0, 65535) * 4  # Pillow cannot write such a picture
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 4, 4, 16, 2, 0, 0, 0))
    data += chunk(b"IDAT", zlib.compress(row * 4)) + chunk(b"IEND", b"")
    tree = open_tree(_zip(tmp_path / "t.zip", {"a.png": data}))
    pictures = read_images(tree, ["a.png"], 4)
    assert pictures.pixels[0, :, 0, 0].tolist() == [15, 0, 255]
    assert "1 of 1 pictures have 16 bits per colour" in pictures.notes[0]


def test_cameras_rotation_is_honoured() -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rows of the file are columns of the scene
    pixels = np.zeros((8, 8), np.uint8)
    pixels[:4] = 255
    turned = decode(_saved(pixels, "PNG", exif=exif), 8).pixels[0]
    assert turned.tolist() == np.rot90(pixels, -1).tolist()


def test_pictures_too_many_for_the_memory_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.data.formats.images.data_limit", lambda: 1000)
    tree = open_tree(_zip(tmp_path / "t.zip", {"a.png": b"never looked at"}))
    with pytest.raises(DataError, match=r"1 pictures of 32x32 need up to .* a smaller \?size="):
        read_images(tree, ["a.png"], 32)


def test_a_decompression_bomb_is_named(tmp_path: Path) -> None:
    data = bytearray(_png(1))
    data[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height in the header
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    tree = open_tree(_zip(tmp_path / "t.zip", {"a.png": bytes(data)}))
    with pytest.raises(DataError, match=r"a\.png \(Image size \(3600000000 pixels\) exceeds"):
        read_images(tree, ["a.png"], 8)


def test_unreadable_images_are_counted_and_named(tmp_path: Path) -> None:
    files = {f"{n}.png": b"no picture" for n in range(7)} | {"cut.png": _png(1, 60)[:60]}
    tree = open_tree(_zip(tmp_path / "t.zip", files | {"good.png": _png(3)}))
    with pytest.raises(
        DataError, match=r"8 of 9 images cannot be read: 0\.png \(not a.* and 3 more"
    ):
        read_images(tree, tree.names, 8)
    with pytest.raises(DataError, match=r"1 of 1 images cannot be read: cut\.png"):
        read_images(tree, ["cut.png"], 8)


def test_resizing_arrays_equals_resizing_pictures() -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6), dtype=np.uint8)
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image[0].transpose(1, 2, 0)).save(buffer, "PNG")
    np.testing.assert_array_equal(resized(image, 9, 3)[0], decode(buffer.getvalue(), 9).pixels)
    grey = resized(image[:, :1], 9, 3)
    np.testing.assert_array_equal(grey[:, 0], grey[:, 2])
    np.testing.assert_array_equal(resized(image, 6, 3), image)


def test_channel_statistics_equal_the_direct_computation() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 2, 4, 3), dtype=np.uint8)
    mean, std = channel_statistics(images)
    scaled = images / 255.0
    assert mean == pytest.approx(scaled.mean((0, 2, 3)), abs=1e-4)
    assert std == pytest.approx(scaled.std((0, 2, 3)), abs=1e-4)
    assert min(channel_statistics(np.zeros((1, 1, 2, 2), np.uint8))[1]) > 0
