"""The one table of networks, and how a choice in text becomes a factory.

Importing this module does not import torch: command lines list and check models without it. The
modules named in the table are loaded when a network is built.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.core.params import build
from fedcord.models import options as opt
from fedcord.models import sizes
from fedcord.models.options import Inputs
from fedcord.models.spec import ModelSpec, parse_sizes, parse_spec
from fedcord.models.weights import encoder_problems, missing_weights

if TYPE_CHECKING:
    from torch import Generator, nn

KINDS = ("image", "vector", "text")


@dataclass(frozen=True)
class ModelInfo:
    """One row of the table.

    Attributes:
        summary: one line for lists.
        kinds: inputs the network reads.
        argument: form of what follows the colon, empty when nothing may follow.
        example: a choice to copy.
        options: dataclass of what can be chosen.
        builder: `module:function` that makes the network.
        fits: problems of options with an input shape, in words.
        argument_field: the option the argument sets.
        preset: options that differ from the dataclass's defaults.
        stages: names of the stages under the network's features, in words; empty: none.
    """

    summary: str
    kinds: tuple[str, ...]
    argument: str
    example: str
    options: type[Any]
    builder: str
    fits: Callable[[Any, tuple[int, ...]], list[str]] = sizes.anything_fits
    argument_field: str = ""
    preset: Mapping[str, Any] = field(default_factory=dict)
    stages: str = ""


def _resnet(name: str, blocks: tuple[int, ...], width: int) -> ModelInfo:
    return ModelInfo(
        f"residual network for small images, blocks {'-'.join(map(str, blocks))}, "
        f"width {width}, {8 * width} features",
        ("image",),
        "",
        f"{name},width=16,norm=group",
        opt.ResNetOptions,
        "fedcord.models.resnet:build_resnet",
        sizes.strided_fits,
        preset={"blocks": blocks, "width": width},
        stages="`stem`, `stage1` … `stage4`",
    )


MODELS: Mapping[str, ModelInfo] = MappingProxyType(
    {
        "auto": ModelInfo(
            "mlp:64 for images under 16 pixels, cnn for larger ones, mlp:200 for vectors, text",
            KINDS,
            "",
            "auto",
            opt.NoOptions,
            "",
        ),
        "logistic": ModelInfo(
            "logistic regression on the flattened input",
            ("image", "vector"),
            "",
            "logistic",
            opt.NoOptions,
            "fedcord.models.mlp:build_logistic",
        ),
        "mlp": ModelInfo(
            "fully connected network on the flattened input",
            ("image", "vector"),
            "hidden units joined by dashes (default 200)",
            "mlp:100-50",
            opt.MLPOptions,
            "fedcord.models.mlp:build_mlp",
            argument_field="hidden",
            stages="`hidden1`, `hidden2` …, all hidden layers but the last, which is the features",
        ),
        "cnn": ModelInfo(
            "small convolutional network for images of any size from 8 pixels",
            ("image",),
            "channels joined by dashes (default: by image size)",
            "cnn:32-64,kernel=5,fc=512",
            opt.CNNOptions,
            "fedcord.models.cnn:build_cnn",
            sizes.cnn_fits,
            argument_field="channels",
            stages="`map1`, `map2` …, one per convolution",
        ),
        "resnet10": _resnet("resnet10", (1, 1, 1, 1), 32),
        "resnet12": _resnet("resnet12", (2, 1, 1, 1), 64),
        "resnet18": _resnet("resnet18", (2, 2, 2, 2), 64),
        "resnet20": _resnet("resnet20", (1, 3, 3, 3), 64),
        "resnet34": _resnet("resnet34", (3, 4, 6, 3), 64),
        "mobilenet": ModelInfo(
            "MobileNetV2-style light network for images of 32 or 64 pixels",
            ("image",),
            "",
            "mobilenet,width=0.5",
            opt.MobileNetOptions,
            "fedcord.models.mobilenet:build_mobilenet",
            sizes.strided_fits,
            stages="`stem`, `stage1` … `stage7`, `last`",
        ),
        "text": ModelInfo(
            "mean of word embeddings and one hidden layer",
            ("text",),
            "",
            "text,width=64",
            opt.TextOptions,
            "fedcord.models.text:build_text",
            stages="`embedding`, the mean of a text's embeddings",
        ),
        "frozen": ModelInfo(
            "fixed encoder with a trained linear layer; only the layer is sent",
            ("image", "vector"),
            "pixels, random-conv, efficientnet-lite0, hf:MODEL or file=PATH.safetensors,arch=MODEL",
            "frozen:efficientnet-lite0,size=96",
            opt.FrozenOptions,
            "fedcord.models.frozen:build_frozen",
            sizes.frozen_fits,
            argument_field="encoder",
        ),
    }
)
"""Every network by name."""


@dataclass(frozen=True)
class Factory:
    """Makes networks of one choice; plain values only, so it can be rebuilt anywhere."""

    name: str
    options: Any
    inputs: Inputs

    def __call__(self, generator: Generator | None) -> nn.Module:
        """A network with weights drawn from `generator`; without one they are undefined."""
        module, _, function = MODELS[self.name].builder.partition(":")
        builder = getattr(importlib.import_module(module), function)
        try:
            return typing.cast("nn.Module", builder(self.options, self.inputs, generator))
        except ConfigError as error:
            raise ConfigError([f"model '{self.name}': {why}" for why in error.problems]) from error


def check_model(
    spec: str,
    *,
    kind: str | None = None,
    input_shape: tuple[int, ...] | None = None,
    data_dirs: Sequence[str | Path] = (),
    with_weights: bool = True,
) -> list[str]:
    """All that is wrong with a choice, in words; empty when it can be built. Needs no torch.

    Args:
        spec: `name[:argument][,key=value…]`.
        kind: "image", "vector" or "text" when known.
        input_shape: of one input, when known.
        data_dirs: folders searched for weights instead of those in `FEDCORD_DATA`.
        with_weights: whether weights that a frozen encoder needs must be there already.
    """
    try:
        _, info, options = _resolve(spec, kind, input_shape)
    except ConfigError as error:
        return list(error.problems)
    if kind is not None and kind not in info.kinds:
        return [
            f"model '{spec}' reads {' or '.join(info.kinds)} inputs, not {kind}; "
            f"choose one of {', '.join(n for n, i in MODELS.items() if kind in i.kinds)}."
        ]
    problems = [] if input_shape is None else _shape_problems(info, options, kind, input_shape)
    if isinstance(options, opt.FrozenOptions) and not problems:
        problems = encoder_problems(options)
        if with_weights and not problems:
            problems = missing_weights(options, data_dirs)
        if options.file and not problems:
            problems = check_model(options.arch, kind=kind)
    return [f"model '{spec}': {problem}" for problem in problems]


def network_factory(
    spec: str,
    *,
    kind: str,
    input_shape: tuple[int, ...],
    num_classes: int,
    vocabulary: int = 0,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
    data_dirs: Sequence[str | Path] = (),
) -> Callable[[Generator | None], nn.Module]:
    """The factory for `Task.networks`.

    Args:
        spec: `name[:argument][,key=value…]`.
        kind: "image", "vector" or "text".
        input_shape: of one prepared input.
        num_classes: C.
        vocabulary: number of token ids including padding; text only.
        mean: what `Task.prepare` subtracted per channel; frozen encoders undo it to apply the
            normalisation they were trained with.
        std: what `Task.prepare` divided by per channel.
        data_dirs: folders searched for weights instead of those in `FEDCORD_DATA`.

    Raises:
        ConfigError: with every problem `check_model` finds.
    """
    problems = check_model(spec, kind=kind, input_shape=input_shape, data_dirs=data_dirs)
    if kind == "text" and vocabulary < 2:
        problems.append(
            f"model '{spec}': vocabulary is {vocabulary}; give the number of token ids, "
            "padding included, at least 2."
        )
    if num_classes < 1:
        problems.append(f"model '{spec}': {num_classes} classes; at least one is needed.")
    if problems:
        raise ConfigError(problems)
    name, _, options = _resolve(spec, kind, input_shape)
    mean, std = tuple(map(float, mean)), tuple(map(float, std))
    inputs = Inputs(
        kind, tuple(input_shape), num_classes, vocabulary, mean, std, tuple(map(str, data_dirs))
    )
    return Factory(name, options, inputs)


def auto_model(kind: str, input_shape: tuple[int, ...] | None) -> str:
    """What `auto` stands for: the smallest network that does well on such inputs in seconds."""
    if kind == "text":
        return "text"
    if kind == "vector":
        return "mlp:200"
    return "mlp:64" if input_shape is not None and min(input_shape[1:]) < 16 else "cnn"


def _shape_problems(
    info: ModelInfo, options: Any, kind: str | None, shape: tuple[int, ...]
) -> list[str]:
    if kind is not None and len(shape) != (3 if kind == "image" else 1):
        form = "(channels, height, width)" if kind == "image" else "(length,)"
        return [f"{kind} inputs have the shape {form}, not {shape}."]
    return info.fits(options, shape)


def _resolve(
    text: str, kind: str | None, input_shape: tuple[int, ...] | None
) -> tuple[str, ModelInfo, Any]:
    """Name, row and options of a choice, or a ConfigError with every problem."""
    if kind is not None and kind not in KINDS:
        raise ConfigError(unknown_name("kind of input", kind, KINDS))
    spec = parse_spec(text)
    if spec == ModelSpec("auto", "", {}) and kind is not None:
        spec = parse_spec(auto_model(kind, input_shape))
    if spec.name not in MODELS:
        raise ConfigError(unknown_name("model", spec.name, MODELS, "fedcord list models"))
    info = MODELS[spec.name]
    try:
        return spec.name, info, build(info.options, _values(spec, info))
    except ConfigError as error:
        raise ConfigError([f"model '{text}': {problem}" for problem in error.problems]) from error


def _values(spec: ModelSpec, info: ModelInfo) -> dict[str, Any]:
    given: dict[str, Any] = dict(spec.values)
    if spec.argument:
        if not info.argument_field:
            raise ConfigError(
                f"{spec.name} takes nothing after the colon; write it like {info.example}."
            )
        given[info.argument_field] = spec.argument
    hints = typing.get_type_hints(info.options)
    for key, value in given.items():
        if typing.get_origin(hints.get(key)) is tuple:
            given[key] = parse_sizes(str(value))
            if given[key] is None:
                raise ConfigError(
                    f"'{value}' is not a list of whole numbers from 1 joined by "
                    f"dashes; write it like {info.example}."
                )
        elif hints.get(key) is str:
            given[key] = str(value)
    return {**info.preset, **given}
