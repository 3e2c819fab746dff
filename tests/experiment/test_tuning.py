import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.params import value_of
from fedcord.data.dataset import Dataset
from fedcord.data.registry import load_dataset
from fedcord.experiment.compare import Study, make_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.run import Place
from fedcord.experiment.study_runs import Failure, run_study
from fedcord.experiment.tuning import (
    TuningPlan,
    halvings,
    plan_tuning,
    tune_study,
    validation_score,
    with_chosen,
    with_values,
)
from fedcord.store.tuning_file import Tuning, read_tuning

Score = Callable[[RunConfig], float | None]
AFRESH, GO_ON = Place(None), Place(None, resume=True)


def near(config: RunConfig) -> float:
    """Validation that likes a learning rate of 0.2, and weights up to 0.1."""
    score = 0.9 - 0.1 * abs(math.log(value_of(config.method, "local.lr") / 0.2))
    if config.algorithm == "fedprox":
        score -= 0.01 * abs(math.log(value_of(config.method, "proximal_weight") / 0.1))
    return score


class Machine:
    """Runs that cost nothing: each writes a result whose scores are a function of its settings."""

    def __init__(self, score: Score = near, metric: str = "accuracy") -> None:
        self.score, self.metric = score, metric
        self.done: list[tuple[str, int]] = []

    def __call__(self, study: Study, root: Path) -> list[Failure]:
        failures = []
        for label, config in study.runs():
            self.done.append((label, config.seed))
            score = self.score(config)
            if score is None:
                failures.append(
                    Failure(label, config.algorithm, config.seed, "NumericalError", "∞")
                )
                continue
            folder = root / label / f"seed-{config.seed}"
            folder.mkdir(parents=True)
            result = {"accuracy": 0.0, "validation_metrics": {self.metric: score}}
            (folder / "result.json").write_text(json.dumps(result))
        return failures


def plan(names: Sequence[str] = ("fedavg", "fedprox"), trials: int = 8, **more: Any) -> TuningPlan:
    study = make_study(names, {"rounds": 2} | more.pop("settings", {}), 3, more.pop("set", ()))
    return plan_tuning(replace(study, metric=more.pop("metric", None)), trials, **more)


def test_halving_ends_with_two() -> None:
    assert [halvings(n) for n in (2, 3, 8, 12)] == [[2], [3, 2], [8, 4, 2], [12, 6, 3, 2]]


def test_every_contender_has_the_same_budget_on_seeds_that_final_runs_do_not_have(
    tmp_path: Path,
) -> None:
    machine, ours = Machine(), plan()
    tune_study(ours, tmp_path, AFRESH, machine)
    assert len(machine.done) == ours.num_runs == 2 * (8 + 4 + 2)
    for name in ("fedavg", "fedprox"):
        own = [seed for label, seed in machine.done if label.startswith(f"{name}/")]
        assert [own.count(seed) for seed in ours.seeds] == [8, 4, 2]
    assert not {seed for _, seed in machine.done} & set(ours.study.seeds)
    far = replace(ours.study, seeds=(1_000_000, 1_000_001))
    assert plan_tuning(far, 8).seeds == (1_000_002, 1_000_003, 1_000_004)


def test_the_best_on_validation_is_chosen_and_the_default_is_always_its_rival(
    tmp_path: Path,
) -> None:
    ours = plan()
    tuning = tune_study(ours, tmp_path, AFRESH, Machine())
    for label, own in tuning.contenders.items():
        assert own.default is not None
        assert own.best is not None
        assert len(own.default.scores) == len(own.best.scores) == 3
        assert own.default.values["local.lr"] == 0.05
        tried = [near(with_values(ours.study.contenders[label], t.values)) for t in own.trials]
        assert tried[own.chosen] == max(tried) > tried[0]
    final = with_chosen(ours.study, tuning)
    assert final.seeds == ours.study.seeds
    chosen = tuning.contenders["fedprox"].values
    assert value_of(final.contenders["fedprox"].method, "local.lr") == chosen["local.lr"]
    assert final.contenders["fedprox"].evaluate_every == 1


