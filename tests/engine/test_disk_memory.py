"""Memory on disk: by run, client and step; whole or absent; never taken for something else."""

import os
from pathlib import Path

import pytest
import torch

from fedcord.core.errors import CheckpointError, ProtocolError
from fedcord.core.tensors import Tensors, hash_tensors
from fedcord.engine.disk_memory import DiskMemory
from fedcord.engine.memory_store import InProcessMemory, MemoryStore

RUN = "5c0ffee-1"


def _memory(value: float) -> Tensors:
    return {"kept": torch.tensor(value), "more.rows": torch.arange(6).reshape(2, 3)}


def _value(store: MemoryStore, client: int, step: int) -> float | None:
    found = store.before(client, step)
    return float(found["kept"]) if found else None


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_process_finds_what_another_left(tmp_path: Path) -> None:
    DiskMemory(tmp_path, RUN).keep(1, 0, _memory(10))
    found = DiskMemory(tmp_path, RUN).before(1, 1)
    assert hash_tensors(found) == hash_tensors(_memory(10))
    assert _files(tmp_path) == [f"{RUN}/client-1/step-000000.safetensors"]


def test_it_answers_as_memory_in_a_process_does(tmp_path: Path) -> None:
    stores: list[MemoryStore] = [InProcessMemory(), DiskMemory(tmp_path, RUN)]
    seen = []
    for store in stores:
        told: list[object] = [store.before(0, 0)]
        for client, step, value in [(0, 0, 1), (0, 3, 2), (2, 3, 7), (0, 3, 2), (0, 4, 3)]:
            store.keep(client, step, _memory(value))
            told.append([_value(store, 0, later) for later in range(step, step + 2)])
        store.keep(0, 3, _memory(5))  # a server that went back
        told += [_value(store, 0, 4), _value(store, 0, 9), store.newest_step(0)]
        store.keep(3, 0, {})
        store.keep(2, 4, {})
        told += [store.newest_step(2), store.newest_step(3), store.before(2, 5)]
        store.drop(0)
        store.drop(9)
        told += [store.newest_step(0), store.before(0, 9)]
        seen.append(told)
    assert seen[0] == seen[1]


def test_secrets_of_a_masked_round_are_found_again_and_are_their_owners_only(
    tmp_path: Path,
) -> None:
    assert DiskMemory(tmp_path, RUN).session(1) == b""
    for session in (b"first", b"second"):
        DiskMemory(tmp_path, RUN).keep_session(1, session)
    store = DiskMemory(tmp_path, RUN)
    assert store.session(1) == b"second"
    assert (store.session(0), DiskMemory(tmp_path, "other").session(1)) == (b"", b"")
    assert store.newest_step(1) is None
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.stat().st_mode & 0o777 == 0o600
    store.drop(1)
    assert store.session(1) == b""
    assert _files(tmp_path) == []


def test_a_step_that_is_asked_for_again_changes_nothing(tmp_path: Path) -> None:
    store = DiskMemory(tmp_path, RUN)
    store.keep(0, 4, _memory(4))
    store.keep(0, 5, _memory(5))
    files = _files(tmp_path)
    store.keep(0, 5, _memory(5))
    assert _files(tmp_path) == files
    assert [_value(store, 0, step) for step in (5, 6)] == [4, 5]


def test_what_is_gone_is_missed_with_words(tmp_path: Path) -> None:
    for step in range(4):
        DiskMemory(tmp_path, RUN).keep(0, step, _memory(step))
    store = DiskMemory(tmp_path, RUN)
    assert _value(store, 0, 3) == 2
    with pytest.raises(CheckpointError, match=r"steps \[2, 3\], but .* before step 2; start"):
        store.before(0, 2)


def test_runs_do_not_see_each_other(tmp_path: Path) -> None:
    DiskMemory(tmp_path, "one").keep(0, 0, _memory(1))
    other = DiskMemory(tmp_path, "two")
    assert other.before(0, 1) == {}
    other.drop(0)
    assert _value(DiskMemory(tmp_path, "one"), 0, 1) == 1


@pytest.mark.parametrize("run", ["", "..", "a/b", "/etc", "-rf", "x" * 129, "a\n"])
def test_a_run_cannot_lead_out_of_the_folder(tmp_path: Path, run: str) -> None:
    with pytest.raises(ProtocolError, match="cannot be the identity of a run"):
        DiskMemory(tmp_path, run)


def test_a_killed_writer_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskMemory(tmp_path, RUN)
    for step in (1, 2):
        store.keep(0, step, _memory(step))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.keep(0, 3, _memory(3))
    monkeypatch.undo()
    again = DiskMemory(tmp_path, RUN)
    assert [_value(again, 0, step) for step in (2, 3, 4)] == [1, 2, 2]


@pytest.mark.parametrize("damage", ["cut", "flipped", "swapped", "empty"])
def test_a_damaged_file_is_named_never_used(tmp_path: Path, damage: str) -> None:
    store = DiskMemory(tmp_path, RUN)
    store.keep(0, 0, _memory(1))
    store.keep(1, 0, _memory(2))
    path = tmp_path / RUN / "client-0" / "step-000000.safetensors"
    content = path.read_bytes()
    damaged = {
        "cut": content[:-3],
        "flipped": content[:-1] + bytes([content[-1] ^ 1]),
        "swapped": (tmp_path / RUN / "client-1" / path.name).read_bytes(),
        "empty": b"",
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(CheckpointError, match=r"client-0/step-000000\.safetensors.*start the run"):
        store.before(0, 1)
