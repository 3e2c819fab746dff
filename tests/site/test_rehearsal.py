"""Sites that rehearse: the bits of a simulation, without data at the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedcord.core.params import plain
from fedcord.data.facts import Stated
from fedcord.experiment import build
from fedcord.experiment.build import build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.site.check import check_site
from fedcord.site.in_process import sites_here
from fedcord.site.kept_model import find_model
from fedcord.site.own_data import read_site
from fedcord.site.site_file import load_site
from tests.checks.registered import registered
from tests.site.in_process import Hospitals, rehearsal


def config(name: str) -> RunConfig:
    method, _ = registered(name)
    settings: dict[str, Any] = {
        "algorithm": name,
        "dataset": "digits",
        "partition": "dirichlet:0.5",
        "subset": 300,
        "clients": 4,
        "rounds": 2 if method.traits.rounds is None else None,
        "params": plain(method),
    }
    return load_config(settings)


@pytest.mark.parametrize("name", ["fedavg", "afl", "fedhip", "accord", "fedproto"])
def test_four_sites_give_the_bits_of_the_sequential_engine(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = run(config(name), Place(tmp_path / "simulated"))
    # a server that loads data would fail
    monkeypatch.setattr(build, "load_dataset", None)
    hospitals = Hospitals({10 + k: rehearsal(tmp_path, k) for k in range(4)})
    deployed = run(config(name), Place(tmp_path / "deployed"), sites=hospitals.sites())
    same = ("state_hash", "accuracy", "client_accuracy", "validation_accuracy", "bytes_up")
    assert {k: deployed[k] for k in same} == {k: simulated[k] for k in same}
    assert deployed["accuracy_on"] == "global test set"
    assert deployed["engine"] == "sites"


def test_a_frozen_network_looks_at_examples_where_they_are(tmp_path: Path) -> None:
    """Features have the bits of the simulation, and check and predictions go through them."""
    settings = {"algorithm": "afl", "partition": "dirichlet:0.5", "subset": 300, "clients": 2}
    config = load_config({**settings, "model": ["frozen:random-conv,filters=4"]})
    simulated = run(config, Place(tmp_path / "simulated"))
    files = [rehearsal(tmp_path, k, clients=2) for k in range(2)]
    deployed = run(config, Place(tmp_path / "deployed"), sites=sites_here(files))
    assert deployed["state_hash"] == simulated["state_hash"]
    assert deployed["client_accuracy"] == simulated["client_accuracy"]
    site = load_site(files[1])
    _, (check,) = check_site(site, {"afl": config}, Stated())
    assert check.problems == ()
    test = read_site(site, config).client(1).test
    scores = find_model(site).model.scores(test.inputs)
    right = (scores.argmax(dim=1) == test.labels).double().mean()
    assert float(right) == simulated["client_accuracy"][1]


def test_the_slice_is_that_of_the_simulation(tmp_path: Path) -> None:
    settings = config("fedavg")
    people = build_experiment(settings).population
    for client in range(4):
        data = read_site(load_site(rehearsal(tmp_path, client)), settings)
        mine, theirs = data.client(client), people.client(client)
        for part in ("train", "validation", "test"):
            own, simulated = getattr(mine, part), getattr(theirs, part)
            assert torch.equal(own.inputs, simulated.inputs)
            assert torch.equal(own.labels, simulated.labels)
        assert torch.equal(data.test.inputs, people.test.inputs)
