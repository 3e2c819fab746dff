"""Every engine gives the same bits."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.tensors import hash_tensors
from fedcord.engine.child import START
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.patience import Patience
from fedcord.engine.requests import Parcel, Reply, Request
from fedcord.engine.rounds import Schedule, finish_clients, run_rounds
from fedcord.engine.transports import processes
from fedcord.engine.transports.processes import WORKER, ProcessesTransport, _Queue, worker_count
from fedcord.engine.transports.wire import WireTransport
from fedcord.engine.transports.worker import PARCELS
from fedcord.metrics.sums import Evaluation
from tests import federation

SETTINGS = {
    "stacked": (FedAvg(LocalSGD(lr=0.1)), federation.VECTOR),
    "pulled": (FedProx(0.1, LocalSGD(lr=0.1, momentum=0.5)), federation.VECTOR),
    "resnet": (
        FedAvg(LocalSGD(augment="standard")),
        {**federation.IMAGE, "test_views": "mirror"},
    ),
}
SIZES = (40, 25, 1, 60, 3, 17, 90, 33)


def _outcome(reached: Federation, setting: str) -> tuple[str, list[Evaluation | None], object]:
    algorithm, values = SETTINGS[setting]
    env, evaluations = federation.env(values), []
    state = run_rounds(
        algorithm,
        reached,
        env,
        algorithm.init(env),
        Schedule(3, lambda r: [k for k in range(len(SIZES)) if k % 3 != r]),
        lambda state, record: evaluations.append(record.evaluation),
    )
    local = finish_clients(algorithm, reached, state, 0, range(len(SIZES)))
    return hash_tensors(state.shared), evaluations, local


@pytest.mark.parametrize("setting", SETTINGS)
def test_wire_and_processes_equal_sequential(setting: str) -> None:
    algorithm, values = SETTINGS[setting]
    people, plan = federation.population(values, SIZES), federation.blueprint(algorithm, values)
    expected = _outcome(federation.sequential(algorithm, federation.task(values), people), setting)
    assert _outcome(Federation(WireTransport.rebuilding(plan, people)), setting) == expected
    with contextlib.closing(ProcessesTransport(plan, people, workers=2)) as workers:
        assert _outcome(Federation(workers), setting) == expected


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessesTransport]:
    algorithm, values = SETTINGS["stacked"]
    plan, people = federation.blueprint(algorithm, values), federation.population(values, SIZES)
    people = dataclasses.replace(people, names={1: "Köln"})
    with contextlib.closing(ProcessesTransport(plan, people, workers=2)) as workers:
        yield workers


def _request() -> Request:
    algorithm, values = SETTINGS["stacked"]
    return Request("update", algorithm.init(federation.env(values)).shared)


def _clients(answers: Iterator[Reply | Missing]) -> list[int | None]:
    return [answer.client for answer in answers]


def test_answers_come_in_client_order_and_an_early_stop_does_no_harm(
    pool: ProcessesTransport,
) -> None:
    everyone, reached = range(len(SIZES)), Federation(pool)
    first = next(reached.ask(_request(), everyone, "training"))  # the generator is dropped here
    assert first.client == 0
    assert reached.said(1) == "client 'Köln' (1)"
    assert _clients(reached.ask(_request(), everyone, "training")) == list(everyone)


def test_after_the_deadline_the_slow_are_late_and_their_answers_are_not_taken_for_others(
    pool: ProcessesTransport,
) -> None:
    everyone = range(len(SIZES))
    hurried = Federation(pool)
    hurried.patience = Patience(deadline=0.0)
    late = list(hurried.ask(_request(), everyone, "training"))
    assert {answer.outcome for answer in late if isinstance(answer, Missing)} == {"late"}
    assert _clients(iter(late)) == list(everyone)
    patient = Federation(pool)
    answers = list(patient.ask(_request(), everyone, "training"))
    assert all(isinstance(answer, Reply) for answer in answers)
    assert patient.take_events() == ()


def _order(costs: list[int], window: int, nodes: list[int | None] | None = None) -> list[int]:
    """In which order one worker would take parcels, answering each at once."""
    homes = nodes or [None] * len(costs)
    queue = _Queue([Parcel(node=n, cost=c) for c, n in zip(costs, homes, strict=True)], window, 2)
    taken: list[int] = []
    while places := queue.take(0):
        taken += places
        queue.answered(places, 1.0)
    return taken


def test_the_window_bounds_how_far_workers_run_ahead() -> None:
    queue = _Queue([Parcel(cost=c) for c in [1] * 30 + [1000] * 10], window=4, workers=2)
    assert [queue.take(0) for _ in range(5)] == [[0], [1], [2], [3], []]
    queue.answered([2], 1.0)
    assert queue.take(0) == []  # the first is still open
    queue.answered([0], 1.0)
    assert queue.take(0) == [4]


def test_the_most_expensive_parcel_in_the_window_starts_first() -> None:
    assert _order([3, 1, 9, 2, 7], window=5) == [2, 4, 0, 3, 1]


def test_a_parcel_with_a_home_waits_for_it() -> None:
    assert _order([3, 1, 9, 2, 7], 5, [None, 0, 1, None, 0]) == [4, 0, 3, 1]


def test_short_work_travels_together_and_leaves_some_for_the_others() -> None:
    queue = _Queue([Parcel(cost=10) for _ in range(100)], window=1000, workers=2)
    assert len(queue.take(0)) == 1  # nothing is known yet
    queue.answered([0], 0.001)
    assert len(queue.take(0)) == 16  # a sixth of what waits
    slow = _Queue([Parcel(cost=10) for _ in range(100)], window=1000, workers=2)
    slow.take(0)
    slow.answered([0], 0.01)
    assert len(slow.take(0)) == 3  # as much as 0.03 seconds


def test_short_work_travels_in_few_messages_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "MESSAGE_SECONDS", 1e9)  # all of it counts as short
    algorithm, values = FedAvg(LocalSGD(optimizer="adam")), federation.VECTOR  # one by one
    people = federation.population(values, (3, 1, 2) * 40)
    everyone, sent = range(people.num_clients), list[bytes]()
    request = Request("update", algorithm.init(federation.env(values)).shared)
    alone = federation.sequential(algorithm, federation.task(values), people)
    plan = federation.blueprint(algorithm, values)
    with contextlib.closing(ProcessesTransport(plan, people, workers=2)) as workers:
        write = workers._write

        def noted(connection: Connection, message: bytes) -> int:
            sent.append(message)
            return write(connection, message)

        reached = Federation(workers)
        monkeypatch.setattr(workers, "_write", noted)
        found = list(reached.ask(request, everyone, "training"))
    assert len([message for message in sent if message[:1] == PARCELS]) < len(everyone) / 2
    for one, other in zip(found, alone.ask(request, everyone, "training"), strict=True):
        assert isinstance(one, Reply)
        assert isinstance(other, Reply)
        assert (one.client, one.values) == (other.client, other.values)
        assert hash_tensors(one.tensors) == hash_tensors(other.tensors)


@pytest.mark.parametrize(("asked", "started"), [(None, 3), (1, 1), (3, 3), (1000, 3)])
def test_there_are_never_more_workers_than_cores(
    asked: int | None, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 5}, raising=False)
    assert worker_count(asked) == started


@pytest.mark.parametrize("asked", [0, -3])
def test_fewer_workers_than_one_are_refused(asked: int) -> None:
    with pytest.raises(ConfigError, match=f"workers = {asked}: must be at least 1"):
        worker_count(asked)


def test_the_shared_data_never_has_a_name_that_could_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[int] = []
    real = tempfile.TemporaryFile

    def noted(**where: Any) -> IO[bytes]:
        file: IO[bytes] = real(**where)
        names.append(os.fstat(file.fileno()).st_nlink)
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    algorithm, values = SETTINGS["stacked"]
    people = federation.population(values, SIZES)
    ProcessesTransport(federation.blueprint(algorithm, values), people, workers=2).close()
    assert names == [0]


def test_a_worker_that_dies_is_an_error_with_words_and_the_others_end() -> None:
    algorithm, values = SETTINGS["stacked"]
    workers = ProcessesTransport(
        federation.blueprint(algorithm, values), federation.population(values, SIZES), workers=2
    )
    reached, started = Federation(workers), [child.process for child in workers._children]
    os.kill(started[0].pid, signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(ProtocolError, match="a worker process ended with code -9"):
        list(reached.ask(_request(), range(len(SIZES)), "training"))
    workers.close()
    assert all(process.poll() is not None for process in started)


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path.cwd())!r})\n"
        "from tests import federation\n"
        "from fedcord.algorithms.averaging.fedavg import FedAvg\n"
        "from fedcord.engine.transports.processes import ProcessesTransport\n"
        "e = ProcessesTransport(federation.blueprint(FedAvg()), federation.population(), 1)\n"
        "print(e._children[0].process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run(
        [os.sys.executable, str(script)],  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
        check=False,
    )
    pid = int(parent.stdout)
    deadline = time.monotonic() + 10
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


WAITS = "import pathlib, time\npathlib.Path({mark!r}).touch()\ntime.sleep(600)\n"


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], socket.socket, dict[str, Any]]:
    """A worker that finds a package which waits while it is imported, as PyTorch does."""
    place = folder / "fedcord" / "engine" / "transports"
    place.mkdir(parents=True)
    wait = WAITS.format(mark=str(folder / "importing"))
    (place / "worker.py").write_text(wait)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", START], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()]
        )
        start = {"descriptor": theirs.fileno(), "path": [str(folder), *sys.path]}
        start |= {"module": WORKER, "more": {"data": 0}}
    return process, ours, start


def test_a_worker_whose_parent_ends_while_it_imports_ends_at_once(tmp_path: Path) -> None:
    process, ours, start = _started(tmp_path)
    try:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(start).encode() + b"\n")
        deadline = time.monotonic() + 60
        while not (tmp_path / "importing").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.01)
        ours.close()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_worker_whose_parent_never_spoke_imports_nothing(tmp_path: Path) -> None:
    process, ours, start = _started(tmp_path)
    try:
        assert process.stdin is not None
        with ours, process.stdin as stdin:
            stdin.write(json.dumps(start).encode()[:20])
        assert process.wait(timeout=60) == 0
        assert not (tmp_path / "importing").exists()
    finally:
        process.kill()
        process.wait()


def test_classes_that_workers_cannot_import_are_refused_early() -> None:
    from fedcord.engine.blueprint import Blueprint

    local = Blueprint("__main__:Mine", {}, "x:y", {})
    with pytest.raises(ConfigError, match="Mine is defined in a script"):
        ProcessesTransport(local, federation.population(), 1)
