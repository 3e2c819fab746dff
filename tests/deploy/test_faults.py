"""Real processes are killed, come late and send garbage: rounds go on, and events name the site."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ProtocolError
from fedcord.engine.federation import Patience
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.rehearsal import Rehearsal, rehearsal
from fedcord.store.run_folder import RunFolder
from tests.deploy.processes import Background, kill, kill_group, lines_of, pids_of, wait_until

CLIENTS = 3
ROGUE = '''
"""Makes this site's answers garbage, a new kind in every round."""
import sys
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("flwr-clientapp"):
    import torch
    from dataclasses import replace
    from fedcord.engine import requests
    from fedcord.site import answering
    honest = answering.answer_at_site

    def rogue(path, terms, call, store):
        request, parcel = requests.unpack_call(call)
        answer = honest(path, terms, call, store)
        if request.verb != "update":
            return answer
        (reply,) = requests.unpack_replies(answer)
        first = sorted(reply.tensors)[0]
        no_numbers = {name: tensor * float("nan") for name, tensor in reply.tensors.items()}
        changed = {
            0: lambda: None,
            1: lambda: replace(reply, tensors=no_numbers),
            2: lambda: replace(reply, tensors={**reply.tensors, first: torch.zeros(1)}),
            3: lambda: replace(reply, client=0),
        }[request.round]()
        return b"\\xff" * 1000 if changed is None else requests.pack_replies([changed])

    answering.answer_at_site = rogue
'''


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with rehearsal(tmp_path_factory.mktemp("faults") / "runs", CLIENTS) as local:
        yield local


def _place(out: Path, resume: bool = False, quorum: float = 1.0) -> Place:
    return Place(out, resume=resume, patience=Patience(quorum))


def _config(algorithm: str, rounds: int) -> Any:
    settings = {"dataset": "digits", "subset": 300, "clients": CLIENTS, "validation": 0.0}
    return load_config({"algorithm": algorithm, "rounds": rounds, **settings})


def _metrics(out: Path) -> list[dict[str, Any]]:
    return RunFolder(out).read_metrics()


def test_a_server_app_that_is_killed_goes_on_with_the_nodes_still_up(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config, out = _config("fedproto", 3), tmp_path / "run"  # whose clients keep their models
    running = Background(lambda: nodes.run(config, _place(out), Progress()))
    wait_until(lambda: lines_of(out) >= 1, "a first round")
    up = {k: node.pid for k, node in nodes.network.nodes.items()}
    (server,) = pids_of("flwr-serverapp", nodes.network.address)
    kill(server)
    running.wait()
    assert isinstance(running.error, ProtocolError)
    assert "ended without a result" in str(running.error)
    assert "--resume" in str(running.error)
    assert not RunFolder(out).is_finished
    done = nodes.run(config, _place(out, resume=True), Progress())
    assert done["state_hash"] == run(config, Place(tmp_path / "sequential"))["state_hash"]
    assert {k: node.pid for k, node in nodes.network.nodes.items()} == up


def test_a_node_that_is_killed_is_named_and_joins_again(nodes: Rehearsal, tmp_path: Path) -> None:
    config, out = _config("fedavg", 4), tmp_path / "run"
    running = Background(lambda: nodes.run(config, _place(out, quorum=0.5), Progress()))
    wait_until(lambda: lines_of(out) >= 1, "a first round")
    kill_group(nodes.network.nodes[2].pid)
    wait_until(lambda: lines_of(out) >= 2 or running.error is not None, "a round without it")
    site = nodes.network.folder / "sites" / "2" / "site.toml"
    nodes.network.start_node(2, site)
    result = running.wait()
    assert running.error is None
    missing = [line.get("missing", {}) for line in _metrics(out)]
    assert any(set(gone) == {"2"} for gone in missing)
    said = next(gone["2"] for gone in missing if gone)
    assert said.startswith("absent: its SuperNode is gone")
    assert all(set(gone) <= {"2"} for gone in missing)
    assert result["accuracy"] > 0.3
    assert RunFolder(out).check()


def test_garbage_is_refused_under_the_name_of_its_site(
    nodes: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = _config("fedavg", 4), tmp_path / "run"
    (tmp_path / "rogue").mkdir()
    (tmp_path / "rogue" / "sitecustomize.py").write_text(ROGUE)
    path = [str(tmp_path / "rogue"), os.environ.get("PYTHONPATH", "")]
    nodes.start_nodes(config, _place(out))
    kill_group(nodes.network.nodes[1].pid)
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        nodes.network.start_node(1, nodes.network.folder / "sites" / "1" / "site.toml")
    nodes.run(config, _place(out, quorum=0.5), Progress())
    first, second, third, fourth = _metrics(out)
    assert first["missing"]["1"].startswith("refused: its answer is unreadable")
    assert "client 1" in second["refused"][0]
    assert "finite" in second["refused"][0]
    assert "client 1" in third["refused"][0]
    assert "float32[1], expected float32" in third["refused"][0]
    assert fourth["missing"]["1"] == "absent: no answer to this request"
    assert fourth["events"] == [
        "client 0 was not asked; its answer in place of client 1's is left out."
    ]
    # what the others learnt is theirs alone
    assert all(line["accuracy"] > 0 for line in _metrics(out))
    kill_group(nodes.network.nodes[1].pid)  # the next run starts an honest one
    nodes.network.nodes[1].keeper.wait()


def test_a_superlink_that_is_restarted_goes_on_from_the_checkpoint(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config, out = _config("fedavg", 3), tmp_path / "run"
    running = Background(lambda: nodes.run(config, _place(out), Progress()))
    wait_until(lambda: lines_of(out) >= 1, "a first round")
    assert nodes.network.link is not None
    kill(nodes.network.link.pid)
    running.wait()
    assert isinstance(running.error, ProtocolError)
    assert "the SuperLink has ended" in str(running.error)
    done = nodes.run(config, _place(out, resume=True), Progress())  # starts another one
    assert done["state_hash"] == run(config, Place(tmp_path / "sequential"))["state_hash"]
