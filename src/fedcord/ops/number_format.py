"""Networks on the wire in fewer bits.

    float32   as they are
    float16   half the bytes; weights beyond ±65504 are refused
    int8      a quarter: each row of a matrix or kernel is w = scale · q with q in −127 … 127;
              vectors and everything that is not a weight stay as they are

Everybody, the server included, computes with what travelled, so nothing is approximate about what
is solved or trained on such networks.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedcord.core.errors import NumericalError
from fedcord.core.tensors import Tensors, TensorSpec

FORMATS = ("float32", "float16", "int8")
SCALE = "row_scale"
"""Last part of the name under which the scales of an int8 tensor travel."""


def shrink(tensors: Tensors, form: str) -> dict[str, Tensor]:
    """Tensors as they travel."""
    if form == "float32":
        return dict(tensors)
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            out[name] = tensor
        elif form == "float16":
            out[name] = _half(name, tensor)
        elif tensor.ndim < 2:
            out[name] = tensor
        else:
            out[name], out[f"{name}.{SCALE}"] = _rows(tensor)
    return out


def grow(tensors: Tensors) -> dict[str, Tensor]:
    """The float32 tensors that everybody computes with; the inverse of `shrink` up to rounding.

    Tensors of several networks may be stacked, their scales alike.
    """
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        scale = tensors.get(f"{name}.{SCALE}")
        if scale is not None:
            out[name] = tensor.float() * scale.view(*scale.shape, *[1] * (tensor.ndim - scale.ndim))
        elif not name.endswith(f".{SCALE}"):
            out[name] = tensor.float() if tensor.dtype == torch.float16 else tensor
    return out


def travelling_spec(tensors: Tensors, form: str) -> dict[str, TensorSpec]:
    """Shapes and types of `shrink(tensors, form)`, whatever the values are."""
    out: dict[str, TensorSpec] = {}
    for name, tensor in tensors.items():
        shape, is_weight = tuple(tensor.shape), tensor.dtype == torch.float32
        out[name] = TensorSpec(shape, tensor.dtype)
        if is_weight and form == "float16":
            out[name] = TensorSpec(shape, torch.float16)
        elif is_weight and form == "int8" and len(shape) >= 2:
            out[name] = TensorSpec(shape, torch.int8)
            out[f"{name}.{SCALE}"] = TensorSpec(shape[:1], torch.float32)
    return out


def travelling_bytes(tensors: Tensors, form: str) -> int:
    """Size of `shrink(tensors, form)`."""
    specs = travelling_spec(tensors, form).values()
    return sum(math.prod(spec.shape) * spec.dtype.itemsize for spec in specs)


def _half(name: str, tensor: Tensor) -> Tensor:
    half = tensor.half()
    if not torch.isfinite(half).all():
        largest = float(tensor.abs().max())
        raise NumericalError(
            f"{name} has values up to {largest:g}, beyond float16; use another format."
        )
    return half


def _rows(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Int8 values of the tensor's shape, and a scale for each row [R]."""
    flat = tensor.flatten(1)
    scale = flat.abs().amax(dim=1) / 127 if flat.shape[1] else flat.new_zeros(len(flat))
    steps = scale.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    return (flat / steps).round().clamp(-127, 127).to(torch.int8).view(tensor.shape), scale
