"""Real processes are killed, come late and send garbage: rounds go on, and events name the site."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ProtocolError
from fedcord.engine.patience import Patience
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.rehearsal import Rehearsal, rehearsal
from fedcord.store.run_folder import RunFolder
from tests.deploy.processes import Background, kill, kill_group, lines_of, pids_of, wait_until

CLIENTS = 3
DEADLINE = 60.0
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
            4: lambda: reply,
            5: lambda: None,
        }[request.round]()
        if changed is None:
            return b"\\xff" * (1000 if request.round == 0 else 2**31)
        return requests.pack_replies([changed] * (2 if request.round == 4 else 1))

    answering.answer_at_site = rogue
'''
OTHER = '''
"""Makes this site one that has agreed to something else."""
import sys
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("flwr-clientapp"):
    from dataclasses import replace
    from fedcord.site import answering
    honest = answering.ClientNode

    def other(algorithm, task, data, store, agreement, **more):
        changed = replace(agreement, configuration="another", version="0.0.0")
        return honest(algorithm, task, data, store, changed, **more)

    answering.ClientNode = other
'''
SLOW = '''
"""Keeps this site from answering in round 1 until it is told to."""
import sys
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("flwr-clientapp"):
    import pathlib
    import time
    from fedcord.engine import requests
    from fedcord.site import answering
    honest = answering.answer_at_site

    def slow(path, terms, call, store):
        request, _ = requests.unpack_call(call)
        while request.round == 1 and request.verb == "update":
            if pathlib.Path(__file__).with_name("go").exists():
                break
            time.sleep(0.1)
        return honest(path, terms, call, store)

    answering.answer_at_site = slow
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


@contextmanager
def changed_site(
    nodes: Rehearsal, config: RunConfig, place: Place, folder: Path, code: str
) -> Iterator[None]:
    """Site 1 runs `code` before all else, as if somebody had changed its installation."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    path = [str(folder), os.environ.get("PYTHONPATH", "")]
    nodes.start_nodes(config, place)
    kill_group(nodes.network.nodes[1].pid)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        nodes.network.start_node(1, nodes.network.folder / "sites" / "1" / "site.toml")
    try:
        yield
    finally:
        kill_group(nodes.network.nodes[1].pid)  # the next run starts an honest one
        nodes.network.nodes[1].keeper.wait()


def test_garbage_is_refused_under_the_name_of_its_site(nodes: Rehearsal, tmp_path: Path) -> None:
    config, out = _config("fedavg", 6), tmp_path / "run"
    place = _place(out, quorum=0.5)
    with changed_site(nodes, config, place, tmp_path / "rogue", ROGUE):
        nodes.run(config, place, Progress())
    first, second, third, fourth, fifth, sixth = _metrics(out)
    assert first["missing"]["1"].startswith("refused: its answer is unreadable")
    assert "client 1" in second["refused"][0]
    assert "finite" in second["refused"][0]
    assert "client 1" in third["refused"][0]
    assert "float32[1], expected float32" in third["refused"][0]
    assert fourth["missing"]["1"] == "absent: no answer to this request"
    assert fourth["events"] == [
        "client 0 was not asked; its answer in place of client 1's is left out."
    ]
    assert fifth["events"] == ["client 1 answered twice; the first counts."]
    assert "missing" not in fifth
    assert sixth["missing"]["1"].startswith("refused: a message has 2,147,483,648 bytes")
    # what the others learnt is theirs alone
    assert all(line["accuracy"] > 0 for line in _metrics(out))


def test_a_site_that_agreed_to_something_else_gets_no_model(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config, out = _config("fedavg", 1), tmp_path / "run"
    place = _place(out, quorum=0.5)
    with changed_site(nodes, config, place, tmp_path / "other", OTHER):
        nodes.run(config, place, Progress())
    (line,) = _metrics(out)
    assert line["clients"] == 2
    said = next(event for event in line["events"] if "with client 1 was refused" in event)
    assert "version is '0.0.0' there" in said
    assert "configuration is 'another' there" in said


def test_a_late_answer_is_left_out_and_its_site_is_asked_again(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config, out, slow = _config("fedavg", 3), tmp_path / "run", tmp_path / "slow"
    place = Place(out, patience=Patience(0.5, deadline=DEADLINE))
    with changed_site(nodes, config, place, slow, SLOW):
        running = Background(lambda: nodes.run(config, place, Progress()))
        wait_until(lambda: lines_of(out) >= 2 or running.error is not None, "a round without it")
        (slow / "go").touch()
        running.wait()
    assert running.error is None
    first, second, third = _metrics(out)
    assert "missing" not in first
    assert second["missing"] == {"1": f"late: no answer within {DEADLINE:g} s"}
    assert set(third.get("missing", {})) <= {"1"}  # it may still be busy with the round before
    assert RunFolder(out).check()


def test_a_superlink_that_is_restarted_goes_on_from_the_checkpoint(
    nodes: Rehearsal, tmp_path: Path
) -> None:
    config, out = _config("fedavg", 3), tmp_path / "run"
    running = Background(lambda: nodes.run(config, _place(out), Progress()))
    wait_until(lambda: lines_of(out) >= 1, "a first round")
    assert nodes.network.link is not None
    (server,) = pids_of("flwr-serverapp", nodes.network.address)
    os.kill(server, signal.SIGSTOP)  # as slow to end as an app on a busy machine
    kill(nodes.network.link.pid)
    running.wait()
    assert isinstance(running.error, ProtocolError)
    assert "the SuperLink has ended" in str(running.error)
    waits: list[str] = []

    def waiting(text: str) -> None:
        waits.append(text)
        os.kill(server, signal.SIGCONT)

    again = _place(out, resume=True)
    done = nodes.run(config, again, Progress(note=waiting))  # starts another one
    assert waits == [f"waiting for whoever still writes to '{out}'"]
    assert done["state_hash"] == run(config, Place(tmp_path / "sequential"))["state_hash"]
