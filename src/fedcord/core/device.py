"""Where networks run: the CPU, or a GPU that this machine has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedcord.core.errors import ConfigError, shown

if TYPE_CHECKING:
    import torch

CPU, AUTO = "cpu", "auto"
FORM = re.compile(r"cpu|mps|cuda(:\d{1,3})?|auto")


def device_problem(text: str) -> str | None:
    """Why this cannot be the name of a device, or None; whether it is there is another question."""
    if FORM.fullmatch(text):
        return None
    return f"device = {shown(text)}: must be auto, cpu, cuda, cuda:N for card N, or mps."


def kind_of(device: str) -> str:
    """The device without the number of its card, which decides no bit.

    >>> kind_of("cuda:1"), kind_of("cpu")
    ('cuda', 'cpu')
    """
    return device.partition(":")[0]


def chosen_device(text: str) -> str:
    """The device itself, or what `auto` stands for: a GPU if PyTorch finds one, or the CPU."""
    if text != AUTO:
        return text
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else CPU


def find_device(text: str) -> torch.device:
    """The device of that name.

    Raises:
        ConfigError: when PyTorch finds none, which says what it does find.
    """
    import torch

    kind, _, number = text.partition(":")
    cards = torch.cuda.device_count() if kind == "cuda" and torch.cuda.is_available() else 0
    is_there = {
        CPU: True,
        "cuda": int(number or 0) < cards,
        "mps": torch.backends.mps.is_available(),
    }
    if not is_there.get(kind, False):
        found = [CPU]
        found += [f"cuda:{card}" for card in range(cards)]
        found += ["mps"] * is_there["mps"]
        raise ConfigError(
            f"device = {text}: PyTorch finds no such device here; there is "
            f"{', '.join(found)}. Choose one, or auto."
        )
    return torch.device(text)


def described(device: torch.device) -> str:
    """A device with the name of its card, for which bits may differ."""
    if device.type != "cuda":
        return str(device)
    import torch

    return f"cuda ({torch.cuda.get_device_name(device)})"
