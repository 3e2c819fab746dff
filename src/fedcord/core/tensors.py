"""Named tensors: the only thing that is sent, kept or stored.

Names are flat and dotted (`model.conv1.weight`, `proto.mean`). One codec (safetensors) turns them
into bytes for the wire and for checkpoints; nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcord.core.errors import ProtocolError

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class TensorSpec:
    """Shape and type a tensor must have, and what its values may be, which no tensor shows.

    Specs of equal shape and type are equal, so that `spec_of` a message is what was agreed.

    Attributes:
        shape: every dimension; with `rows_of` the first is the most there can be, with
            `rows_sum_of` it is 0, since nobody knows before.
        dtype: the element type.
        rows_of: name of a vector sent along. Only the rows where it is not zero are sent, in their
            order, so that classes a client lacks cost nothing.
        rows_sum_of: name of a vector of counts sent along; there are as many rows as it adds up to,
            so that a client can send as many of something as it has.
        counts: whether it says how many examples there are, of each class for instance: whole
            numbers from 0 that add up to the weight of the update. Nobody else could tell that a
            class has fewer than none.
        at_least: the least value there can be, of squares for instance; None: any.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    rows_of: str | None = None
    rows_sum_of: str | None = None
    counts: bool = field(default=False, compare=False)
    at_least: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"

    def given(self, tensors: Tensors) -> TensorSpec:
        """The spec with the number of rows that the vector in `tensors` announces."""
        if self.rows_of is not None:
            rows = int(tensors[self.rows_of].count_nonzero())
        elif self.rows_sum_of is not None:
            rows = sum(tensors[self.rows_sum_of].tolist())  # of any size, without overflow
        else:
            return self
        return TensorSpec((rows, *self.shape[1:]), self.dtype)

    @property
    def announced_by(self) -> str | None:
        """The name of the vector sent along that says how many rows there are."""
        return self.rows_of or self.rows_sum_of

    @property
    def bounds_values(self) -> bool:
        """Whether `check_amounts` has anything to check."""
        return self.counts or self.at_least is not None


def spec_of(tensors: Tensors) -> dict[str, TensorSpec]:
    """The shape and type of every tensor."""
    return {name: TensorSpec(tuple(t.shape), t.dtype) for name, t in tensors.items()}


def select(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    """Tensors whose name starts with `prefix.`, with the prefix removed."""
    start = prefix + "."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def prefixed(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """The same tensors under `prefix.`; the inverse of `select`."""
    return {f"{prefix}.{name}": t for name, t in tensors.items()}


def num_bytes(tensors: Tensors) -> int:
    """Size of the values, without any framing."""
    return sum(t.numel() * t.element_size() for t in tensors.values())


def hash_tensors(tensors: Tensors) -> str:
    """SHA-256 over names, types, shapes and values; independent of order and memory layout."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(raw_bytes(tensor).data)
    return digest.hexdigest()


def raw_bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """A tensor's values in plain memory layout, byte by byte; copied only where they must be."""
    plain = tensor.detach().cpu().contiguous()
    # a tensor of one element or none counts as contiguous whatever its strides are, and keeps them
    # through `reshape`; another element type wants a stride of 1
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy()


def encode(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """Tensors as safetensors bytes, in name order and plain memory layout."""
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    # safetensors refuses tensors that share memory; the receiver could not tell them apart either
    seen: set[int] = set()
    for name, tensor in plain.items():
        pointer = tensor.untyped_storage().data_ptr()
        if pointer in seen:
            plain[name] = tensor.clone()
        seen.add(pointer)
    return safetensors.torch.save(plain, metadata=dict(metadata) if metadata else None)


def decode(data: bytes) -> dict[str, Tensor]:
    """The inverse of `encode`; bytes that are not safetensors are refused."""
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ProtocolError(
            f"{len(data)} bytes are not a safetensors message ({error}); "
            "send what fedcord.core.tensors.encode returns."
        ) from error


def check_tensors(tensors: Tensors, expected: Mapping[str, TensorSpec], owner: str) -> None:
    """Refuse tensors with other names, shapes or types than `expected`, or non-finite values.

    Args:
        tensors: what arrived.
        expected: what was agreed.
        owner: who sent it, for the message, such as `client 7`.
    """
    missing = sorted(expected.keys() - tensors.keys())
    if missing:
        raise ProtocolError(f"{owner} did not send {', '.join(missing)}; every update needs it.")
    extra = sorted(tensors.keys() - expected.keys())
    if extra:
        raise ProtocolError(
            f"{owner} sent {', '.join(extra)}, which was not agreed; allowed: "
            f"{', '.join(sorted(expected))}."
        )
    # what announces numbers of rows is checked before it is believed
    for name in sorted(expected, key=lambda name: (expected[name].announced_by is not None, name)):
        counts = expected[name].rows_sum_of
        if counts is not None and bool((tensors[counts] < 0).any()):
            raise ProtocolError(f"{owner} sent {counts} with numbers below 0; send counts.")
        tensor, spec = tensors[name], expected[name].given(tensors)
        found = TensorSpec(tuple(tensor.shape), tensor.dtype)
        if found != spec:
            rows_of = expected[name].rows_of
            why = "" if counts is None else f" (as many rows as {counts} adds up to)"
            why = why if rows_of is None else f" (a row for each entry of {rows_of} that is not 0)"
            raise ProtocolError(f"{owner} sent {name} as {found}, expected {spec}{why}.")
        if not is_finite(tensor):
            raise ProtocolError(
                f"{owner} sent {name} with values that are not finite; "
                "lower the learning rate or clip gradients."
            )


def check_amounts(
    tensors: Tensors, expected: Mapping[str, TensorSpec], weight: float, owner: str
) -> None:
    """Refuse counts that cannot be counts of `weight` examples, and values below the least.

    Args:
        tensors: of the names that are expected, finite; of one update, or the sums of several.
        expected: what was agreed.
        weight: of the update, or of all of them.
        owner: who sent it, for the message.
    """
    for name in sorted(name for name, spec in expected.items() if spec.bounds_values):
        spec = expected[name]
        values = tensors[name].detach().to(torch.float64)
        if spec.at_least is not None and bool((values < spec.at_least).any()):
            raise ProtocolError(
                f"{owner} sent {name} with {float(values.min()):g}; expected {spec.at_least:g} or "
                "more."
            )
        if not spec.counts:
            continue
        if bool((values < 0).any()) or bool((values != values.round()).any()):
            wrong = values[(values < 0) | (values != values.round())][0]
            raise ProtocolError(
                f"{owner} sent {name} with {float(wrong):g}, which counts nothing; expected whole "
                "numbers from 0."
            )
        # counts of many examples are rounded to the element type
        rounding = torch.finfo(spec.dtype).eps if spec.dtype.is_floating_point else 0.0
        total = float(values.sum())
        if abs(total - weight) > rounding * weight:
            raise ProtocolError(
                f"{owner} sent {name} that adds up to {total:.15g}, but weight {weight:.15g}; "
                "expected as many examples in both."
            )


def is_finite(tensor: Tensor) -> bool:
    """Whether every value is a finite number."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    # one pass without a mask: a NaN or infinity anywhere survives the multiplication by zero
    return bool((tensor.detach() * 0).sum() == 0) if tensor.numel() else True
