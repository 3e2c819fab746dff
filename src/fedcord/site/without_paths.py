"""What a site says of its troubles to a server: the reason, and not where on its disk.

Paths name people as often as folders, and so do the files below them. The site's own log has them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from fedcord.core.errors import ConfigError, FedcordError
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.formats.tree import open_tree
from fedcord.data.registry import USER_FORMATS
from fedcord.data.spec import DatasetSpec
from fedcord.site.site_file import SiteFile

LEFT_OUT = "…"
_BELOW = r"(?:/[^\s'\":;,()]*)?"
_ABSOLUTE = re.compile(r"(?<![\w.…/])/[^\s'\"/:;,()]+(?:/[^\s'\":;,()]*)*")
"""What else looks like a path from the root; words such as and/or do not."""


def without_paths(error: FedcordError, file: Path, site: SiteFile | None) -> FedcordError:
    """The same error in words that name no file of the site's.

    Args:
        error: as the site sees it.
        file: the site's file.
        site: what it says, if it could be read.
    """
    names = sorted(set(_names(file, site)), key=len, reverse=True)

    def cleaned(text: str) -> str:
        for name in names:
            if name in text:
                text = re.sub(rf"(?<![\w.-]){re.escape(name)}{_BELOW}(?![\w-])", LEFT_OUT, text)
        return _ABSOLUTE.sub(LEFT_OUT, text)

    if isinstance(error, ConfigError):
        return ConfigError([cleaned(problem) for problem in error.problems])
    return type(error)(cleaned(str(error)))


def _names(file: Path, site: SiteFile | None) -> Iterator[str]:
    """Every way in which a message can name a file or folder of the site's."""
    for known in (file, file.absolute(), file.resolve()):
        yield from (str(known), str(known.parent)) if known.is_absolute() else (str(known),)
    if site is None:
        return
    yield from map(str, (site.memory, *site.data_dirs))
    for spec in filter(lambda data: isinstance(data, str), (site.data, site.test)):
        given = DatasetSpec.parse(str(spec), USER_FORMATS).path
        if not given:
            continue
        path = user_path(given)
        yield from (str(spec), given, str(path), str(path.resolve()), f"'{path.stem}'")
        yield from filter(_is_file_like, (path.name,))
        with contextlib.suppress(FedcordError, OSError):
            for name in open_tree(path).names if path.is_dir() or path.suffix == ".zip" else ():
                for inner in (name, Path(name).name):
                    yield from filter(_is_file_like, (inner, readable(inner)))


def _is_file_like(name: str) -> bool:
    """Whether it can be no word of the message's own."""
    return "." in name or "/" in name
