"""Every error a user can meet.

FedcordError
├── ConfigError       a setting, flag or study file is wrong (holds every problem found)
├── DataError         a data set or partition cannot be used
├── ProtocolError     an update has wrong names, shapes, types or values
├── NumericalError    training or a solve left the finite numbers
├── CheckpointError   a run folder or checkpoint cannot be used
├── FailedRunError    a run that has ended without a result was asked for one
└── PairingError      results that are not paired were compared

A message says what was given, what is allowed, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class FedcordError(Exception):
    """Base of all errors fedcord raises on purpose."""


class ConfigError(FedcordError):
    """One or more settings are wrong; `problems` lists all of them."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(self.problems))


class DataError(FedcordError):
    """A data set, file or partition cannot be used."""


class ProtocolError(FedcordError):
    """A message between client and server breaks the agreed form."""


class NumericalError(FedcordError):
    """A computation produced values that are not finite or not solvable."""


class CheckpointError(FedcordError):
    """A run folder or checkpoint is unreadable, foreign or in use."""


class FailedRunError(FedcordError):
    """A run has ended without a result, here or before."""


class PairingError(FedcordError):
    """Results were compared that do not share seeds and partitions."""


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> str:
    """Message for a name that is not known, with the nearest known one.

    >>> unknown_name("algorithm", "fedavgg", ["fedavg", "fedprox"])
    "unknown algorithm 'fedavgg'; did you mean 'fedavg'? Allowed: fedavg, fedprox."
    """
    names = sorted(allowed)
    near = [name for name in names if name.endswith(f".{given}")]  # `lr` means `local.lr`
    near = near or difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" did you mean '{near[0]}'?" if near else ""
    return f"unknown {kind} '{given}';{hint} Allowed: {', '.join(names)}."
