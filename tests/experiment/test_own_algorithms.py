"""Algorithms of a user's own module, from their name or object to the run."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fedcord
from fedcord.core.errors import ConfigError
from fedcord.core.task import Task
from fedcord.engine.blueprint import Blueprint
from fedcord.experiment import build, task_values
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config, load_data_config
from tests.faults.small_runs import small_data

OWN = """
from dataclasses import dataclass

from fedcord import AveragesModels, FedAvg, LocalSGD, Review, param

ASKED = []


@dataclass(frozen=True)
class Choosy(AveragesModels):
    many: int = param(2, "classes it needs")
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def review(self, task):
        ASKED.append(task.num_classes)
        errors = ("too few classes for many.",) if task.num_classes < self.many else ()
        return self.local.review(task) + Review(errors, ("it is choosy.",))

    def client_update(self, shared, memory, data, env):
        return FedAvg(self.local).client_update(shared, memory, data, env)


@dataclass(frozen=True)
class Unannounced(Choosy):
    def is_probe(self, env):
        return False


@dataclass(frozen=True)
class Trusting(AveragesModels):
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def client_update(self, shared, memory, data, env):
        return FedAvg(self.local).client_update(shared, memory, data, env)


MADE = []


@dataclass(frozen=True)
class Counted(Trusting):
    pull: float = param(0.5, "a number of no use", at_least=0)

    def __post_init__(self):
        MADE.append(self)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name = f"choosy_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module(name)


def test_all_errors_of_a_review_end_a_run_before_anything_is_written(
    own_module: ModuleType, tmp_path: Path
) -> None:
    out, params = tmp_path / "run", {"many": 11, "local": {"augment": "simclr"}}
    with pytest.raises(ConfigError, match="too few classes for many") as caught:
        fedcord.run(
            f"{own_module.__name__}:Choosy",
            dataset=small_data(),
            partition="iid",
            out=out,
            params=params,
        )
    assert [problem.split()[0] for problem in caught.value.problems] == ["local.augment", "too"]
    assert not out.exists()


def test_notes_of_a_review_are_asked_for_once_and_told(own_module: ModuleType) -> None:
    config = load_config({"algorithm": f"{own_module.__name__}:Choosy"})
    made = build_experiment(config)
    assert made.plan.notes == ("it is choosy.",)
    assert made.warnings()[-1] == made.warnings()[-1] == "it is choosy."
    assert own_module.ASKED == [10]


def test_parts_of_a_method_without_a_review_of_its_own_are_asked(own_module: ModuleType) -> None:
    settings = {
        "algorithm": f"{own_module.__name__}:Trusting",
        "params": {"local": {"augment": "simclr"}},
        "model": ["mlp:8"],
        "dataset": "synthetic",
    }
    with pytest.raises(ConfigError, match=r"local\.augment = 'simclr' does not fit"):
        build_experiment(load_config(settings))


def test_a_verb_nobody_announced_is_refused_where_the_algorithm_is_built(
    own_module: ModuleType,
) -> None:
    wrong = f"{own_module.__name__}:Unannounced"
    words = "Unannounced has the verb is_probe but does not announce the trait probes"
    with pytest.raises(ConfigError, match=words):
        load_config({"algorithm": wrong})
    with pytest.raises(ConfigError, match=words):
        fedcord.run(own_module.Unannounced())


SMALL: dict[str, Any] = {"partition": "iid", "clients": 2, "rounds": 1, "model": "mlp:2"}


@pytest.fixture
def made_tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Every task that is made, in this process."""
    tasks: list[Task] = []
    make = task_values.task_from_values

    def task_from_values(values: Mapping[str, Any]) -> Task:
        tasks.append(make(values))
        return tasks[-1]

    for module in (build, task_values):  # the plan's, and that of everybody else
        monkeypatch.setattr(module, "task_from_values", task_from_values)
    return tasks


@pytest.fixture
def no_blueprints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blueprint, "of", lambda *parts: pytest.fail("nobody else needs it"))


@pytest.mark.usefixtures("no_blueprints")
def test_a_run_builds_its_algorithm_and_its_task_once(
    own_module: ModuleType, tmp_path: Path, made_tasks: list[Task]
) -> None:
    params = {"pull": 2.0}
    name = f"{own_module.__name__}:Counted"
    fedcord.run(name, dataset=small_data(), out=tmp_path / "run", params=params, **SMALL)
    assert [made.pull for made in own_module.MADE] == [2.0]
    assert len(made_tasks) == 1


@pytest.mark.usefixtures("no_blueprints")
def test_an_object_is_used_as_it_is_in_a_run_and_under_every_seed(
    own_module: ModuleType, tmp_path: Path
) -> None:
    mine = own_module.Counted(pull=2.0)
    assert load_config({"algorithm": mine}).method is mine
    fedcord.run(mine, dataset=small_data(), out=tmp_path / "run", **SMALL)
    fedcord.compare({"it": mine}, seeds=2, dataset=small_data(), out=tmp_path / "study", **SMALL)
    assert [mine] == own_module.MADE


def test_a_strict_engine_builds_algorithm_and_task_anew(
    own_module: ModuleType, tmp_path: Path, made_tasks: list[Task]
) -> None:
    mine = own_module.Counted(pull=2.0)
    fedcord.run(mine, dataset=small_data(), out=tmp_path / "run", engine="wire", **SMALL)
    assert len(own_module.MADE) == len(made_tasks) > 2
    assert all(made == mine for made in own_module.MADE)


def test_parameters_beside_an_object_win_over_its_own(own_module: ModuleType) -> None:
    mine = own_module.Counted(pull=2.0)
    other = load_config({"algorithm": mine, "params": {"pull": 3}}, ["local.lr=0.5"]).method
    assert (other.pull, other.local.lr) == (3.0, 0.5)
    assert load_config({"algorithm": mine, "params": {"pull": 2.0}}).method is mine


def test_what_an_object_holds_is_written_down_as_if_it_had_been_named(
    own_module: ModuleType,
) -> None:
    by_name = load_config({"algorithm": f"{own_module.__name__}:Counted", "params": {"pull": 2}})
    assert load_config({"algorithm": own_module.Counted(pull=2)}).hash == by_name.hash
    with pytest.raises(ConfigError, match="pull = 'far': must be of type float, not str"):
        load_config({"algorithm": own_module.Counted(pull="far")})


def test_a_configuration_without_an_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError, match="make it by load_config"):
        build_experiment(load_data_config({}))