def test_methods_that_share_a_parameter_try_the_same_values_of_it(tmp_path: Path) -> None:
    tuning = tune_study(plan(), tmp_path, AFRESH, Machine())
    first, second = (
        [t.values["local.lr"] for t in own.trials] for own in tuning.contenders.values()
    )
    assert len(set(first)) == 8
    assert second == first
    weights = [t.values["proximal_weight"] for t in tuning.contenders["fedprox"].trials]
    assert weights.count(0.01) == 1 + 4


def test_another_seed_searches_elsewhere_and_the_same_seed_does_not(tmp_path: Path) -> None:
    def tried(folder: str, seed: int) -> list[Any]:
        ours = plan(["fedavg"], settings={"seed": seed})
        own = tune_study(ours, tmp_path / folder, AFRESH, Machine()).contenders["fedavg"]
        return [trial.values["local.lr"] for trial in own.trials]

    assert tried("a", 0) == tried("b", 0) != tried("c", 7)


def test_where_lower_is_better_the_lowest_is_chosen(tmp_path: Path) -> None:
    machine = Machine(lambda config: 2 - near(config), "log_loss")
    own = tune_study(plan(["fedavg"], metric="log_loss"), tmp_path, AFRESH, machine)
    scores = [trial.scores[0] for trial in own.contenders["fedavg"].trials]
    assert own.contenders["fedavg"].chosen == scores.index(min(scores))
    assert own.metric == "log_loss"


def test_where_nothing_is_better_the_contender_stays_as_it_was_given(tmp_path: Path) -> None:
    own = tune_study(plan(["fedavg"]), tmp_path, AFRESH, Machine(lambda config: 0.5))
    assert own.contenders["fedavg"].chosen == 0


def test_a_trial_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    def score(config: RunConfig) -> float | None:
        return None if value_of(config.method, "local.lr") > 0.1 else near(config)

    own = tune_study(plan(["fedavg"]), tmp_path, AFRESH, Machine(score)).contenders["fedavg"]
    failed = [trial for trial in own.trials if trial.failure]
    assert failed
    assert all(trial.failure == "NumericalError: ∞" for trial in failed)
    assert own.best is not None
    assert 0.05 < own.best.values["local.lr"] <= 0.1
    assert own.runs == 8 + 4 + 2


@pytest.mark.parametrize("score", [None, math.nan])
def test_where_every_trial_fails_the_contender_stays_as_it_was_given(
    tmp_path: Path, score: float | None
) -> None:
    own = tune_study(plan(["fedavg"]), tmp_path, AFRESH, Machine(lambda config: score))
    assert own.contenders["fedavg"].chosen == 0
    assert all(trial.failure for trial in own.contenders["fedavg"].trials)
    assert read_tuning(tmp_path) == own


def test_a_method_without_anything_to_tune_has_no_trials(tmp_path: Path) -> None:
    ours = plan(["fedavg", "afl"])
    tuning = tune_study(ours, tmp_path, AFRESH, Machine())
    assert tuning.contenders["afl"].trials == ()
    assert with_chosen(ours.study, tuning).contenders["afl"] == ours.study.contenders["afl"]
    with pytest.raises(ConfigError, match="afl: nothing to tune"):
        plan(["afl"])


def test_the_same_plan_is_not_tuned_twice(tmp_path: Path) -> None:
    machine = Machine()
    first = tune_study(plan(), tmp_path, AFRESH, machine)
    runs = len(machine.done)
    assert tune_study(plan(), tmp_path, GO_ON, machine) == first
    assert len(machine.done) == runs
    with pytest.raises(ConfigError, match="already holds this tuning; add --resume"):
        tune_study(plan(), tmp_path, AFRESH, machine)
    with pytest.raises(ConfigError, match="is of another tuning"):
        tune_study(plan(trials=4), tmp_path, GO_ON, machine)


def test_a_tuning_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    tune_study(plan(["fedavg"], trials=2), tmp_path, AFRESH, Machine())
    path = tmp_path / "tuning.json"
    path.write_text(path.read_text().replace('"chosen": 1', '"chosen": 0'))
    with pytest.raises(CheckpointError, match="not as fedcord wrote it"):
        read_tuning(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"schema": 2}', '{"schema": 1}', "{"])
def test_a_file_that_is_no_tuning_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"tuning\.json"):
        read_tuning(tmp_path)


