"""Encoders that come about otherwise: plainly as the ensemble's, or not trained at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.joint_features import received_encoder
from fedcord.algorithms.kit.encoder import encoder_tensors, head_prefix
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.ensemble import Ensemble
from fedcord.algorithms.oneshot.member import COUNTS
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError
from fedcord.core.params import build, plain
from fedcord.core.tensors import select
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_experiment
from tests.algorithms.accord.encoders import MIXED, method, run
from tests.federation import IMAGE, VECTOR, population, task

SIZES = (40, 25, 12)
PLAIN: dict[str, Any] = {
    "training": "plain",
    "plain": {"epochs": 2, "batch_size": 16, "lr": 0.1, "momentum": 0.5, "clip": 1.0},
}


def encoders_of(accord: Accord, values: Any = VECTOR) -> dict[int, dict[str, Tensor]]:
    states, _ = run(accord, values, SIZES)
    shared = states[-1].shared
    return {client: received_encoder(shared, client) for client in accord.encoders_of(shared)}


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
@pytest.mark.parametrize("counts_first", [False, True])
def test_plain_encoders_are_those_of_the_ensembles_clients(values: Any, counts_first: bool) -> None:
    """To the bit, and in whichever round they train."""
    more = {"selection": {"rule": "coverage", "max_encoders": 3}} if counts_first else {}
    found = encoders_of(method(**PLAIN, **more), values)
    ensemble = Ensemble(local=build(LocalSGD, PLAIN["plain"]))
    here, people = task(values), population(values, SIZES)
    env = Env(here, 0)
    shared = ensemble.init(env).shared
    assert sorted(found) == [0, 1, 2]
    for client, encoder in found.items():
        update = ensemble.client_update(shared, {}, people.client(client), env.at(client)).update
        model = select(update.tensors, "model")
        for name, tensor in encoder.items():
            assert torch.equal(tensor, model[name]), name
        left = model.keys() - encoder.keys()
        assert left
        assert all(name.startswith(head_prefix(here.scratch_network())) for name in left)


def test_random_encoders_are_drawn_by_each_client_and_not_trained() -> None:
    accord, here = method(training="random"), task(VECTOR)
    found = encoders_of(accord)
    for client, encoder in found.items():
        drawn = here.initial_network(Env(here, 0).at(client).generator("init"), client)
        for name, tensor in encoder_tensors(drawn).items():
            assert torch.equal(encoder[name], tensor)
    one, two = found[0], found[1]
    assert not any(torch.equal(one[name], two[name]) for name in one if name.endswith("weight"))


@pytest.mark.parametrize("training", ["plain", "random"])
def test_networks_may_differ_and_nothing_but_encoder_and_counts_is_sent(training: str) -> None:
    accord = method(**{**PLAIN, "training": training})
    assert len(encoders_of(accord, MIXED)) == 3
    env = Env(task(MIXED), 0, num_rounds=2).at(1)
    names = accord.expected_update({}, env)
    assert {name for name in names if not name.startswith("model.")} == {COUNTS}


def test_the_usual_training_is_unwritten_and_has_its_note_alone() -> None:
    written = plain(Accord())
    assert "training" not in written
    assert "plain" not in written
    notes = method(training="random").review(task(VECTOR)).notes
    assert any("encoders are as they were drawn" in note for note in notes)
    assert method().review(task(VECTOR)).notes == ()


def test_plain_training_is_reviewed() -> None:
    wrong = method(training="plain", plain={"augment": "standard"}).review(task(VECTOR)).errors
    assert len(wrong) == 1
    assert "augment" in wrong[0]
    with pytest.raises(ConfigError, match="one of objective, plain, random"):
        method(training="none")


def test_heads_on_the_same_plain_encoders_share_the_work(tmp_path: Path) -> None:
    small = {"subset": 120, "clients": 2, "model": ["mlp:8-6"], "partition": "iid"}
    for maps in ("none", "all"):
        params = {**PLAIN, "joint": {"layers": {"maps": maps}}}
        config = load_config({"algorithm": "accord", "params": params, **small})
        run_experiment(config, Place(tmp_path / maps, reuse=tmp_path / "work"))
        assert len(list((tmp_path / "work").iterdir())) == 2  # one of each client
