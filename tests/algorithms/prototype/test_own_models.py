"""Clients that keep models of their own, of different architectures (sections 1.4, 1.5)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import fedcord
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.core.errors import ConfigError
from fedcord.core.tensors import select
from fedcord.data.dataset import Dataset, Split
from fedcord.engine.evaluation import evaluate
from fedcord.engine.federation import Federation
from fedcord.engine.population import Population
from fedcord.engine.transports.processes import ProcessesTransport
from fedcord.engine.transports.wire import WireTransport
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.load import load_config
from fedcord.metrics.sums import Evaluation
from fedcord.store.checkpoint import Checkpoint
from tests import federation
from tests.algorithms.prototype import parties
from tests.cli.command import fedcord as command
from tests.cli.command import result_of

THREE = {**federation.VECTOR, "models": ["mlp:16", "mlp:24-16", "mlp:8-16"]}
BALANCED = [(8, 8, 8)] * 5


def _grouped() -> Population:
    people = parties.population(BALANCED)
    return dataclasses.replace(people, test_groups={"half": torch.arange(120) % 2})


@pytest.mark.parametrize("name", parties.OWN)
def test_three_architectures_learn_together(name: str) -> None:
    values = {"anchor_weight": 1.0} if name == "fedsa" else {}
    algorithm = parties.method(name, LocalSGD(lr=0.1, batch_size=8), **values)
    done = parties.run(algorithm, parties.population(BALANCED), rounds=20, values=THREE)
    assert all(not record.refused for record in done.records)
    evaluation = done.records[-1].evaluation
    assert evaluation is not None
    assert evaluation.accuracy > 0.85
    shapes = [
        {n: tuple(t.shape) for n, t in select(done.reached.gather_memory()[k], MODEL).items()}
        for k in range(5)
    ]
    assert shapes[0] == shapes[3]
    assert shapes[0] != shapes[1] != shapes[2] != shapes[0]


@contextlib.contextmanager
def _engine(kind: str, name: str, people: Population) -> Iterator[Federation]:
    algorithm = parties.method(name)
    plan = federation.blueprint(algorithm, THREE)
    if kind == "sequential":
        yield federation.sequential(algorithm, federation.task(THREE), people)
    elif kind == "wire":
        yield Federation(WireTransport.rebuilding(plan, people))
    else:
        with contextlib.closing(ProcessesTransport(plan, people, workers=2)) as workers:
            yield Federation(workers)


@pytest.mark.parametrize("name", parties.OWN)
def test_1_5_every_engine_tests_own_models_alike(name: str) -> None:
    people, found = _grouped(), {}
    for kind in ("sequential", "wire", "processes"):
        with _engine(kind, name, people) as reached:
            done = parties.run(parties.method(name), people, 2, lambda r: [r, 2, 4], THREE, reached)
            state = Checkpoint(done.state, reached.gather_memory()).hash
            found[kind] = state, [r.evaluation for r in done.records]
    assert found["wire"] == found["sequential"]
    assert found["processes"] == found["sequential"]


def test_1_5_accuracy_is_the_mean_over_clients_that_have_taken_part() -> None:
    people, algorithm = _grouped(), parties.method("fedproto")
    done = parties.run(algorithm, people, 3, lambda r: [r, 4], THREE)
    last, env = done.records[-1], federation.env(THREE)
    assert last.own_models == 4
    own = [
        evaluate(
            algorithm,
            done.state.model,
            done.reached.gather_memory()[k],
            people.test,
            env.at(k),
            people.test_groups,
        )
        for k in (0, 1, 2, 4)
    ]
    assert last.evaluation == sum(own, Evaluation())
    assert last.evaluation is not None
    assert last.evaluation.accuracy == pytest.approx(sum(e.accuracy for e in own) / 4)
    classifier = sum(e.rule_accuracy()["classifier"] for e in own) / 4
    assert last.evaluation.rule_accuracy()["classifier"] == pytest.approx(classifier)
    halves = last.evaluation.group_accuracy()["half"]
    assert halves[0] == pytest.approx(sum(e.group_accuracy()["half"][0] for e in own) / 4)
    assert [r.own_models for r in done.records] == [2, 3, 4]


def test_1_5_averaged_models_are_tested_once_by_their_classifier() -> None:
    done = parties.run(parties.method("fedproto+"))
    evaluation = done.records[-1].evaluation
    assert evaluation is not None
    assert (evaluation.total, done.records[-1].own_models) == (120, None)
    assert list(evaluation.by_rule) == ["classifier", "prototypes"]
    assert evaluation.by_rule["classifier"] == evaluation.correct


def test_the_rule_that_counts_is_the_one_of_predict() -> None:
    for name, rule in (("fedproto", "prototypes"), ("fedgmkd", "classifier")):
        done = parties.run(parties.method(name))
        evaluation = done.records[-1].evaluation
        assert evaluation is not None
        assert next(iter(evaluation.by_rule)) == rule
        assert evaluation.by_rule[rule] == evaluation.correct


def _build(algorithm: str, *models: str) -> Experiment:
    settings = {"algorithm": algorithm, "clients": 4, "model": list(models)}
    return build_experiment(load_config(settings))


@pytest.mark.parametrize("name", parties.OWN)
def test_features_of_different_lengths_are_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(ConfigError, match=r"network 1 has 64, network 2 has 128; .*cnn,fc=64"):
        _build(name, "mlp:64", "mlp:128")
    _build(name, "mlp:64", "mlp:128-64", "cnn,fc=64")


@pytest.mark.parametrize("name", ["fedavg", "fedproto+", "fafi", "ensemble", "afl"])
def test_methods_that_send_models_refuse_several_networks(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name[:-1]}.* needs one network for all clients"):
        _build(name, "mlp:64", "mlp:128-64")


def test_one_network_named_twice_is_one_network() -> None:
    task = _build("fedavg", "mlp:64", "mlp:64").task
    first, second = (task.scratch_network(client).state_dict() for client in (0, 1))
    assert {n: t.shape for n, t in first.items()} == {n: t.shape for n, t in second.items()}


def test_groups_of_the_test_set_are_kept(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(180) % 3
    inputs = (generator.normal(size=(180, 5)) + 3 * labels[:, None]).astype(np.float32)
    sites = np.arange(180) // 7 % 2
    data = Dataset(
        "mine",
        "vector",
        Split(inputs[:120], labels[:120], {"site": sites[:120]}),
        Split(inputs[120:], labels[120:], {"site": sites[120:]}),
        ("a", "b", "c"),
        group_names={"site": ("north", "south")},
    )
    result = fedcord.run(
        "fedproto", dataset=data, partition="iid", clients=3, rounds=5, out=tmp_path / "run"
    )
    assert result["per_site"].keys() == {"north", "south"}
    assert result["own_models"] == 3
    assert result["accuracy_by_rule"]["prototypes"] == result["accuracy"]
    assert result["accuracy_by_rule"].keys() == {"prototypes", "classifier"}


MIXED = ["--model", "mlp:64", "--model", "mlp:128-64", "--model", "cnn:4-8,fc=64"]


def test_the_command_runs_mixed_networks_and_resumes(tmp_path: Path) -> None:
    words = ["run", "fedproto", "--clients", "6", "--rounds", "3", *MIXED]
    whole = result_of(*words, cwd=tmp_path)
    assert len(whole["model"]) == 3
    assert whole["own_models"] == 6
    lines = (Path(tmp_path) / whole["run_dir"] / "metrics.jsonl").read_text().splitlines()
    assert {"prototype.inter_class", "prototype.consistency"} <= set(
        json.loads(lines[-1])["server_metrics"]
    )
    shown = command(*words, "--out", "again", cwd=tmp_path)
    assert shown.returncode == 0
    assert "mean over 6 clients' own models" in " ".join(shown.stdout.split())
