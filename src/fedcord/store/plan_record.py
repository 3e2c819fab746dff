"""`plan.json` of a study: its plan, and the commit that wrote it, noted when runs are started.

Whether something was planned is a matter of dates: the plan's commit against the first run. So the
commit is looked up when the study runs, from the repository its file lies in, and a report needs
neither file nor repository. A plan that is changed between two sittings is noted again.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.regular_files import read_regular
from fedcord.core.toml import parse_toml
from fedcord.store.checksums import add_checksum, check_files
from fedcord.store.plain_json import json_text
from fedcord.store.study_plan import StudyPlan

PLAN = "plan.json"
SCHEMA = 1
MOST_COMMITS = 500
"""Of one file that are looked through."""
OF_A_COMMIT = ("commit", "committed")
NO_REPOSITORY = "its file is not in a git repository"
NOT_COMMITTED = "it was not committed when it was run"


@dataclass(frozen=True)
class WrittenPlan:
    """A plan and where it stands.

    Attributes:
        plan: as it was read.
        file: the study file.
        table: names of the tables it is in, outermost first.
    """

    plan: StudyPlan
    file: Path
    table: tuple[str, ...] = ("plan",)


@dataclass(frozen=True)
class PlanRecord:
    """A plan as it was when runs were started.

    Attributes:
        plan: what it said.
        file: name of the study file.
        recorded: when, as ISO 8601.
        commit: that gave the plan its words; None without one.
        committed: when that was, as ISO 8601; None without a commit.
        reason: why there is no commit; empty where there is one.
    """

    plan: StudyPlan
    file: str
    recorded: str
    commit: str | None = None
    committed: str | None = None
    reason: str = ""

    def is_older_than(self, started: str) -> bool:
        """Whether the plan was committed before `started`, a time as ISO 8601."""
        if self.committed is None:
            return False
        return datetime.fromisoformat(self.committed) < datetime.fromisoformat(started)


def record_plan(root: Path, written: WrittenPlan) -> None:
    """Note the plan in the study's folder, unless it is there already word for word."""
    known = read_plans(root)
    if known and known[-1].plan == written.plan:
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found = _commit_of(written)
    place = (None, None, found) if isinstance(found, str) else (*found, "")
    records = [*known, PlanRecord(written.plan, written.file.name, now, *place)]
    values = {"schema": SCHEMA, "plans": [_plain(record) for record in records]}
    text = json_text(values, indent=1) + "\n"
    add_checksum(root, PLAN, text)
    write_atomically(root / PLAN, text)


def read_plans(root: Path) -> tuple[PlanRecord, ...]:
    """What was noted, oldest first; empty where nothing was.

    Raises:
        CheckpointError: the file was changed, or is not what this version writes.
    """
    path = root / PLAN
    again = "restore the file from a copy, or delete it: the report then knows of no plan"
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read ({error}); {again}.") from error
    check_files(root, [PLAN])
    try:
        values = json.loads(content.decode())
        if values["schema"] != SCHEMA:
            raise CheckpointError(f"'{path}' was not written by this version of fedcord; {again}.")
        return tuple(map(_record, values["plans"]))
    except (KeyError, TypeError, ValueError, RecursionError, ConfigError) as error:
        raise CheckpointError(f"'{path}' is no plan ({error}); {again}.") from error


def _plain(record: PlanRecord) -> dict[str, Any]:
    names = ("file", "recorded", "commit", "committed", "reason")
    return {"plan": record.plan.to_plain(), **{name: getattr(record, name) for name in names}}


def _record(values: Mapping[str, Any]) -> PlanRecord:
    commit, committed = (None if (own := values[n]) is None else str(own) for n in OF_A_COMMIT)
    for time in (values["recorded"], committed):
        if time is not None and datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"{time} has no time zone")
    plan = StudyPlan.from_plain(values["plan"])
    file, recorded, reason = (str(values[name]) for name in ("file", "recorded", "reason"))
    return PlanRecord(plan, file, recorded, commit, committed, reason)


def _commit_of(written: WrittenPlan) -> tuple[str, str] | str:
    """The commit since which the plan has its words, and its time; or why there is none."""
    log = _git(written.file, "log", f"-{MOST_COMMITS}", "--format=%H %cI", "--", written.file.name)
    if log is None:
        return NO_REPOSITORY
    found = None
    for line, plan in _earlier_plans(written, log):
        if plan != written.plan:
            break
        found = line
    if found is None:
        return NOT_COMMITTED
    commit, committed = found.split()
    return commit, committed


def _earlier_plans(written: WrittenPlan, log: str) -> Iterator[tuple[str, StudyPlan | None]]:
    """Newest first, lines of a log and the plan in the file of that commit."""
    for line in log.splitlines():
        text = _git(written.file, "show", f"{line.split()[0]}:./{written.file.name}")
        try:
            values: Any = parse_toml(text or "")
            for name in written.table:
                values = values[name]
            yield line, StudyPlan.from_plain(values)
        except (KeyError, TypeError, ValueError, ConfigError, AttributeError):
            yield line, None


def _git(file: Path, *words: str) -> str | None:
    """What git says in the folder of a file; None where it has nothing to say."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", "-C", str(file.parent), *words],  # noqa: S607
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=10,
            check=False,
        )
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
