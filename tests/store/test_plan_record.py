"""Which commit a study's plan is of, and whether that was before its first run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError
from fedcord.store.plan_record import (
    NO_REPOSITORY,
    NOT_COMMITTED,
    PLAN,
    WrittenPlan,
    read_plans,
    record_plan,
)
from fedcord.store.study_plan import StudyPlan
from fedcord.store.tuning_file import Tuning, read_tuning, write_tuning

TEXT = """
seeds = 2
[scales.small.plan]
question = "Is it?"
primary = ["a - b"]
seeds = [0, 1]
stopping = "after these"
"""
TABLE = ("scales", "small", "plan")


def plan(question: str = "Is it?") -> StudyPlan:
    values = {"primary": ["a - b"], "seeds": [0, 1], "stopping": "after these"}
    return StudyPlan.from_plain({"question": question, **values})


def git(folder: Path, *words: str, day: int = 1) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    when = {"GIT_COMMITTER_DATE": f"2026-01-{day:02}T12:00:00+02:00", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words],
        env=when,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def written(tmp_path: Path) -> WrittenPlan:
    """A study file in a repository: planned on the third day, and touched on the fifth."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    file = folder / "study.toml"
    texts = [TEXT.partition("[")[0], TEXT.replace("Is it?", "Was it?"), TEXT, f"# more\n{TEXT}"]
    for day, text in enumerate(texts, start=1):
        file.write_text(text, encoding="utf-8")
        git(folder, "add", ".", day=day)
        git(folder, "commit", "-qm", str(day), day=day)
    return WrittenPlan(plan(), file, TABLE)


def test_the_commit_is_the_one_that_gave_the_plan_its_words(
    written: WrittenPlan, tmp_path: Path
) -> None:
    record_plan(tmp_path, written)
    (found,) = read_plans(tmp_path)
    assert found.plan == plan()
    assert found.commit == git(written.file.parent, "rev-parse", "HEAD~1")
    assert found.committed == "2026-01-03T12:00:00+02:00"
    assert found.is_older_than("2026-01-03T10:00:01+00:00")
    assert not found.is_older_than("2026-01-03T10:00:00+00:00")


def test_what_is_not_committed_is_said_to_be_so(written: WrittenPlan, tmp_path: Path) -> None:
    record_plan(tmp_path, WrittenPlan(plan("Will it?"), written.file, TABLE))
    (found,) = read_plans(tmp_path)
    assert (found.commit, found.reason) == (None, NOT_COMMITTED)
    assert not found.is_older_than("2999-01-01T00:00:00+00:00")


def test_a_file_outside_a_repository_has_no_commit(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(TEXT, encoding="utf-8")
    record_plan(tmp_path, WrittenPlan(plan(), file, TABLE))
    assert read_plans(tmp_path)[0].reason == NO_REPOSITORY


def test_a_plan_is_noted_once_and_again_when_it_changes(
    written: WrittenPlan, tmp_path: Path
) -> None:
    record_plan(tmp_path, written)
    before = (tmp_path / PLAN).read_bytes()
    record_plan(tmp_path, written)
    assert (tmp_path / PLAN).read_bytes() == before
    record_plan(tmp_path, WrittenPlan(plan("Will it?"), written.file, TABLE))
    assert [own.plan.question for own in read_plans(tmp_path)] == ["Is it?", "Will it?"]


def test_plan_and_tuning_of_one_study_are_both_listed(tmp_path: Path) -> None:
    record_plan(tmp_path, WrittenPlan(plan(), tmp_path / "study.toml"))
    tuning = Tuning("hash", "accuracy", "random", 1, (1,), {})
    write_tuning(tmp_path, tuning)
    assert read_tuning(tmp_path) == tuning
    assert len(read_plans(tmp_path)) == 1


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    assert read_plans(tmp_path) == ()
    record_plan(tmp_path, WrittenPlan(plan(), tmp_path / "study.toml"))
    values = json.loads((tmp_path / PLAN).read_text(encoding="utf-8"))
    values["plans"][0]["committed"] = "2020-01-01T00:00:00"
    (tmp_path / PLAN).write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(CheckpointError, match="not as fedcord wrote it"):
        read_plans(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.raises(CheckpointError, match="is no plan"):
        read_plans(tmp_path)
