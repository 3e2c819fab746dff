"""A masked round over real nodes, one of which is lost in the middle of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.contract import Env, ServerState
from fedcord.engine.patience import Patience
from fedcord.experiment.build import build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress
from fedcord.flower.rehearsal import rehearsal
from fedcord.store.checkpoint import load_newest
from fedcord.store.run_folder import RunFolder
from tests.deploy.processes import Background, kill_group, wait_until

CLIENTS = 5
LOST = 4
OTHERS = [0, 1, 2, 3]
SECURE = 0.6  # three of five must stay
STUCK = f'''
"""Keeps a site from ever sending its update: it says that it was asked, and waits."""
import sys
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("flwr-clientapp"):
    import pathlib
    import time
    from fedcord.engine import requests
    from fedcord.site import answering
    honest = answering.answer_at_site

    def stuck(path, terms, call, store):
        request, parcel = requests.unpack_call(call)
        if request.verb == "mask" and {LOST} in parcel.clients:
            pathlib.Path(__file__).with_name("asked").touch()
            time.sleep(3600)
        return honest(path, terms, call, store)

    answering.answer_at_site = stuck
'''


def _config(**more: Any) -> RunConfig:
    settings = {"algorithm": "afl", "dataset": "digits", "subset": 500, "clients": CLIENTS}
    return load_config({**settings, **more})


def _sum_in_the_open(clients: list[int]) -> ServerState:
    """After the same round in which these clients send their updates one by one."""
    experiment = build_experiment(_config())
    algorithm, people = experiment.algorithm, experiment.population
    env = Env(experiment.task, seed=0, num_rounds=1)
    state = algorithm.init(env)
    results = [
        (k, algorithm.client_update(state.shared, {}, people.client(k), env.at(k))) for k in clients
    ]
    return algorithm.aggregate(state, ((k, result.update) for k, result in results), env)


def test_a_site_killed_after_its_commitment_is_taken_out_of_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out, stuck = _config(secure=SECURE), tmp_path / "run", tmp_path / "stuck"
    stuck.mkdir()
    (stuck / "sitecustomize.py").write_text(STUCK)
    path = [str(stuck), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    place = Place(out, patience=Patience(quorum=SECURE))
    with rehearsal(tmp_path / "nodes", CLIENTS) as nodes:
        running = Background(lambda: nodes.run(config, place, Progress()))
        # only who has shared its secrets is asked for a masked update
        asked = stuck / "asked"
        wait_until(lambda: asked.exists() or running.error is not None, "its commitment")
        assert running.error is None
        kill_group(nodes.network.nodes[LOST].pid)
        result = running.wait()
    assert running.error is None
    (line,) = RunFolder(out).read_metrics()
    assert set(line["missing"]) == {str(LOST)}
    assert line["missing"][str(LOST)].startswith("absent")
    saved = load_newest(RunFolder(out).checkpoints, config.hash)
    assert saved is not None
    assert saved.state.private["ledger.client"].tolist() == OTHERS
    wanted = _sum_in_the_open(OTHERS)
    found = {**saved.state.private, **saved.state.result}
    gaps = {
        name: float((found[name].double() - tensor.double()).abs().max())
        for name, tensor in {**wanted.private, **wanted.result}.items()
        if name.startswith("sum.") or name == "head.weight"
    }
    assert len(gaps) == 6
    assert max(gaps.values()) <= 1e-9, gaps
    assert result["accuracy"] > 0.5
