"""Pictures (JPEG, PNG, …) to arrays, and arrays to another size."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.machine import data_limit, gigabytes
from fedcord.data.dataset import Array
from fedcord.data.formats.tree import Tree
from fedcord.data.grey_range import GreyRange

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_NAMED = 5
DIGITS, LEAST_DEVIATION = 4, 1e-3
"""How constants are rounded, and what the deviation of a channel without any is taken for."""


def is_image(name: str) -> bool:
    """Whether a file name ends like a picture's."""
    return name.lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class Pictures:
    """Decoded pictures of one size.

    Attributes:
        pixels: uint8 [N, C, size, size].
        notes: what was done to them that their owner should know.
        wide: how many have more than 8 bits of grey.
        grey: how these were brought to 0..255; None where there are none.
    """

    pixels: Array
    notes: tuple[str, ...] = ()
    wide: int = 0
    grey: GreyRange | None = None


def read_images(
    tree: Tree,
    names: Sequence[str],
    size: int,
    channels: int | None = 3,
    grey: GreyRange | None = None,
) -> Pictures:
    """Decode pictures of a tree.

    Pictures with more than 8 bits of grey (16-bit, float) are brought to 0..255 together, so that
    they stay comparable.

    Args:
        tree: where they are.
        names: which, in the order of the result.
        size: every picture is resized (not cropped) to this height and width.
        channels: 3 or 1; None takes 1 if all pictures are grey and 3 otherwise.
        grey: by which values; None: from the smallest to the largest that any of them has.
    """
    needed = len(names) * 3 * size * size
    if needed > data_limit():
        raise DataError(
            f"{tree.path}: {len(names)} pictures of {size}x{size} need up to {gigabytes(needed)}; "
            f"at most {gigabytes(data_limit())}, a quarter of this machine's memory, are read: "
            "choose a smaller ?size=, or keep fewer pictures."
        )
    pictures: list[Picture] = []
    broken: list[str] = []
    for name in names:
        data = tree.read(name)
        try:
            pictures.append(decode(data, size))
        except _UnreadableError as error:
            broken.append(f"{name} ({error})")
    if broken:
        raise DataError(
            f"{tree.path}: {len(broken)} of {len(names)} images cannot be read: "
            f"{first_few(broken)}; repair or remove them."
        )
    if channels is None:
        channels = max((picture.pixels.shape[0] for picture in pictures), default=3)
    if not pictures:
        return Pictures(np.empty((0, channels, size, size), np.uint8))
    low, high = _common_range(pictures) if grey is None else (grey.low, grey.high)
    images = [_with_channels(picture.in_bytes(low, high), channels) for picture in pictures]
    wide = sum(picture.range is not None for picture in pictures)
    used = GreyRange(low, high, wide < len(pictures)) if wide else None
    return Pictures(np.stack(images), _notes(pictures, wide, used), wide, used)


def first_few(items: Sequence[str]) -> str:
    """The first of a list, and how many more there are."""
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return f"{', '.join(items[:_NAMED])}{more}"


class _UnreadableError(Exception):
    """Bytes that are not a picture."""


@dataclass(frozen=True)
class Picture:
    """One decoded picture.

    Attributes:
        pixels: uint8 [1 or 3, size, size], or float32 [1, size, size] when it has more than 8 bits.
        range: of a picture with more than 8 bits, its smallest and largest value.
        is_cut: whether its colours had 16 bits, of which decoding keeps the upper 8.
    """

    pixels: Array
    range: tuple[float, float] | None = None
    is_cut: bool = False

    def in_bytes(self, low: float, high: float) -> Array:
        """uint8 [1 or 3, size, size]; `low` is black and `high` white where that is to choose."""
        if self.range is None:
            return self.pixels
        spread = high - low
        unit = (self.pixels - low) / (spread if spread > 0 else 1.0)
        return np.clip(np.rint(255 * unit), 0, 255).astype(np.uint8)


