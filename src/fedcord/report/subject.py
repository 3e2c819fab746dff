"""What a report is about, in few words and without folders of the machine that made it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from fedcord.report.numbers import listed

MOST_NAMES = 3
"""Methods that a heading names."""


def short_data(spec: str) -> str:
    """A data set's name without folders and options.

    >>> short_data("npz:/home/me/wards/heart.npz?label=sick"), short_data("digits")
    ('heart.npz', 'digits')
    """
    name = spec.split("?")[0]
    return name.rstrip("/").rpartition("/")[2] if "/" in name else name


def same_data(spec: str) -> str:
    """What two spellings of one data set share wherever it lies: all but the folders.

    >>> same_data("npz:/home/me/heart.npz?label=sick")
    'npz:heart.npz?label=sick'
    """
    trimmed = re.sub(r"/+(?=$|\?)", "", spec)
    return re.sub(r"(^|[:=])[^:=?&]*/", r"\1", trimmed)


def without_folders(text: str) -> str:
    """A setting or a word of a command in which absolute folders are an ellipsis.

    >>> without_folders("npz:/home/me/heart.npz?label=sick"), without_folders("runs/study")
    ('npz:…/heart.npz?label=sick', 'runs/study')
    """
    return re.sub(r"(^|[:=,])(?:/|~)[^:=?&,]*/(?=.)", r"\1…/", text)


def command_without_folders(command: str) -> str:
    """A command line in which absolute folders are an ellipsis."""
    try:
        words = shlex.split(command)
    except ValueError:  # it was recorded by another program
        words = command.split()
    shown = [without_folders(word) for word in words]
    return command if shown == words else " ".join(map(_quoted, shown))


def _quoted(word: str) -> str:
    """For a shell, but for the ellipsis, which stands for letters that need no quotes."""
    plain = word.replace("…", "")
    return word if shlex.quote(plain) == plain else f"'{word}'"


def heading(names: Sequence[str], dataset: str) -> str:
    """The title of a comparison.

    >>> heading(["a", "b", "c", "d", "e"], "digits")
    'a, b, c and 2 more on digits'
    """
    rest = len(names) - MOST_NAMES
    shown = [*names[:MOST_NAMES], *([f"{rest} more"] if rest > 0 else [])]
    return f"{listed(shown)} on {short_data(dataset)}"
