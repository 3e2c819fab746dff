"""What the machine says of its memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedcord.core import machine


def test_a_container_may_use_less_than_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_CONTAINER_LIMITS", (limit,))
    whole = machine.memory_bytes()
    limit.write_text("max\n")
    assert machine.memory_bytes() == whole
    limit.write_text("4000000\n")
    assert machine.memory_bytes() == 4_000_000
    assert machine.data_limit() == 1_000_000


def test_a_system_that_does_not_say_is_taken_for_a_small_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_CONTAINER_LIMITS", ())
    monkeypatch.delattr(os, "sysconf")
    assert machine.memory_bytes() == 8 << 30
