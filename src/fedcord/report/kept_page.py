"""What is kept of a study when its run folders are gone: page, leaderboards, curves, hashes.

A page that is written again keeps what this sitting did not make.

That is parts that were run in another sitting, whose run folders may be gone, and what people wrote
below the tables. What this sitting made takes the place of what the page had of the same parts, so
that writing a page twice changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedcord.core.atomic import write_atomically
from fedcord.report.fields import read_json, read_text
from fedcord.report.kept_curves import curves_csv
from fedcord.report.kept_figures import merged_figures
from fedcord.report.kept_plan import merged_plans
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.planned import TITLE as PLAN
from fedcord.report.reproduction import (
    BESIDE,
    NO_FIGURES,
    NOT_RUN,
    SETTING,
    TOGETHER,
    hashes_of,
)
from fedcord.report.tables import to_csv

_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def keep_page(
    folder: Path, name: str, page: str, boards: Mapping[str, Leaderboard], parts: Sequence[str]
) -> None:
    """Write NAME.md, and beside it a folder NAME with what programs read.

    Parts of other sittings, and what was written by hand below the tables, stay on the page.

    Args:
        folder: where pages are.
        name: of the study and its scale.
        page: what this sitting's runs say.
        boards: by part, those runs.
        parts: all parts of the study, in its order.
    """
    written, listed = folder / f"{name}.md", folder / name / "hashes.json"
    hashes = {part: hashes_of(board) for part, board in boards.items()}
    if written.exists():
        page = with_kept(page, read_text(written), parts)
        before = read_json(listed) if listed.exists() else {}
        hashes = {part: own for part, own in before.items() if part in parts} | hashes
    (folder / name).mkdir(parents=True, exist_ok=True)
    for part, board in boards.items():
        write_atomically(folder / name / f"{part}.csv", to_csv(board))
        write_atomically(folder / name / f"{part}-curves.csv", curves_csv(board))
    write_atomically(listed, json.dumps(hashes, indent=1) + "\n")
    write_atomically(written, page)


def with_kept(page: str, before: str, parts: Sequence[str]) -> str:
    """The new page of a study with what the page before it has beyond it.

    Args:
        page: what this sitting's runs say.
        before: the page as it was.
        parts: all parts of the study, in its order.
    """
    made = (BESIDE, PLAN, TOGETHER, *parts)
    (old_top, before_all), (top, after_all) = _sections(before), _sections(page)
    written = [own for own in before_all if own[0] not in made]
    old, new = dict(before_all), dict(after_all)
    lacking = _take_lacking(old, parts) | _take_lacking(new, parts)
    shown, here = ([part for part in parts if part in own] for own in (old, new))
    has_kept = any(part not in here for part in shown)
    figures = merged_figures(old.get(BESIDE), new.get(BESIDE), shown, here, parts)
    # what is said of all parts is true of all of them only where all runs are at hand
    together = None if has_kept else new.get(TOGETHER)
    about = {
        BESIDE: figures,
        PLAN: merged_plans(old.get(PLAN), new.get(PLAN), shown, here, parts),
        TOGETHER: together,
        **{part: (new if part in new else old).get(part) for part in parts},
    }
    sections = [(title, body) for title, body in about.items() if body is not None]
    if absent := [line for part, line in lacking.items() if about[part] is None]:
        title, body = sections[-1]
        sections[-1] = title, "\n".join([body, *(f"{line}\n" for line in absent)])
    if figures is not None:
        top = top.replace(f"\n{NO_FIGURES}\n", "")
    top = _with_words(_with_commands(top, old_top) if has_kept else top, old_top)
    return top + "\n".join(f"## {title}\n{body}" for title, body in [*sections, *written])


def _sections(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands above the first heading, and each heading with what stands below it."""
    top, *rest = _HEADING.split(text)
    bodies = [body.rstrip("\n") + "\n" for body in rest[1::2]]
    return top, list(zip(rest[::2], bodies, strict=True))


def _take_lacking(sections: dict[str, str], parts: Sequence[str]) -> dict[str, str]:
    """By part the line that says why it was not run, out of what stands below other parts."""
    found = {}
    for title in [title for title in sections if title in parts]:
        lines = []
        for line in sections[title].splitlines():
            about = next((part for part in parts if line.startswith(f"{part} {NOT_RUN} ")), None)
            if about is None:
                lines.append(line)
            else:
                found[about] = line
        sections[title] = "\n".join(lines).rstrip("\n") + "\n"
    return found


def _with_commands(top: str, old_top: str) -> str:
    """The commands of both sittings, the older first."""
    old, new = _COMMANDS.search(old_top), _COMMANDS.search(top)
    if old is None or new is None:
        return top
    commands = dict.fromkeys((old[1] + new[1]).splitlines())
    return top[: new.start(1)] + "\n".join(commands) + "\n" + top[new.end(1) :]


def _with_words(top: str, old_top: str) -> str:
    """With what people wrote between the commands and the setting, where nothing else stands."""
    old, new = _COMMANDS.search(old_top), _COMMANDS.search(top)
    ends = old_top.find(SETTING), top.find(SETTING)
    if old is None or new is None or ends[0] < old.end() or ends[1] < new.end():
        return top
    return top[: new.end()] + old_top[old.end() : ends[0]] + top[ends[1] :]
