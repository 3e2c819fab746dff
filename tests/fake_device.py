"""A device that is none: tensors "there" hold their values in ordinary memory, and nothing mixes.

It refuses what a GPU would: an operation on tensors of two devices, a CPU generator for numbers
there, and `numpy()` of a tensor there. What a GPU allows is allowed: numbers without dimensions in
arithmetic, CPU indices, and copying. PyTorch knows the device as `meta`, on which it can run
backward passes; the values, unlike those of real meta tensors, are computed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

THERE = torch.device("meta")

TAKES_CPU_INDICES = ("index", "index_put", "index_put_", "_index_put_impl_")
NO_SCALARS = ("cat", "stack", "mm", "addmm", "bmm", "index_select", "gather", "scatter")


class MixedDevicesError(RuntimeError):
    """What a GPU would have refused."""


class TensorThere(Tensor):
    """A tensor on the device; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> TensorThere:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=THERE,
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def tolist(self) -> Any:
        return self.held.tolist()

    def item(self) -> Any:
        return self.held.item()

    def __float__(self) -> float:
        return float(self.held)

    def __int__(self) -> int:
        return int(self.held)

    def __bool__(self) -> bool:
        return bool(self.held)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"TensorThere({self.held})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return dispatch(func, args, dict(kwargs or {}))


@contextlib.contextmanager
def fake_device() -> Iterator[torch.device]:
    """A device that tensors can be made on as long as this is entered."""
    with pytest.MonkeyPatch.context() as patch, FakeDevice():  # type: ignore[no-untyped-call]
        with_this = [*_foreach_utils._get_fused_kernels_supported_devices(), THERE.type]
        optimizers = sys.modules[torch.optim.Optimizer.__module__]
        patch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: with_this)
        yield THERE


class FakeDevice(TorchDispatchMode):
    """Sees every operation, also those that make tensors of nothing."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return dispatch(func, args, dict(kwargs or {}))


def dispatch(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Do an operation where its tensors are."""
    if func._can_decompose():  # in inference mode nothing has taken it apart
        with FakeDevice():  # type: ignore[no-untyped-call]
            return func.decompose(*args, **kwargs)
    name = func._schema.name.removeprefix("aten::")
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, TensorThere)]
    asked = kwargs.get("device")
    asked = None if asked is None else torch.device(asked)
    goes_there = bool(there) if asked is None else asked == THERE
    if name == "copy_":
        goes_there = isinstance(args[0], TensorThere)
    elif there and asked is None:
        _check(name, args, tensors)
    generator = kwargs.get("generator")
    if goes_there and generator is not None and generator.device.type == "cpu":
        raise MixedDevicesError(f"{name}: a CPU generator cannot fill a tensor on the device")
    if asked == THERE:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    back = {id(tensor.held): tensor for tensor in there}
    plain = tree_map(lambda x: x.held if isinstance(x, TensorThere) else x, (tuple(args), kwargs))
    out = func(*plain[0], **plain[1])

    def placed(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if id(x) in back:  # written in place
            return back[id(x)]
        if goes_there and x.dtype == torch.float64:
            raise MixedDevicesError(f"{name}: float64 on the device, which Apple's have not")
        with torch.inference_mode(False):  # views of ordinary tensors are ordinary tensors
            return TensorThere(x) if goes_there else x

    return tree_map(placed, out)


def _check(name: str, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    here = [tensor for tensor in tensors if not isinstance(tensor, TensorThere)]
    if name in TAKES_CPU_INDICES and isinstance(args[0], TensorThere):
        values = tree_flatten(args[2:])[0] if name != "index" else []
        here = [x for x in values if isinstance(x, Tensor) and not isinstance(x, TensorThere)]
    if name not in NO_SCALARS:
        here = [tensor for tensor in here if tensor.dim() > 0]
    if here:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in here)
        raise MixedDevicesError(f"{name} of a tensor on the device and one on the CPU ({shapes})")


def is_there(tensor: Tensor) -> bool:
    return isinstance(tensor, TensorThere)
