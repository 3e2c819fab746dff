from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedcord.core.contract import ServerState
from fedcord.core.errors import CheckpointError
from fedcord.core.tensors import encode
from fedcord.store.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_final,
    load_newest,
    save_checkpoint,
    save_personal,
)


def _checkpoint(round_: int) -> Checkpoint:
    state = ServerState(
        {"model.w": torch.full((2, 3), float(round_))},
        {"momentum": torch.ones(2)},
        round_,
        {"member.0": torch.ones(1)},
    )
    return Checkpoint(state, {3: {"previous.w": torch.ones(1)}, 11: {}})


def test_everything_comes_back(tmp_path: Path) -> None:
    saved = _checkpoint(7)
    save_checkpoint(tmp_path, saved, "hash")
    loaded = load_newest(tmp_path, "hash")
    assert loaded is not None
    assert loaded.hash == saved.hash
    assert loaded.state.round == 7
    assert loaded.state.private.keys() == {"momentum"}
    assert loaded.state.model.keys() == {"model.w", "member.0"}
    assert loaded.memories.keys() == {3, 11}


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for round_ in (1, 2, 3, 12):
        save_checkpoint(tmp_path, _checkpoint(round_), "hash")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["round-000003.safetensors", "round-000012.safetensors"]
    assert load_newest(tmp_path / "nowhere", "hash") is None


@pytest.mark.parametrize("damage", ["truncated", "flipped", "text", "empty"])
def test_a_damaged_checkpoint_is_refused_with_words(tmp_path: Path, damage: str) -> None:
    save_checkpoint(tmp_path, _checkpoint(1), "hash")
    path = next(tmp_path.iterdir())
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        data = data[:-5]
    elif damage == "flipped":
        data[-1] ^= 0xFF
    elif damage == "text":
        data = bytearray(b"not a checkpoint at all")
    else:
        data = bytearray()
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"remove this file"):
        load_newest(tmp_path, "hash")


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, _checkpoint(1), "one")
    with pytest.raises(CheckpointError, match="belongs to another configuration"):
        load_newest(tmp_path, "two")
    assert load_checkpoint(next(tmp_path.iterdir())).state.round == 1


def test_checkpoints_sort_as_numbers(tmp_path: Path) -> None:
    for round_ in (999_998, 999_999, 1_000_000):
        save_checkpoint(tmp_path, _checkpoint(round_), "hash")
    loaded = load_newest(tmp_path, "hash")
    assert loaded is not None
    assert loaded.state.round == 1_000_000
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"round-999999.safetensors", "round-1000000.safetensors"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"round":"7"', b'"round":"6"'),
        (b'"clients":"[3, 11]"', b'"clients":"[3, 13]"'),
        (b'"metrics":"abc"', b'"metrics":"abd"'),
        (b"checkpoint-2", b"checkpoint-1"),
    ],
)
def test_what_a_checkpoint_says_of_itself_is_verified(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    save_checkpoint(tmp_path, replace(_checkpoint(7), metrics="abc"), "hash")
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    with pytest.raises(CheckpointError, match="does not have the content it was written with"):
        load_checkpoint(path)


def test_a_checkpoint_of_the_version_before_is_read(tmp_path: Path) -> None:
    saved = _checkpoint(7)
    manifest = {
        "schema": "fedcord-checkpoint-1",
        "config_hash": "hash",
        "round": "7",
        "clients": "[3, 11]",
        "hash": saved.hash,
    }
    (tmp_path / "round-000007.safetensors").write_bytes(encode(saved.tensors(), manifest))
    loaded = load_newest(tmp_path, "hash")
    assert loaded is not None
    assert loaded.hash == saved.hash
    assert loaded.metrics == ""


def test_a_file_in_place_of_the_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(NotADirectoryError, match="Not a directory"):
        load_newest(tmp_path / "checkpoints", "hash")


def test_personal_models_come_back_verified(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    save_checkpoint(tmp_path / "checkpoints", _checkpoint(7), "hash")
    save_personal(tmp_path, {3: {"w": torch.ones(2)}}, "hash")
    final = load_final(tmp_path, "hash")
    assert final is not None
    assert final.memories[3]["w"].tolist() == [1.0, 1.0]
    assert final.state.round == 7
    path = tmp_path / "personal.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(CheckpointError, match="remove the run folder and run again"):
        load_final(tmp_path, "hash")
    path.unlink()
    assert load_final(tmp_path, "hash") is not None


def test_the_hash_covers_private_tensors_and_memories() -> None:
    one = _checkpoint(1)
    hashes = {
        one.hash,
        Checkpoint(one.state, {3: {"previous.w": torch.zeros(1)}}).hash,
        Checkpoint(ServerState(one.state.shared, {}, 1), one.memories).hash,
    }
    assert len(hashes) == 3
