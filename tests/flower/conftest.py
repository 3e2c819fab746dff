"""What Flower says of a process that works for a run, and no waiting."""

from __future__ import annotations

import pytest
from flwr.supercore.task_identity import TaskIdentity

from fedcord.flower import transport


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(transport, "SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr(transport, "LONGEST_PAUSE", 0.0)
    monkeypatch.setattr(transport, "ROLL_SECONDS", 0.0)