def decode(data: bytes, size: int) -> Picture:
    """One picture, upright as its camera's note on rotation (EXIF) says."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # remarks on metadata we do not read
            with Image.open(io.BytesIO(data), formats=_FORMATS) as file:
                is_cut = any(";16" in str(tile[3]) for tile in file.tile)
                file.load()
                return _resized(ImageOps.exif_transpose(file), size, is_cut)
    except UnidentifiedImageError as error:
        raise _UnreadableError("not a known image format") from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises many types on damaged bytes, all meaning the same
        raise _UnreadableError(str(error) or type(error).__name__) from error


def _resized(picture: Image.Image, size: int, is_cut: bool) -> Picture:
    from PIL import Image

    ends = None
    if picture.mode == "F" or picture.mode.startswith("I"):
        wide = np.array(picture, np.float32)  # [H, W]
        if not np.isfinite(wide).all():
            raise _UnreadableError("it holds NaN or infinity")
        ends = float(wide.min()), float(wide.max())
        picture = Image.fromarray(wide)
    else:
        picture = picture.convert("L" if picture.mode in ("L", "1", "LA", "La") else "RGB")
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    pixels: Array = np.array(picture)
    if pixels.ndim == 2:
        return Picture(pixels[None], ends)
    return Picture(np.ascontiguousarray(pixels.transpose(2, 0, 1)), None, is_cut)


def _common_range(pictures: Sequence[Picture]) -> tuple[float, float]:
    ends = [picture.range for picture in pictures if picture.range is not None]
    return min((low for low, _ in ends), default=0.0), max((high for _, high in ends), default=0.0)


def _notes(pictures: Sequence[Picture], wide: int, used: GreyRange | None) -> tuple[str, ...]:
    notes = []
    if used is not None:
        notes.append(
            f"{wide} of {len(pictures)} pictures have more than 8 bits of grey: their values from "
            f"{used} were scaled to 0 to 255."
        )
    cut = sum(picture.is_cut for picture in pictures)
    if cut:
        notes.append(
            f"{cut} of {len(pictures)} pictures have 16 bits per colour, of which the upper 8 were "
            "kept: if they use less than the full range, convert them to 8 bits first."
        )
    return tuple(notes)


def resized(images: Array, size: int, channels: int) -> Array:
    """uint8 [N, 1 or 3, H, W] to uint8 [N, channels, size, size], bilinear as in `read_images`."""
    from PIL import Image

    result = np.empty((len(images), channels, size, size), np.uint8)
    if images.shape[2:] == (size, size):
        result[:] = images if channels == images.shape[1] else _rows_with(images, channels)
        return result
    for row, image in enumerate(images):
        flat = image[0] if image.shape[0] == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
        picture = Image.fromarray(flat).resize((size, size), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if channels < len(pixels):
            pixels = _with_channels(pixels, channels)
        result[row] = pixels  # one grey channel spreads over three
    return result


def channel_statistics(images: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of uint8 [N, C, H, W] scaled to [0, 1].

    Counted, not summed in floating point, so that they are the same on every machine; rounded to
    four digits, as published constants are.
    """
    values = np.arange(256) / 255.0
    means, deviations = [], []
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].ravel(), minlength=256)
        share = counts / max(1, counts.sum())
        mean = float(share @ values)
        means.append(round(mean, DIGITS))
        deviation = float(share @ (values - mean) ** 2) ** 0.5
        deviations.append(round(max(deviation, LEAST_DEVIATION), DIGITS))
    return tuple(means), tuple(deviations)


def _with_channels(image: Array, channels: int) -> Array:
    with_channels: Array = _rows_with(image[None], channels)[0]
    return with_channels


def _rows_with(images: Array, channels: int) -> Array:
    if images.shape[1] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=1)
    # ITU-R 601 luma in integers, as Pillow weighs colours for grey
    red, green, blue = (images[:, c].astype(np.uint32) for c in range(3))
    luma = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    return luma.astype(np.uint8)[:, None]
