"""Clients' work taken from a folder instead of done again."""

from pathlib import Path
from typing import Any

import pytest

from fedcord.cli.main import main
from fedcord.core.errors import DataError
from fedcord.engine import node
from fedcord.engine import reuse as reuse_of_work
from fedcord.engine.requests import pack, unpack
from fedcord.engine.reuse import CHECKSUM, _checksum
from fedcord.engine.visits import do_visits
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run

SETTINGS: dict[str, Any] = {
    "algorithm": "fafi",
    "partition": "dirichlet:0.1",
    "clients": 3,
    "model": ("mlp:8",),
    "params": {"local": {"epochs": 2}, "checkpoints": 2},
}


def fafi(tmp_path: Path, name: str, reuse: bool, engine: str = "sequential", **params: Any) -> Any:
    config = load_config({**SETTINGS, "params": {**SETTINGS["params"], **params}})
    place = Place(tmp_path / name, engine, reuse=tmp_path / "work" if reuse else None)
    return run(config, place)


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Clients the sequential engine was asked to train."""
    asked: list[int] = []
    inner = do_visits

    def counted(algorithm: Any, task: Any, shared: Any, visits: Any) -> Any:
        asked.extend(visit.client for visit in visits)
        return inner(algorithm, task, shared, visits)

    monkeypatch.setattr(node, "do_visits", counted)
    return asked


def test_a_repeated_run_visits_nobody_and_gives_the_same_bits(
    tmp_path: Path, visits: list[int]
) -> None:
    plain = fafi(tmp_path, "plain", reuse=False)
    first = fafi(tmp_path, "first", reuse=True)
    del visits[:]
    again = fafi(tmp_path, "again", reuse=True)
    assert visits == []
    assert plain["state_hash"] == first["state_hash"] == again["state_hash"]
    assert again["bytes_up"] == plain["bytes_up"]


def test_a_disk_that_is_nearly_full_gets_no_more(
    tmp_path: Path, visits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse_of_work, "LEAVES_FREE", 2**80)
    first = fafi(tmp_path, "first", reuse=True)
    assert not list((tmp_path / "work").iterdir())
    del visits[:]
    assert fafi(tmp_path, "again", reuse=True)["state_hash"] == first["state_hash"]
    assert visits


def test_a_deep_head_takes_the_rounds_of_fedavg_over(tmp_path: Path, visits: list[int]) -> None:
    def played(algorithm: str, rounds: int, name: str, work: str | None) -> Any:
        local = {"epochs": 1}
        params = {"local": local} if algorithm == "fedavg" else {"inner": {"local": local}}
        values = {**SETTINGS, "algorithm": algorithm, "rounds": rounds, "params": params}
        place = Place(tmp_path / name, reuse=None if work is None else tmp_path / work)
        return run(load_config(values), place)

    alone = played("deep-head", 4, "alone", None)
    played("fedavg", 3, "fedavg", "work")
    del visits[:]
    over = played("deep-head", 4, "over", "work")
    assert len(visits) == SETTINGS["clients"]  # for their sums
    assert over["state_hash"] == alone["state_hash"]
    assert over["bytes_up"] == alone["bytes_up"]


def test_another_server_shares_the_work_and_equals_its_own_run(
    tmp_path: Path, visits: list[int]
) -> None:
    server = {"kind": "iffi", "noise_samples": 4}
    alone = fafi(tmp_path, "alone", reuse=False, server=server)
    fafi(tmp_path, "first", reuse=True)
    del visits[:]
    shared = fafi(tmp_path, "shared", reuse=True, server=server)
    assert visits == []
    assert shared["state_hash"] == alone["state_hash"]


@pytest.mark.parametrize(
    "changed",
    [{"local": {"epochs": 2, "lr": 0.01}}, {"server": {"kind": "lpa"}}, {"checkpoints": 1}],
)
def test_other_client_work_is_done_anew(
    tmp_path: Path, visits: list[int], changed: dict[str, Any]
) -> None:
    fafi(tmp_path, "first", reuse=True)
    del visits[:]
    fafi(tmp_path, "other", reuse=True, **changed)
    assert set(visits) == {0, 1, 2}


def test_another_seed_is_done_anew(tmp_path: Path, visits: list[int]) -> None:
    fafi(tmp_path, "first", reuse=True)
    del visits[:]
    config = load_config({**SETTINGS, "seed": 1})
    run(config, Place(tmp_path / "other", reuse=tmp_path / "work"))
    assert set(visits) == {0, 1, 2}


def test_only_what_is_missing_is_done(tmp_path: Path, visits: list[int]) -> None:
    fafi(tmp_path, "first", reuse=True)
    answers = sorted((tmp_path / "work").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    answers[-1].unlink()  # the last client of the last round
    del visits[:]
    again = fafi(tmp_path, "again", reuse=True)
    assert visits == [2]
    assert again["state_hash"] == fafi(tmp_path, "plain", reuse=False)["state_hash"]


def test_time_is_what_the_work_took_when_it_was_done(tmp_path: Path) -> None:
    fafi(tmp_path, "first", reuse=True)
    for path in (tmp_path / "work").iterdir():
        header, tensors = unpack(path.read_bytes()[:-CHECKSUM])
        content = pack({**header, "seconds": 100.0}, tensors)
        path.write_bytes(content + _checksum(path, content))
    again = fafi(tmp_path, "again", reuse=True)
    assert again["seconds"] >= 600  # three clients, two rounds


def test_processes_share_with_sequential(tmp_path: Path, visits: list[int]) -> None:
    by_processes = fafi(tmp_path, "first", reuse=True, engine="processes")
    again = fafi(tmp_path, "again", reuse=True)
    assert visits == []
    assert by_processes["state_hash"] == again["state_hash"]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    fafi(tmp_path, "first", reuse=True)
    broken = next(iter((tmp_path / "work").iterdir()))
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(DataError, match=broken.name):
        fafi(tmp_path, "again", reuse=True)


def test_one_flipped_bit_is_not_believed(tmp_path: Path) -> None:
    fafi(tmp_path, "first", reuse=True)
    broken = next(iter((tmp_path / "work").iterdir()))
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 1  # some weight
    broken.write_bytes(content)
    with pytest.raises(DataError, match=f"{broken.name}.*checksum is wrong.*delete it"):
        fafi(tmp_path, "again", reuse=True)


def test_a_file_under_anothers_name_is_not_believed(tmp_path: Path) -> None:
    fafi(tmp_path, "first", reuse=True)
    one, other, *_ = (tmp_path / "work").iterdir()
    one.write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=f"{one.name}.*checksum is wrong"):
        fafi(tmp_path, "again", reuse=True)


def test_other_threads_do_the_work_anew(tmp_path: Path, visits: list[int]) -> None:
    fafi(tmp_path, "first", reuse=True)
    del visits[:]
    config = load_config({**SETTINGS, "threads": 2})
    run(config, Place(tmp_path / "other", reuse=tmp_path / "work"))
    assert set(visits) == {0, 1, 2}


def test_another_version_does_the_work_anew(
    tmp_path: Path, visits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fafi(tmp_path, "first", reuse=True)
    del visits[:]
    monkeypatch.setattr("fedcord.experiment.engines.versions", lambda: {"fedcord": "0.0.0"})
    fafi(tmp_path, "other", reuse=True)
    assert set(visits) == {0, 1, 2}


def test_a_file_in_place_of_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").write_text("")
    code = main(["run", "fafi", "--reuse", str(tmp_path / "work"), "--out", str(tmp_path / "run")])
    assert code == 2
    assert "--reuse" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
