"""How much clients compute: examples that pass forward and backward through their networks.

Epochs do not say it: two views of an example are two rows of a step, a feature that is computed
once more is one more, and what fills a batch up to one size is computed like the rest of it.
Seconds say it of one machine. So passes are counted where they happen, at the first layer of every
network that a task makes, while somebody keeps an account.

Passes that do not reach a network's first layer are not counted: training a head on features that
are there already costs a small part of one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

LARGEST = 2**63
"""No count reaches this."""


@dataclass
class Passes:
    """What some work took.

    Attributes:
        forward: examples that passed forward.
        backward: examples whose gradients passed backward.
        cpu_seconds: of this process.
    """

    forward: int = 0
    backward: int = 0
    cpu_seconds: float = 0.0

    @property
    def compute(self) -> int:
        """Passes forward, and twice those backward, which cost about two forward ones."""
        return self.forward + 2 * self.backward

    def plain(self) -> list[int]:
        """The passes, as JSON can hold them; they are the same whenever work is done again."""
        return [self.forward, self.backward]

    @staticmethod
    def from_plain(values: object) -> Passes:
        """The inverse of `plain`; a ValueError where these are no passes."""
        if not isinstance(values, list) or len(values) != 2:
            raise ValueError(f"{values!r} are not two numbers")
        if not all(isinstance(own, int) and 0 <= own < LARGEST for own in values):
            raise ValueError(f"{values!r} are not passes forward and backward")
        return Passes(*values)

    def __add__(self, other: Passes) -> Passes:
        return Passes(
            self.forward + other.forward,
            self.backward + other.backward,
            self.cpu_seconds + other.cpu_seconds,
        )


@dataclass
class PassCounter:
    """Counts what passes through the networks it watches, for whoever keeps an account.

    Attributes:
        apart: by client, what was computed for several of them at once; whoever asked takes it.
    """

    apart: dict[int, Passes] = field(default_factory=dict)
    _account: Passes | None = None

    @contextmanager
    def account(self) -> Iterator[Passes]:
        """What passes until the end of the block; an account within another is not part of it."""
        own, outer = Passes(), self._account
        self._account, started = own, time.process_time()
        try:
            yield own
        finally:
            own.cpu_seconds = time.process_time() - started
            self._account = outer

    def add(self, client: int | None, forward: int, backward: int) -> None:
        """Passes of one client that no network of the task was asked for."""
        if self._account is not None and client is not None:
            self.apart[client] = self.apart.get(client, Passes()) + Passes(forward, backward)

    @contextmanager
    def of(self, client: int | None) -> Iterator[None]:
        """What passes until the end of the block is that client's, whoever else is visited."""
        with self.account() as own:
            yield
        self.add(client, own.forward, own.backward)

    def watch(self, network: nn.Module) -> nn.Module:
        """The same network, whose passes are counted from now on."""
        first = next((own for own in network.modules() if _has_weights(own)), None)
        if first is not None:
            # a function, not a method: copies of the network must tell this counter
            first.register_forward_hook(lambda _, inputs, output: self._passed(inputs, output))
        return network

    def _passed(self, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        account = self._account
        if account is None or not inputs or inputs[0].ndim == 0:
            return
        rows = len(inputs[0])
        if _is_transformed(output):
            whole, learns = _beneath(output)
            rows *= whole.numel() // max(output.numel(), 1)
            account.forward += rows
            account.backward += rows if learns else 0
            return
        account.forward += rows
        if output.requires_grad:

            def passed_back(_: Tensor) -> None:
                account.backward += rows

            output.register_hook(passed_back)


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


# `vmap` and `grad` of torch.func show a function one example or one model of many; torch has no
# public way to ask how many
_FUNC = torch._C._functorch


def _is_transformed(tensor: Tensor) -> bool:
    return bool(_FUNC.is_functorch_wrapped_tensor(tensor))


def _beneath(tensor: Tensor) -> tuple[Tensor, bool]:
    """The whole tensor that a transformed one is a part of, and whether gradients are taken."""
    learns = False
    while _is_transformed(tensor):
        learns |= bool(_FUNC.is_gradtrackingtensor(tensor))
        tensor = _FUNC.get_unwrapped(tensor)
    return tensor, learns
