"""Names that come from a user's disk: of files, classes and clients."""

from __future__ import annotations

import os


def is_text(name: str) -> bool:
    """Whether a name can be written to a file; bytes of a path that are not UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def readable(name: str) -> str:
    r"""A file's name as text that can be shown and stored everywhere.

    Bytes that are not UTF-8 and control characters are written as escapes, everything else stays.

    >>> readable("Köln\udce9")
    'Köln\\xe9'
    """
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
