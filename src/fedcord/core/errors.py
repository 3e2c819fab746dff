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

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence


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


FEW_NAMES = 12
"""So many names fit into a message; of more, the nearest are shown."""
SHOWN_CHARACTERS = 80
"""Of a value that a message repeats."""


@contextlib.contextmanager
def gather(problems: list[str]) -> Iterator[None]:
    """Add what a ConfigError says to `problems` and go on, so that mistakes are told together."""
    try:
        yield
    except ConfigError as error:
        problems += [problem for problem in error.problems if problem not in problems]


def shown(value: object) -> str:
    """A value as a message repeats it: on one line, and short however long it is.

    >>> shown("rounds"), shown(10**30)
    ("'rounds'", '1000000000000000000000000000000')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no integers of thousands of digits
        return "a number of thousands of digits"
    except RecursionError:
        return "a value nested too deeply"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def unknown_name(kind: str, given: str, allowed: Iterable[str], see: str = "") -> str:
    """Message for a name that is not known, with the nearest known ones.

    Args:
        kind: what was named.
        given: the name.
        allowed: all there are.
        see: the command that lists them, which replaces a list too long for a message.

    >>> unknown_name("algorithm", "fedavgg", ["fedavg", "fedprox"])
    "unknown algorithm 'fedavgg'; did you mean 'fedavg'? Allowed: fedavg, fedprox."
    """
    names = sorted(allowed)
    near = [name for name in names if name.endswith(f".{given}")]  # `lr` means `local.lr`
    is_long = see != "" and len(names) > FEW_NAMES
    if not near and len(given) <= SHOWN_CHARACTERS:  # what is longer is near to nothing
        near = difflib.get_close_matches(given, names, n=3 if is_long else 1, cutoff=0.5)
    hint = f" did you mean {any_of(near[:3])}?" if near else ""
    rest = f"`{see}` shows all." if is_long else f"Allowed: {', '.join(names)}."
    return f"unknown {kind} {shown(given)};{hint} {rest}"


def any_of(names: Sequence[str]) -> str:
    """Quoted names as a choice.

    >>> any_of(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    quoted = [f"'{name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
