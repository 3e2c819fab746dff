"""A finished run's model, from its folder alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config
from fedcord.store.checksums import CHECKSUMS, PARTITION
from fedcord.store.run_folder import RunFolder
from tests.trained.runs import IMAGE, TEXT, VECTOR, finished, own_data


@pytest.mark.parametrize("kind", [IMAGE, VECTOR, TEXT])
def test_a_loaded_run_answers_as_it_was_tested_though_its_data_is_gone(
    tmp_path: Path, kind: str
) -> None:
    data = own_data(kind)
    result = finished(tmp_path / "run", "fedavg", data, rounds=2)
    model = fedcord.load(tmp_path / "run")
    right = model.predict(data.test.inputs) == np.array(data.class_names)[data.test.labels]
    assert right.mean() == result["accuracy"] == model.metrics["accuracy"]
    assert model.config.algorithm == "fedavg"
    shares = model.predict_proba(data.test.inputs)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    loss = -np.log(shares[np.arange(len(shares)), data.test.labels]).mean()
    assert loss == pytest.approx(result["loss"], rel=1e-6)


def test_one_example_is_answered_as_among_others(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    model = fedcord.load(tmp_path / "run")
    many = model.scores(data.test.inputs)
    shifted = data.test.inputs + np.float32(1000)  # other company changes no constant
    np.testing.assert_allclose(model.scores(data.test.inputs[:1])[0], many[0], rtol=1e-6)
    both = model.scores(np.concatenate([data.test.inputs[:1], shifted]))
    np.testing.assert_allclose(both[0], many[0], rtol=1e-6)


@pytest.mark.parametrize("algorithm", ["fedproto", "fedhip"])
def test_a_clients_own_model_answers_as_the_run_has_tested_it(
    tmp_path: Path, algorithm: str
) -> None:
    settings: dict[str, Any] = {"partition": "dirichlet:0.5", "test": 0.3}
    if algorithm == "fedproto":
        settings["rounds"] = 2
    result = finished(tmp_path / "run", algorithm, **settings)
    model = fedcord.load(tmp_path / "run")
    people = build_experiment(load_config(RunFolder(tmp_path / "run").read_config())).population
    for client, accuracy in enumerate(result["client_accuracy"]):
        test = people.client(client).test
        if algorithm == "fedhip":  # its population holds features where a network is frozen
            assert tuple(test.inputs.shape[1:]) == (1, 8, 8)
        found = model.predict(test.inputs, client=client)
        right = found == np.array(model.class_names)[test.labels.numpy()]
        assert right.mean() == pytest.approx(accuracy)


def test_examples_go_through_the_frozen_network_of_the_run(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    result = finished(tmp_path / "run", "afl", data, model="frozen:random-conv")
    model = fedcord.load(tmp_path / "run")
    assert model.model().plan.encoder is not None
    right = model.predict(data.test.inputs) == np.array(data.class_names)[data.test.labels]
    assert right.mean() == result["accuracy"]


def test_a_model_that_a_card_has_trained_answers_without_one(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    model = fedcord.load(tmp_path / "run").model()
    elsewhere = replace(model, config=replace(model.config, device="cuda:7"))
    inputs = torch.from_numpy(data.test.inputs)
    assert torch.equal(elsewhere.scores(inputs), model.scores(inputs))


def test_the_plain_network_is_given_where_there_is_one(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    model = fedcord.load(tmp_path / "run")
    inputs = model.model().prepared(torch.from_numpy(data.test.inputs))
    found = model.network()(inputs).detach().numpy()
    np.testing.assert_allclose(found, model.scores(data.test.inputs), rtol=1e-5, atol=1e-6)
    assert model.features(data.test.inputs).shape == (40, model.network().feature_dim)


def test_what_is_no_plain_network_says_so(tmp_path: Path) -> None:
    finished(tmp_path / "run", "afl", own_data(IMAGE))
    model = fedcord.load(tmp_path / "run")
    with pytest.raises(ConfigError, match="afl answers by more than one plain network"):
        model.network()


def test_a_method_without_a_common_model_asks_for_a_client(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedproto", data, rounds=1)
    model = fedcord.load(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"choose a client with --client \(0, 1, 2\)"):
        model.predict(data.test.inputs)
    with pytest.raises(ConfigError, match="client 7 does not exist; this run has clients 0 to 2"):
        model.predict(data.test.inputs, client=7)
    with pytest.raises(ConfigError, match="client 'North': must be a number"):
        model.predict(data.test.inputs, client="North")


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        (
            IMAGE,
            np.zeros((2, 3, 9, 8), np.uint8),
            r"shape \[3, 9, 8\], the model takes \[3, 8, 8\]",
        ),
        (IMAGE, np.zeros((2, 3, 8, 8)), "examples are float64; the model takes uint8 images"),
        (VECTOR, np.array([[0, 0, 0, 0, 0], [0, 0, 1e99, 0, 0]]), "example 1 .* beyond float32"),
        (TEXT, np.full((1, 7), 12), "example 0 .* token id outside 0 to 11"),
        (TEXT, np.zeros((1, 7)), "the model takes token ids"),
    ],
)
def test_inputs_of_another_form_are_refused(
    tmp_path: Path, kind: str, inputs: np.ndarray, words: str
) -> None:
    finished(tmp_path / "run", "fedavg", own_data(kind), rounds=1)
    with pytest.raises(DataError, match=words):
        fedcord.load(tmp_path / "run").predict(inputs)


def _forget_task(run: Path) -> None:
    """The folder as versions before wrote it: no task, and no checksums."""
    partition = json.loads((run / PARTITION).read_text())
    del partition["task"]
    (run / PARTITION).write_text(json.dumps(partition))
    (run / CHECKSUMS).unlink()


def test_a_folder_without_the_task_is_completed_from_its_data_set(tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", rounds=1)
    shutil.copytree(tmp_path / "run", tmp_path / "old")
    _forget_task(tmp_path / "old")
    test = fedcord.load_dataset("digits").test.inputs
    new, old = (fedcord.load(tmp_path / name).scores(test) for name in ("run", "old"))
    np.testing.assert_array_equal(new, old)


def test_a_folder_without_the_task_whose_data_is_gone_says_what_is_missing(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    _forget_task(tmp_path / "run")
    with pytest.raises(
        CheckpointError, match=r"did not record how examples are prepared .* run it"
    ):
        fedcord.load(tmp_path / "run")


def test_a_folder_without_the_task_needs_the_data_it_was_made_with(tmp_path: Path) -> None:
    data, file = own_data(VECTOR), tmp_path / "a.npz"
    np.savez(file, x=data.train.inputs, y=data.train.labels)
    finished(tmp_path / "run", "fedavg", rounds=1, name=f"npz:{file}")
    _forget_task(tmp_path / "run")
    np.savez(file, x=data.train.inputs + 1, y=data.train.labels)
    with pytest.raises(CheckpointError, match="is not what it was then"):
        fedcord.load(tmp_path / "run")
    file.unlink()
    with pytest.raises(CheckpointError, match=r"can be made again from the data set .* but"):
        fedcord.load(tmp_path / "run")


def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", own_data(VECTOR), rounds=1)
    text = (tmp_path / "run" / PARTITION).read_text()
    (tmp_path / "run" / PARTITION).write_text(text.replace("calm", "wild"))
    with pytest.raises(CheckpointError, match="is not as fedcord wrote it"):
        fedcord.load(tmp_path / "run")


def test_a_folder_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no finished run; name the folder of one run"):
        fedcord.load(tmp_path)
