"""Every engine gives the same bits."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.core.contract import Update
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.tensors import hash_tensors
from fedcord.engine import processes
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.processes import START, ProcessesExecutor, _Pace, worker_count
from fedcord.engine.rounds import Schedule, finish_clients, run_rounds
from fedcord.engine.sequential import SequentialExecutor
from fedcord.engine.visit import Executor, Job
from fedcord.engine.wire import WireExecutor
from fedcord.engine.worker import evaluation_request
from tests import federation

SETTINGS = {
    "stacked": (FedAvg(LocalSGD(lr=0.1)), federation.VECTOR),
    "pulled": (FedProx(0.1, LocalSGD(lr=0.1, momentum=0.5)), federation.VECTOR),
    "resnet": (FedAvg(LocalSGD(augment="standard")), federation.IMAGE),
}
SIZES = (40, 25, 1, 60, 3, 17, 90, 33)


def _outcome(executor: Executor, setting: str) -> tuple[str, list[Evaluation | None], object]:
    algorithm, values = SETTINGS[setting]
    env, evaluations = federation.env(values), []
    state = run_rounds(
        algorithm,
        executor,
        env,
        algorithm.init(env),
        Schedule(3, lambda r: [k for k in range(len(SIZES)) if k % 3 != r]),
        lambda state, record: evaluations.append(record.evaluation),
    )
    local = finish_clients(algorithm, executor, state, 0, range(len(SIZES)))
    return hash_tensors(state.shared), evaluations, local


@pytest.mark.parametrize("setting", SETTINGS)
def test_wire_and_processes_equal_sequential(setting: str) -> None:
    algorithm, values = SETTINGS[setting]
    people, plan = federation.population(values, SIZES), federation.blueprint(algorithm, values)
    expected = _outcome(SequentialExecutor(algorithm, federation.task(values), people), setting)
    assert _outcome(WireExecutor(plan, people), setting) == expected
    pool = ProcessesExecutor(plan, people, workers=2)
    try:
        assert _outcome(pool, setting) == expected
    finally:
        pool.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessesExecutor]:
    algorithm, values = SETTINGS["stacked"]
    executor = ProcessesExecutor(
        federation.blueprint(algorithm, values), federation.population(values, SIZES), workers=2
    )
    yield executor
    executor.close()


def _job() -> Job:
    algorithm, values = SETTINGS["stacked"]
    return Job("update", algorithm.init(federation.env(values)).shared, 0, 1, 0)


def test_answers_come_in_client_order_and_an_early_stop_does_no_harm(
    pool: ProcessesExecutor,
) -> None:
    everyone = range(len(SIZES))
    first = next(iter(pool.map_clients(_job(), everyone)))  # the generator is dropped here
    assert first[0] == 0
    assert [client for client, _ in pool.map_clients(_job(), everyone)] == list(everyone)


def test_the_window_bounds_how_far_workers_run_ahead(pool: ProcessesExecutor) -> None:
    started: list[int] = []

    def request(units: Sequence[int]) -> bytes:
        started.extend(units)
        return evaluation_request([(0, 1, None)] * len(units), {})

    pool._broadcast(_job())
    costs = [1] * 30 + [1000] * 10
    taken = 0
    for _ in pool._schedule(costs, 4, request, lambda units, body: list(units)):
        assert max(started) < taken + 1 + 4
        taken += 1
    assert taken == 40
    assert sorted(started) == list(range(40))


def test_the_largest_unit_in_the_window_starts_first(pool: ProcessesExecutor) -> None:
    started: list[int] = []

    def request(units: Sequence[int]) -> bytes:
        started.extend(units)
        return evaluation_request([(0, 1, None)] * len(units), {})

    pool._broadcast(_job())
    costs = [3, 1, 9, 2, 7]
    for _ in pool._schedule(costs, 5, request, lambda units, body: list(units)):
        pass
    assert started[:2] == [2, 4]


def test_short_work_travels_in_few_messages_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "MESSAGE_SECONDS", 1e9)  # all of it counts as short
    algorithm, values = FedAvg(LocalSGD(optimizer="adam")), federation.VECTOR  # one by one
    people = federation.population(values, (3, 1, 2) * 40)
    everyone = range(people.num_clients)
    task = federation.task(values)
    job = Job("update", algorithm.init(federation.env(values)).shared, 0, 1, 0)
    expected = list(SequentialExecutor(algorithm, task, people).map_clients(job, everyone))
    pool = ProcessesExecutor(federation.blueprint(algorithm, values), people, workers=2)
    sent: list[bytes] = []
    write = pool._write

    def noted(connection: Connection, message: bytes) -> None:
        sent.append(message)
        write(connection, message)

    monkeypatch.setattr(pool, "_write", noted)
    try:
        found = list(pool.map_clients(job, everyone))
    finally:
        pool.close()
    assert len([message for message in sent if message[:1] == b"V"]) < len(everyone) / 2
    assert [client for client, _ in found] == list(everyone)
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert isinstance(one, Update)
        assert isinstance(other, Update)
        assert hash_tensors(one.tensors) == hash_tensors(other.tensors)
        assert (one.weight, one.metrics) == (other.weight, other.metrics)


def test_a_message_holds_what_takes_a_moment_and_leaves_work_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "MESSAGE_SECONDS", 1.0)

    def waiting() -> list[tuple[int, int]]:
        return [(-10, unit) for unit in range(60)]

    assert _Pace().take(waiting(), 2) == [0]  # nobody knows yet how long it takes
    assert _Pace(cost=100, seconds=2.0).take(waiting(), 2) == [0, 1, 2, 3, 4]
    assert _Pace(cost=1000, seconds=1.0).take(waiting(), 2) == list(range(10))  # 3 for each of 2
    assert _Pace(cost=1, seconds=1.0).take(waiting(), 2) == [0]  # long work goes one by one
    assert _Pace(cost=1000, seconds=1.0).take([(-1, 7)], 2) == [7]


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
    executor = ProcessesExecutor(federation.blueprint(algorithm, values), people, workers=2)
    executor.close()
    assert names == [0]


def test_a_worker_that_dies_is_an_error_with_words_and_the_others_end() -> None:
    algorithm, values = SETTINGS["stacked"]
    executor = ProcessesExecutor(
        federation.blueprint(algorithm, values), federation.population(values, SIZES), workers=2
    )
    workers = list(executor._processes)
    os.kill(workers[0].pid, signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(ProtocolError, match="a worker process ended with code -9"):
        list(executor.map_clients(_job(), range(len(SIZES))))
    executor.close()
    assert all(process.poll() is not None for process in workers)


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path.cwd())!r})\n"
        "from tests import federation\n"
        "from fedcord.algorithms.averaging.fedavg import FedAvg\n"
        "from fedcord.engine.processes import ProcessesExecutor\n"
        "e = ProcessesExecutor(federation.blueprint(FedAvg()), federation.population(), 1)\n"
        "print(e._processes[0].pid, flush=True)\n"
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
    (folder / "fedcord" / "engine").mkdir(parents=True)
    wait = WAITS.format(mark=str(folder / "importing"))
    (folder / "fedcord" / "engine" / "worker.py").write_text(wait)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", START], stdin=subprocess.PIPE, pass_fds=[theirs.fileno()]
        )
        start = {"descriptor": theirs.fileno(), "data": 0, "path": [str(folder), *sys.path]}
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
        ProcessesExecutor(local, federation.population(), 1)
