"""Memory is found by the step that left it."""

import pytest
import torch

from fedcord.core.errors import CheckpointError
from fedcord.engine.memory_store import InProcessMemory


def _memory(value: float) -> dict[str, torch.Tensor]:
    return {"kept": torch.tensor(value)}


def _value(store: InProcessMemory, client: int, step: int) -> float | None:
    found = store.before(client, step)
    return float(found["kept"]) if found else None


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_step_sees_what_earlier_ones_left(as_bytes: bool) -> None:
    store = InProcessMemory(as_bytes)
    assert _value(store, 0, 0) is None
    store.keep(0, 0, _memory(10))
    store.keep(0, 3, _memory(13))
    assert [_value(store, 0, step) for step in range(5)] == [None, 10, 10, 10, 13]
    assert store.newest_step(0) == 3


def test_a_step_done_again_sees_what_it_saw_and_undoes_later_ones() -> None:
    store = InProcessMemory()
    store.keep(0, 0, _memory(10))
    store.keep(0, 1, _memory(11))
    assert _value(store, 0, 1) == 10
    store.keep(0, 1, _memory(11))
    assert _value(store, 0, 2) == 11
    store.keep(0, 0, _memory(20))  # a server that went back to the beginning
    assert _value(store, 0, 2) == 20


def test_what_was_dropped_is_missed_with_words_never_taken_for_nothing() -> None:
    store = InProcessMemory()
    for step in range(4):
        store.keep(0, step, _memory(step))
    assert _value(store, 0, 3) == 2  # this step and the one before are kept
    with pytest.raises(CheckpointError, match=r"left by steps \[2, 3\].*step 2"):
        store.before(0, 2)


def test_clients_that_never_kept_anything_take_no_place() -> None:
    store = InProcessMemory()
    store.keep(0, 0, {})
    assert store.newest_step(0) is None
    store.keep(1, 0, _memory(1))
    store.keep(1, 1, {})
    assert store.newest_step(1) == 1
    assert store.before(1, 2) == {}
    store.drop(1)
    assert store.newest_step(1) is None
