"""Whatever a run was doing to its folder when it died or the disk was full: it can be gone on with.

And it then ends with what it would have ended with, and leaves no litter.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedcord.experiment.forget import forget_client
from fedcord.experiment.run import Place, run
from fedcord.experiment.study_runs import run_study
from tests.faults.budget import examples
from tests.faults.file_operations import Killed, fill_disk, kill, watched
from tests.faults.small_runs import (
    AVERAGING,
    PERSONAL,
    config,
    content,
    quick,
    small_data,
    study,
)

__all__ = ["quick"]  # a fixture


@dataclass(frozen=True)
class Job:
    """Something that changes a folder.

    Attributes:
        begin: do it.
        go_on: what a user does after it was interrupted.
        prepare: what must be there first.
    """

    begin: Callable[[Path], object]
    go_on: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda root: None


def _run(settings: dict[str, Any], resume: bool) -> Callable[[Path], object]:
    return lambda root: run(config(**settings), Place(root / "run", resume=resume))


def _compare(resume: bool) -> Callable[[Path], object]:
    return lambda root: run_study(study(), root, Place(root, resume=resume), dataset=small_data())


def _forget(in_place: bool) -> Callable[[Path], object]:
    return lambda root: forget_client(root / "run", 1, in_place=in_place)


JOBS = {
    "run": Job(_run(AVERAGING, False), _run(AVERAGING, True)),
    "personal": Job(_run(PERSONAL, False), _run(PERSONAL, True)),
    "compare": Job(_compare(False), _compare(True)),
    "forget": Job(_forget(False), _forget(False), _run(PERSONAL, False)),
    "forget-in-place": Job(_forget(True), _forget(True), _run(PERSONAL, False)),
}


@pytest.mark.parametrize("fail", [kill, fill_disk])
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.usefixtures("quick")
def test_what_was_interrupted_ends_as_if_it_had_not_been(
    name: str, fail: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JOBS[name]
    origin, whole = tmp_path / "origin", tmp_path / "whole"
    origin.mkdir()
    with watched(tmp_path, monkeypatch, fail, None) as operations:
        job.prepare(origin)
        shutil.copytree(origin, whole)
        operations.count = 0
        job.begin(whole)
    total, wanted = operations.count, content(whole)
    assert total >= 20
    cases = examples(8)
    for at in sorted({round(k * (total - 1) / (cases - 1)) for k in range(cases)}):
        root = tmp_path / f"at-{at}"
        shutil.copytree(origin, root)
        has_ended = _ends(job, root, monkeypatch, fail, at)
        with watched(root, monkeypatch, fail, None):
            if not has_ended:
                job.go_on(root)
        assert content(root) == wanted, f"operation {at} of {total}"
        shutil.rmtree(root)


def _ends(
    job: Job, root: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[str], None], at: int
) -> bool:
    """Whether the job does not mind: with a full disk, deleting the last file still works."""
    with watched(root, monkeypatch, fail, at):
        try:
            job.begin(root)
        except (Killed, OSError):
            return False
    return fail is fill_disk
