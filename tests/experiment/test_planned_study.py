"""Plans in study files, and what is left of them in a study's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import load_study
from fedcord.experiment.run import Place
from fedcord.experiment.study_runs import run_study
from fedcord.store.plan_record import WrittenPlan, read_plans
from fedcord.store.study_plan import StudyPlan
from tests.faults.small_runs import quick, small_data, study

__all__ = ["quick"]  # a fixture

FILE = """
algorithms = ["fedavg", "fedprox"]
seeds = 2
[settings]
dataset = "digits"
[plan]
question = "Is it?"
primary = ["fedprox - fedavg"]
seeds = [0, 1]
stopping = "then"
"""


def test_a_study_file_may_have_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(FILE, encoding="utf-8")
    found = load_study(file, {}, [])
    assert found.plan is not None
    assert (found.plan.file, found.plan.table) == (file, ("plan",))
    assert found.plan.plan.question == "Is it?"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('stopping = "then"', 'stoping = "then"'), "unknown entry of .plan. 'stoping'"),
        (("fedprox - fedavg", "fedprox - moon"), "unknown contender 'moon'"),
        (("[plan]", "[[plan]]"), "must be a table"),
    ],
)
def test_mistakes_in_a_plan_are_told(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(FILE.replace(*change), encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_study(file, {}, [])


@pytest.mark.usefixtures("quick")
def test_runs_leave_the_plan_in_the_folder_of_their_study(tmp_path: Path) -> None:
    values = {"question": "Is it?", "primary": ["avg - afl"], "seeds": [0, 1], "stopping": "then"}
    plan = StudyPlan.from_plain(values)
    planned = replace(study(), plan=WrittenPlan(plan, tmp_path / "study.toml"))
    assert not run_study(planned, tmp_path / "runs", Place(None), dataset=small_data())
    assert [own.plan for own in read_plans(tmp_path / "runs")] == [plan]
    # a study that is finished is only looked at
    later = replace(planned, plan=WrittenPlan(replace(plan, question="Was it?"), tmp_path))
    place = Place(None, resume=True)
    assert not run_study(later, tmp_path / "runs", place, dataset=small_data())
    assert len(read_plans(tmp_path / "runs")) == 1