def test_given_spaces_replace_the_declared_ones() -> None:
    texts = ["local.lr=0.01:0.3:log", "fedprox:proximal_weight=0:1"]
    spaces = plan(texts=texts).spaces
    assert [*spaces["fedavg"]] == ["local.lr"]
    assert [*spaces["fedprox"]] == ["local.lr", "proximal_weight"]
    assert spaces["fedprox"]["proximal_weight"].at(0.25) == 0.25  # not whole, as its ends are


def test_what_the_user_has_set_stays() -> None:
    assert [*plan(["fedprox"], set=["local.lr=0.1"]).spaces["fedprox"]] == ["proximal_weight"]


def test_the_parameters_of_a_method_within_a_method_are_tuned_too() -> None:
    spaces = plan(["exact-head"], set=["of=fedprox"]).spaces["exact-head"]
    assert {*spaces} == {"inner.local.lr", "inner.proximal_weight"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"trials": 1}, "trials = 1: must be a whole number from 2 to 1000"),
        ({"trials": True}, "trials = True: must be a whole number"),
        ({"search": "magic"}, "unknown search 'magic'"),
        ({"settings": {"validation": 0.0}}, "validation = 0 keeps none"),
        ({"texts": ["local.rl=0.1:0.3"]}, "unknown parameter 'local.rl'; did you mean"),
        ({"texts": ["fedavg:proximal_weight=0:1"]}, "unknown parameter 'proximal_weight'"),
        ({"texts": ["moon:local.lr=0.1:1"]}, "'moon' is not among fedavg, fedprox"),
        ({"texts": ["local.lr=-1:0.3"]}, "local.lr = -1.0: must be > 0"),
        ({"texts": ["local.optimizer=sgd,lion"]}, "must be one of sgd, adam"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(**more)


def test_a_metric_of_clients_test_parts_is_not_tuned_by() -> None:
    assert plan(metric="worst_client").metric == "accuracy"


# from here on with real runs, as small as they can be

SMALL = {"rounds": 1, "clients": 2, "partition": "iid", "subset": 80, "dataset": "own:digits"}


@functools.cache
def digits() -> Dataset:
    return load_dataset("digits")


def really(study: Study, root: Path, data: Dataset) -> list[Failure]:
    return run_study(study, root, Place(root, resume=True), dataset=data)


def choose(root: Path, data: Dataset) -> Tuning:
    study = make_study(["fedavg", "fedprox"], SMALL, 1)
    ours = plan_tuning(study, 3)
    return tune_study(ours, root, GO_ON, functools.partial(really, data=data))


def test_a_poisoned_test_set_leads_to_the_same_choices(tmp_path: Path) -> None:
    data = digits()
    labels = np.random.default_rng(0).permutation(np.asarray(data.test.labels))
    poisoned = replace(data, test=replace(data.test, labels=labels))
    honest = choose(tmp_path / "honest", data)
    misled = choose(tmp_path / "misled", poisoned)
    assert honest == misled  # every score of every trial, and what was chosen

    def tested(folder: str) -> list[float]:
        found = sorted((tmp_path / folder).rglob("result.json"))
        assert len(found) == 2 * (3 + 2)
        return [json.loads(path.read_text())["accuracy"] for path in found]

    assert tested("honest") != tested("misled")  # the poison was there


def test_tuning_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    whole = choose(tmp_path / "whole", digits())
    begun = 0

    def until_killed(study: Study, root: Path) -> list[Failure]:
        nonlocal begun
        begun += 1
        first = replace(study, contenders=dict([*study.contenders.items()][:1]))
        really(first if begun == 2 else study, root, digits())
        if begun == 2:
            raise KeyboardInterrupt("killed")
        return []

    study = make_study(["fedavg", "fedprox"], SMALL, 1)
    with pytest.raises(KeyboardInterrupt, match="killed"):
        tune_study(plan_tuning(study, 3), tmp_path / "killed", GO_ON, until_killed)
    assert read_tuning(tmp_path / "killed") is None
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "killed").rglob("result.json")}
    assert len(before) == 2 * 3 + 1
    assert choose(tmp_path / "killed", digits()) == whole
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_only_the_validation_score_of_a_run_is_taken(tmp_path: Path) -> None:
    result = {"accuracy": 0.99, "metrics": {"accuracy": 0.99}, "validation_metrics": {"auroc": 0.6}}
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert validation_score(tmp_path, "auroc") == 0.6
    assert validation_score(tmp_path, "accuracy") is None
