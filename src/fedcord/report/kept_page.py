"""A study's page that is written again keeps what this sitting did not make.

That is parts that were run in another sitting, whose run folders may be gone, and what people wrote
below the tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedcord.report.planned import TITLE as PLAN
from fedcord.report.reproduction import BESIDE, TOGETHER

_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FIRST_RUN = re.compile(r"first run \S+")


def with_kept(page: str, before: str, parts: Sequence[str]) -> str:
    """The new page of a study with what the page before it has beyond it.

    Args:
        page: what this sitting's runs say.
        before: the page as it was.
        parts: all parts of the study, in its order.
    """
    (old_top, old), (top, new) = _sections(before), _sections(page)
    here = [part for part in parts if part in new]
    kept = {title: old[title] for title in old if title not in (*new, BESIDE, PLAN, TOGETHER)}
    if any(part in kept for part in parts):
        top = _with_commands(top, old_top)
        for title in (BESIDE, PLAN):
            if title in old:
                new[title] = _of_both(old[title], new.get(title), here)
        # what is said of all parts is true of all of them only where all runs are at hand
        new.pop(TOGETHER, None)
    found = {**new, **kept}
    order = [BESIDE, PLAN, TOGETHER, *parts, *kept]
    titles = dict.fromkeys(title for title in order if title in found)
    return top + "\n".join(f"## {title}\n{found[title]}" for title in titles)


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """What stands above the first heading, and by heading what stands below it."""
    top, *rest = _HEADING.split(text)
    bodies = [body.rstrip("\n") + "\n" for body in rest[1::2]]
    return top, dict(zip(rest[::2], bodies, strict=True))


def _with_commands(top: str, old_top: str) -> str:
    """The commands of both sittings, the older first."""
    old, new = _COMMANDS.search(old_top), _COMMANDS.search(top)
    if old is None or new is None:
        return top
    commands = dict.fromkeys((old[1] + new[1]).splitlines())
    return top[: new.start(1)] + "\n".join(commands) + "\n" + top[new.end(1) :]


def _of_both(old: str, new: str | None, parts: Sequence[str]) -> str:
    """What both sittings say once where they differ in the first run only: the earlier counts."""
    if new is None or _FIRST_RUN.sub("", old) == _FIRST_RUN.sub("", new):
        return old
    return f"{old}\n{', '.join(parts)}:\n{new}"
