from pathlib import Path

import pytest
import torch

from fedcord.core.contract import ServerState
from fedcord.core.errors import CheckpointError
from fedcord.store.checkpoint import Checkpoint, load_checkpoint, load_newest, save_checkpoint


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


def test_the_hash_covers_private_tensors_and_memories() -> None:
    one = _checkpoint(1)
    hashes = {
        one.hash,
        Checkpoint(one.state, {3: {"previous.w": torch.zeros(1)}}).hash,
        Checkpoint(ServerState(one.state.shared, {}, 1), one.memories).hash,
    }
    assert len(hashes) == 3
