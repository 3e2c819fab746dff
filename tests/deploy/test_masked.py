"""Masked rounds over real nodes: the sums of a simulation, also when a site is lost in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.contract import Env, ServerState
from fedcord.engine.federation import Patience
from fedcord.experiment.build import build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.rehearsal import Rehearsal, rehearsal
from fedcord.store.checkpoint import load_newest
from fedcord.store.run_folder import RunFolder
from tests.deploy.processes import Background, kill_group, wait_until

CLIENTS = 5
LOST = 4
SECURE = 0.6  # three of five must stay
STUCK = '''
"""Keeps this site from ever sending its update: it says that it was asked, and waits."""
import sys
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("flwr-clientapp"):
    import pathlib
    import time
    from fedcord.engine import requests
    from fedcord.site import answering
    honest = answering.answer_at_site

    def stuck(path, terms, call, store):
        request, parcel = requests.unpack_call(call)
        if request.verb == "mask":
            pathlib.Path(__file__).with_name("asked").touch()
            time.sleep(3600)
        return honest(path, terms, call, store)

    answering.answer_at_site = stuck
'''


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with rehearsal(tmp_path_factory.mktemp("masked") / "runs", CLIENTS) as local:
        yield local


def _config(**more: Any) -> RunConfig:
    settings = {"algorithm": "afl", "dataset": "digits", "subset": 500, "clients": CLIENTS}
    return load_config({**settings, **more})


def _sum_in_the_open(clients: list[int]) -> ServerState:
    """After the same round in which these clients send their updates one by one."""
    experiment = build_experiment(_config())
    algorithm, env = experiment.algorithm, Env(experiment.task, seed=0, num_rounds=1)
    state = algorithm.init(env)
    updates = [
        (
            client,
            algorithm.client_update(
                state.shared, {}, experiment.population.client(client), env.at(client)
            ).update,
        )
        for client in clients
    ]
    return algorithm.aggregate(state, iter(updates), env)


def test_masked_sums_of_five_nodes_have_the_bits_of_the_sequential_engine(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config = _config(secure=SECURE)
    expected = run(config, Place(tmp_path / "sequential"))
    found = nodes.run(config, Place(tmp_path / "deployed"), Progress())
    for name in ("state_hash", "accuracy", "bytes_up", "bytes_down"):
        assert found[name] == expected[name], name
    assert {"key exchange", "key shares", "unmasking"} <= found["traffic"].keys()


def test_a_site_killed_after_its_commitment_is_taken_out_of_the_sum(
    nodes: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out, stuck = _config(secure=SECURE), tmp_path / "run", tmp_path / "stuck"
    stuck.mkdir()
    (stuck / "sitecustomize.py").write_text(STUCK)
    path = [str(stuck), os.environ.get("PYTHONPATH", "")]
    kill_group(nodes.network.nodes[LOST].pid)
    wait_until(lambda: not nodes.network.nodes[LOST].is_running, "the end of its SuperNode")
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        site = nodes.network.folder / "sites" / str(LOST) / "site.toml"
        nodes.network.start_node(LOST, site)
    place = Place(out, patience=Patience(quorum=SECURE))
    running = Background(lambda: nodes.run(config, place, Progress()))
    # only who has shared its secrets is asked for a masked update
    wait_until(lambda: (stuck / "asked").exists() or running.error is not None, "its commitment")
    kill_group(nodes.network.nodes[LOST].pid)
    result = running.wait()
    assert running.error is None
    (line,) = RunFolder(out).read_metrics()
    assert set(line["missing"]) == {str(LOST)}
    saved = load_newest(RunFolder(out).checkpoints, config.hash)
    assert saved is not None
    others = [k for k in range(CLIENTS) if k != LOST]
    assert saved.state.private["ledger.client"].tolist() == others
    wanted = _sum_in_the_open(others)
    gaps = {
        name: float((saved.state.private[name].double() - tensor.double()).abs().max())
        for name, tensor in wanted.private.items()
        if name.startswith("sum.")
    }
    gaps["head"] = float(
        (saved.state.result["head.weight"] - wanted.result["head.weight"]).abs().max()
    )
    print("largest differences:", gaps)  # noqa: T201 - figures for whoever runs it with -s
    assert max(gaps.values()) <= 1e-9
    assert result["accuracy"] > 0.5
