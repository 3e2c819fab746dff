"""The setting `test_views`: every method, every engine, every way to ask a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord
from fedcord.core.errors import ConfigError
from fedcord.experiment.api import run
from fedcord.experiment.build import build_experiment
from fedcord.experiment.compare import load_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_config
from fedcord.report.load import load_run
from fedcord.report.origin import run_command
from fedcord.trained.exported import export_model
from tests.cli.command import fedcord as command
from tests.site.in_process import Hospitals, rehearsal
from tests.trained.runs import IMAGE, TEXT, VECTOR, finished, own_data

SMALL: dict[str, Any] = {"clients": 3, "partition": "iid", "subset": 200, "model": "cnn,width=4"}
SHORT = {"local": {"epochs": 1}}


@pytest.mark.parametrize("method", ["fedavg", "afl", "accord", "fafi"])
def test_answers_are_the_mean_by_hand_and_training_does_not_change(
    tmp_path: Path, method: str
) -> None:
    data = own_data(IMAGE)
    more: dict[str, Any] = {"rounds": 1} if method == "fedavg" else {}
    more |= {} if method == "afl" else {"params": SHORT}
    plain = finished(tmp_path / "plain", method, data, model="cnn,width=4", **more)
    both = finished(
        tmp_path / "both", method, data, model="cnn,width=4", test_views="mirror", **more
    )
    assert both["state_hash"] == plain["state_hash"]
    inputs, once = data.test.inputs, fedcord.load(tmp_path / "plain")
    mean = (once.scores(inputs) + once.scores(inputs[..., ::-1].copy())) / 2
    found = fedcord.load(tmp_path / "both").scores(inputs)
    np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found, once.scores(inputs), atol=1e-6)
    # and the run was tested by them
    logs = torch.from_numpy(mean).double().log_softmax(dim=1).numpy()
    loss = -logs[np.arange(len(logs)), data.test.labels].mean()
    assert both["loss"] == pytest.approx(loss, rel=1e-5)
    assert both["loss"] != pytest.approx(plain["loss"], rel=1e-9)
    assert any("averaged over 2 views" in note for note in both["notes"])


def test_without_the_setting_runs_are_what_they_were() -> None:
    assert RunConfig().hash == RunConfig(test_views=None).hash
    assert "test_views" not in RunConfig().plain()
    assert RunConfig(test_views="mirror").plain()["test_views"] == "mirror"
    assert load_config({"test_views": "none"}).hash == load_config({}).hash


def test_engines_and_sites_agree(tmp_path: Path) -> None:
    settings = {**SMALL, "partition": "dirichlet:0.5", "clients": 4, "rounds": 1}
    config = load_config({**settings, "algorithm": "fedavg", "test_views": "mirror"})
    places = {
        "here": Place(tmp_path / "here"),
        "wire": Place(tmp_path / "wire", "wire"),
    }
    found = [run_config(config, place) for place in places.values()]
    hospitals = Hospitals({10 + k: rehearsal(tmp_path, k) for k in range(4)})
    found.append(run_config(config, Place(tmp_path / "sites"), sites=hospitals.sites()))
    same = ("state_hash", "accuracy", "loss", "client_accuracy", "validation_accuracy")
    told = [{key: result[key] for key in same} for result in found]
    assert told == [told[0]] * 3
    plain = run("fedavg", out=tmp_path / "plain", **settings)
    assert plain["state_hash"] == found[0]["state_hash"]
    assert plain["loss"] != found[0]["loss"]


def test_clients_test_their_own_models_by_views(tmp_path: Path) -> None:
    how: dict[str, Any] = {**SMALL, "rounds": 1, "test": 0.3, "test_views": "shift"}
    result = run("fedproto", out=tmp_path / "run", **how)
    people = build_experiment(load_config({**how, "algorithm": "fedproto"})).population
    model = fedcord.load(tmp_path / "run")
    for client, accuracy in enumerate(result["client_accuracy"]):
        test = people.client(client).test
        found = model.predict(test.inputs, client=client)
        assert (found == np.array(model.class_names)[test.labels]).mean() == accuracy
    run("fedproto", out=tmp_path / "once", **{**how, "test_views": None})
    once = fedcord.load(tmp_path / "once")
    assert not np.allclose(model.scores(test.inputs, client=0), once.scores(test.inputs, client=0))


def test_work_is_reused_whatever_the_views(tmp_path: Path) -> None:
    how: dict[str, Any] = {"params": SHORT, "reuse": tmp_path / "work", **SMALL}
    run("accord", out=tmp_path / "plain", **how)
    before = sorted(path.name for path in (tmp_path / "work").iterdir())
    run("accord", out=tmp_path / "views", test_views="mirror", **how)
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == before != []


def test_a_frozen_network_looks_at_every_view(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    frozen = "frozen:random-conv,filters=4"
    plain = finished(tmp_path / "plain", "afl", data, model=frozen)
    both = finished(tmp_path / "both", "afl", data, model=frozen, test_views="mirror")
    assert any("features have no views" in note for note in both["notes"])
    inputs, once = data.test.inputs, fedcord.load(tmp_path / "plain")
    assert once.model().plan.encoder is not None
    mean = (once.scores(inputs) + once.scores(inputs[..., ::-1].copy())) / 2
    found = fedcord.load(tmp_path / "both").scores(inputs)
    np.testing.assert_allclose(found, mean, rtol=1e-4, atol=1e-5)
    assert plain["data_hash"] == both["data_hash"]


def test_an_exported_program_has_the_views_inside(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    finished(tmp_path / "run", "fedavg", data, rounds=1, test_views="shift")
    model = fedcord.load(tmp_path / "run").model()
    export_model(read_finished(tmp_path / "run"), model, tmp_path / "model")
    program = torch.export.load(tmp_path / "model" / "model.pt2").module()
    stored = torch.from_numpy(data.test.inputs)
    torch.testing.assert_close(program(stored), model.scores(stored), rtol=1e-5, atol=1e-5)
    assert "5 views of each image" in (tmp_path / "model" / "README.md").read_text()
    again = fedcord.load(tmp_path / "model").scores(data.test.inputs)
    np.testing.assert_array_equal(again, model.scores(stored).numpy())
    with pytest.raises(ConfigError, match="more than one plain network"):
        fedcord.load(tmp_path / "run").network()


@pytest.mark.parametrize("kind", [VECTOR, TEXT])
def test_data_without_images_is_refused_before_anything_is_written(
    tmp_path: Path, kind: str
) -> None:
    with pytest.raises(ConfigError, match=r"test_views = 'mirror': there are such views of images"):
        finished(tmp_path / "run", "fedavg", own_data(kind), rounds=1, test_views="mirror")
    assert not (tmp_path / "run").exists()


def test_unknown_views_are_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="one of mirror, shift, mirror\\+shift"):
        load_config({"test_views": "flip"})


def test_flag_study_file_and_report_say_the_same(tmp_path: Path) -> None:
    flags = "--clients 3 --partition iid --subset 200 --rounds 1 --model mlp:4"
    words = ["run", "fedavg", *flags.split(), "--test-views", "mirror", "--out", "run"]
    assert command(*words, "--quiet", cwd=tmp_path).returncode == 0
    assert 'test_views = "mirror"' in (tmp_path / "run" / "config.toml").read_text()
    assert "--test-views mirror" in run_command(load_run(tmp_path / "run"))
    file = tmp_path / "study.toml"
    file.write_text(
        'algorithms = ["fedavg"]\n[settings]\ntest_views = "mirror"\n'
        '[variants.once]\nalgorithm = "fedavg"\ntest_views = "none"\n'
    )
    study = load_study(file, {}, [])
    views = {label: config.test_views for label, config in study.contenders.items()}
    assert views == {"fedavg": "mirror", "once": None}
