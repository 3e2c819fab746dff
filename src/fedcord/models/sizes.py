"""Which inputs fit which network, in words, without torch: checked before anything loads."""

from __future__ import annotations

import importlib.util

from fedcord.models.options import CNNOptions, FrozenOptions, MobileNetOptions, ResNetOptions

Shape = tuple[int, ...]
STAGES = 4
"""Of residual networks; all but the first halve the image and double the channels."""


def anything_fits(options: object, shape: Shape) -> list[str]:
    """For networks that read any input of their kind."""
    return []


def cnn_channels(options: CNNOptions, shape: Shape) -> tuple[int, ...]:
    """Channels of every convolution; by default as many as bring the map down to about 8×8."""
    if options.channels:
        return options.channels
    depth = 2
    while min(shape[1:]) >> depth > 8:
        depth += 1
    return tuple(options.width * min(2**level, 4) for level in range(depth))


def cnn_is_padded(options: CNNOptions) -> bool:
    """Whether convolutions keep the size of the map."""
    return options.padding == "same" or (options.padding == "auto" and options.kernel <= 3)


def cnn_map_size(options: CNNOptions, shape: Shape) -> tuple[int, int]:
    """Height and width of the last map; zero or less when the image is too small."""
    lost = 0 if cnn_is_padded(options) else options.kernel - 1
    height, width = shape[1:]
    for _ in cnn_channels(options, shape):
        height, width = (height - lost) // 2, (width - lost) // 2
    return height, width


def cnn_fits(options: CNNOptions, shape: Shape) -> list[str]:
    """Problems of the small network with images [C, H, W]."""
    problems = []
    if options.kernel % 2 == 0:
        problems.append(f"kernel={options.kernel} is even; use an odd number such as 3 or 5.")
    elif min(cnn_map_size(options, shape)) < 1:
        problems.append(
            f"images of {shape[1]}×{shape[2]} shrink to nothing after "
            f"{len(cnn_channels(options, shape))} convolutions with kernel {options.kernel}; "
            "use kernel=3, padding=same or fewer convolutions."
        )
    return problems


def strided_fits(options: ResNetOptions | MobileNetOptions, shape: Shape) -> list[str]:
    """Problems of networks that divide the side of an image by eight.

    An 8×8 image ends as one place per channel, and then batch normalisation cannot take the single
    left-over example of an epoch; that would stop a run in its middle.
    """
    if isinstance(options, ResNetOptions) and len(options.blocks) != STAGES:
        given = "-".join(map(str, options.blocks))
        return [f"blocks={given}: there are {STAGES} stages; write it like blocks=2-2-2-2."]
    if options.norm == "batch" and shape[1] <= 8 and shape[2] <= 8:
        return [
            f"images of {shape[1]}×{shape[2]} are too small for batch normalisation at an eighth "
            "of their size; use norm=group, or cnn or mlp."
        ]
    return []


def frozen_fits(options: FrozenOptions, shape: Shape) -> list[str]:
    """Problems of a frozen encoder that need no weights to be read."""
    if bool(options.encoder) == bool(options.file):
        return [
            "give one encoder, as frozen:NAME (pixels, random-conv, efficientnet-lite0, "
            "hf:MODEL) or frozen:file=PATH.safetensors,arch=MODEL."
        ]
    if len(shape) != 3 and options.encoder != "pixels":
        return [f"frozen:{options.encoder or 'file'} reads images, not inputs of shape {shape}."]
    if options.file and not options.arch:
        return ["frozen:file needs arch=MODEL, the model the weights belong to, such as resnet18."]
    if options.encoder.startswith("hf:") and importlib.util.find_spec("transformers") is None:
        return [
            f"frozen:{options.encoder} needs the package transformers; "
            "install it with: pip install 'fedcord[huggingface]'."
        ]
    return []
