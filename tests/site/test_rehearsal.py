"""Sites that rehearse: the bits of a simulation, without data at the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcord.core.params import plain
from fedcord.experiment import build
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
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
