"""Names: which texts may be values or folders, and how those on a user's disk are shown."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping

from fedcord.core.errors import shown

LONGEST_NAME = 100
LONGEST_CLIENT_NAME = 200
MOST_LISTED = 20
"""Clients that a message names before it only counts."""
FORBIDDEN = '/\\:*?"<>|'
"""Separators of paths, what some file systems refuse, and the colon of `--set NAME:key=value`."""
RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
"""Devices, not files, on some systems whatever their ending."""


def is_plain(text: str) -> bool:
    r"""Whether a text has no control characters and can be written as UTF-8.

    >>> is_plain("Ärzte 2024"), is_plain("one\ntwo")
    (True, False)
    """
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def name_problem(what: str, name: object) -> str | None:
    """Why `name` cannot be the name of a folder inside another, in words, or None.

    >>> name_problem("label", " ")
    "label ' ': must not be empty."
    """
    if not isinstance(name, str):
        return f"{what} {shown(name)}: must be text, in quotes."
    why = None
    if not name.strip():
        why = "must not be empty"
    elif len(name) > LONGEST_NAME:
        why = f"must have at most {LONGEST_NAME} characters"
    elif not is_plain(name):
        why = "must be without line breaks and other control characters"
    elif any(character in FORBIDDEN for character in name):
        why = f"must be without any of {' '.join(FORBIDDEN)}"
    elif name[0] in ". " or name[-1] in ". ":
        why = "must not begin or end with a dot or a space"
    elif name.split(".")[0].lower() in RESERVED:
        why = "is the name of a device on some systems; choose another"
    return None if why is None else f"{what} {shown(name)}: {why}."


def client_said(client: int, names: Mapping[int, str]) -> str:
    """A client as every message calls it: by its number, and by its name where it has one.

    >>> client_said(7, {}), client_said(7, {7: "Hôpital Nord"})
    ('client 7', "client 'Hôpital Nord' (7)")
    """
    return f"client {_called(client, names)}"


def clients_listed(
    clients: Iterable[int], names: Mapping[int, str], most: int = MOST_LISTED
) -> str:
    """Several clients within a sentence, in ascending order; after `most` they are counted.

    >>> clients_listed([2, 0], {}), clients_listed([2, 0], {0: "North"})
    ('0, 2', "'North' (0), 2")
    """
    known = sorted(clients)
    shown_ones = ", ".join(_called(client, names) for client in known[:most])
    rest = len(known) - most
    return f"{shown_ones} and {rest} more" if rest > 0 else shown_ones


def _called(client: int, names: Mapping[int, str]) -> str:
    name = names.get(client)
    return f"'{name}' ({client})" if name else str(client)


def told_name(name: object) -> str:
    """A client's name as a node told it, or a ValueError; nothing says that it has none."""
    if not isinstance(name, str) or len(name) > LONGEST_CLIENT_NAME or not name.isprintable():
        raise ValueError(
            f"{shown(name)} is no name of at most {LONGEST_CLIENT_NAME} printable characters"
        )
    return name


def folder_name(text: str) -> str:
    """A text as part of a folder's name on any file system.

    >>> folder_name("my_methods:Own")
    'my_methods.Own'
    """
    safe = "".join("." if c in FORBIDDEN or not c.isprintable() else c for c in text)
    return safe[:LONGEST_NAME]


def is_text(name: str) -> bool:
    """Whether a name can be written to a file; bytes of a path that are not UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def readable(name: str) -> str:
    r"""A file's name as text that can be shown and stored everywhere.

    Bytes that are not UTF-8 and control characters are written as escapes, everything else stays.

    >>> readable("Köln\udce9")
    'Köln\\xe9'
    """
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
