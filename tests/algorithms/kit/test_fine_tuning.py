"""Every averaging method can end with each client training the final model for itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.moon import MOON
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, AveragesModels
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.checks import check_algorithm
from fedcord.core.contract import ClientResult, Env
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData
from fedcord.core.params import describe, plain
from fedcord.core.tensors import Tensors, hash_tensors, select
from fedcord.experiment.load import load_config
from tests import federation
from tests.checks.registered import registered
from tests.trained.runs import finished

AVERAGING = [name for name in ALGORITHMS if issubclass(algorithm_class(name), AveragesModels)]
PERSONAL_ANYWAY = {"fedbabu", "per-fedavg"}
"""Methods of which a step at every client after the last round is a part."""
LOCAL = LocalSGD(batch_size=8, lr=0.1)


@dataclass(frozen=True)
class Untrained(AveragesModels):
    """A method that does not say how to train."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return FedAvg().client_update(shared, memory, data, env)


def _at(client: int = 0) -> tuple[Env, ClientData]:
    env = replace(federation.env(), round=2, client=client)  # the last of three rounds
    return env, federation.population().client(client)


def test_there_are_methods_to_tune() -> None:
    assert {"fedavg", "fedprox", "moon", "fedrcl", "fedhpro"} <= set(AVERAGING)


@pytest.mark.parametrize("name", sorted(set(AVERAGING) - PERSONAL_ANYWAY))
def test_off_it_is_neither_announced_nor_written_down(name: str) -> None:
    algorithm, _ = registered(name)
    assert not algorithm.traits.personalizes
    assert "finetune_epochs" not in plain(algorithm)
    on = replace(algorithm, finetune_epochs=2)  # type: ignore[type-var]
    assert on.traits.personalizes
    assert dataclasses.replace(on.traits, personalizes=False) == algorithm.traits
    assert plain(on) == {**plain(algorithm), "finetune_epochs": 2}
    assert describe(type(on))[-1][0] == "finetune_epochs"


def test_runs_from_before_keep_their_identity() -> None:
    off, on = (
        load_config({"algorithm": "fedavg", "params": {"finetune_epochs": epochs}})
        for epochs in (0, 1)
    )
    assert off.hash == load_config({"algorithm": "fedavg"}).hash != on.hash
    assert load_config(on.plain()).method == on.method


@pytest.mark.parametrize("name", AVERAGING)
def test_every_method_makes_and_answers_with_a_model_of_the_clients_own(name: str) -> None:
    algorithm = replace(registered(name)[0], finetune_epochs=1)  # type: ignore[type-var]
    env, data = _at()
    state = algorithm.init(replace(env, client=None, round=0))
    inputs = env.task.prepare(data.train.inputs)
    memory = algorithm.personalize(state.model, {"kept": torch.ones(1)}, data, env)  # type: ignore[attr-defined]
    assert memory["kept"] == 1
    own = algorithm.predictor(state.model, memory, env).scores(inputs)
    common = algorithm.predictor(state.model, {}, env).scores(inputs)
    losses = [torch.nn.functional.cross_entropy(s, data.train.labels) for s in (own, common)]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_it_is_plain_sgd_on_the_streams_of_the_next_round(schedule: str) -> None:
    """Against `torch.optim`; a schedule over rounds has no say once they are over."""
    local = LocalSGD(batch_size=8, lr=0.1, momentum=0.9, schedule=schedule, steps=1)
    algorithm, (env, data) = FedAvg(local, finetune_epochs=3), _at()
    shared = algorithm.init(replace(env, client=None, round=0)).shared
    tuned = select(algorithm.personalize(shared, {}, data, env), MODEL)
    network = env.task.networks[0](None)
    network.load_state_dict(select(shared, MODEL))
    descent = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    stream = replace(env, round=3).generator("batches")
    inputs = env.task.prepare(data.train.inputs)
    for _ in range(3):
        for batch in torch.randperm(len(data.train), generator=stream).split(8):
            descent.zero_grad()
            scores = network(inputs[batch])
            torch.nn.functional.cross_entropy(scores, data.train.labels[batch]).backward()
            descent.step()
    for name, tensor in network.state_dict().items():
        assert torch.allclose(tensor, tuned[name], atol=1e-6)


def test_a_projection_head_is_tuned_with_its_model() -> None:
    algorithm = MOON(head="projection", projection_width=8, local=LOCAL, finetune_epochs=2)
    env, data = _at()
    shared = algorithm.init(replace(env, client=None, round=0)).shared
    memory = algorithm.personalize(shared, {}, data, env)
    assert memory.keys() == shared.keys()
    assert all(not torch.equal(memory[name], shared[name]) for name in shared)
    inputs = env.task.prepare(data.train.inputs)
    found = algorithm.predictor(shared, memory, env).scores(inputs)
    assert torch.equal(found, algorithm.predictor(memory, {}, env).scores(inputs))


def test_a_method_that_does_not_say_how_to_train_is_refused_before_a_run() -> None:
    method, (env, data) = Untrained(finetune_epochs=1), _at()
    assert Untrained().review(env.task).errors == ()
    (error,) = method.review(env.task).errors
    assert "Untrained does not say how to train; give it a field local" in error
    with pytest.raises(ConfigError, match="does not say how to train"):
        method.personalize(method.init(env).shared, {}, data, env)


def test_the_contract_holds_with_it() -> None:
    report = check_algorithm(FedAvg(LOCAL, finetune_epochs=1), tasks=["vectors"])
    assert report.passed


def test_personal_models_of_a_run_are_found_and_the_common_one_is_untouched(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"rounds": 2, "model": ["mlp:8"], "partition": "dirichlet:0.1"}
    results = {
        name: finished(tmp_path / name, "fedavg", params={"finetune_epochs": epochs}, **settings)
        for name, epochs in (("off", 0), ("on", 10))
    }
    off, on = (fedcord.load(tmp_path / name) for name in results)
    assert results["on"]["accuracy"] == results["off"]["accuracy"]
    assert hash_tensors(on.model().shared) == hash_tensors(off.model().shared)
    means = [results[name]["client_accuracy_mean"] for name in ("off", "on")]
    assert means[1] > means[0] + 0.1
    inputs = np.random.default_rng(0).integers(0, 16, (5, 1, 8, 8)).astype(np.uint8)
    own = on.scores(inputs, client=1)
    assert not np.allclose(own, on.scores(inputs))
    network = on.network(client=1)
    with torch.inference_mode():
        same = network(on.model(1).prepared(torch.from_numpy(inputs)))
    assert np.allclose(own, same.numpy(), atol=1e-6)
