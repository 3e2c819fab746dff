"""Pictures (JPEG, PNG, …) to arrays, and arrays to another size."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array
from fedcord.data.formats.tree import Tree

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_NAMED = 5


def is_image(name: str) -> bool:
    """Whether a file name ends like a picture's."""
    return name.lower().endswith(SUFFIXES)


def read_images(tree: Tree, names: Sequence[str], size: int, channels: int | None = 3) -> Array:
    """Decode pictures of a tree: uint8 [N, C, size, size].

    Args:
        tree: where they are.
        names: which, in the order of the result.
        size: every picture is resized (not cropped) to this height and width.
        channels: 3 or 1; None takes 1 if all pictures are grey and 3 otherwise.
    """
    images: list[Array] = []
    broken: list[str] = []
    for name in names:
        data = tree.read(name)
        try:
            images.append(decode(data, size))
        except _UnreadableError as error:
            broken.append(f"{name} ({error})")
    if broken:
        more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        raise DataError(
            f"{tree.path}: {len(broken)} of {len(names)} images cannot be read: "
            f"{', '.join(broken[:_NAMED])}{more}; repair or remove them."
        )
    if channels is None:
        channels = max((image.shape[0] for image in images), default=3)
    if not images:
        return np.empty((0, channels, size, size), np.uint8)
    return np.stack([_with_channels(image, channels) for image in images])


class _UnreadableError(Exception):
    """Bytes that are not a picture."""


def decode(data: bytes, size: int) -> Array:
    """One picture as uint8 [1 or 3, size, size]."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # remarks on metadata we do not read
            with Image.open(io.BytesIO(data), formats=_FORMATS) as file:
                picture = _plain(file)
                if picture.size != (size, size):
                    picture = picture.resize((size, size), Image.Resampling.BILINEAR)
                pixels = np.array(picture, np.uint8)
    except UnidentifiedImageError as error:
        raise _UnreadableError("not a known image format") from error
    except (
        OSError,
        ValueError,
        SyntaxError,  # Pillow's word for malformed PNG chunks
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise _UnreadableError(str(error)) from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


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
        means.append(round(mean, 4))
        deviations.append(round(max(float(share @ (values - mean) ** 2) ** 0.5, 1e-3), 4))
    return tuple(means), tuple(deviations)


def _plain(picture: Image.Image) -> Image.Image:
    """Grey as mode L, everything else as RGB; 16-bit grey is scaled rather than clipped."""
    from PIL import Image

    if picture.mode.startswith("I"):
        wide = np.asarray(picture, np.float64)
        return Image.fromarray(np.clip(wide / 257.0, 0, 255).round().astype(np.uint8))
    if picture.mode in ("L", "1", "LA"):
        return picture.convert("L")
    return picture.convert("RGB")


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
