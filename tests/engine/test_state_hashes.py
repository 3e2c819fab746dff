"""Every registered method ends with the bits of the table of record."""

from __future__ import annotations

import json

import pytest

from fedcord.algorithms.registry import ALGORITHMS
from tests.engine.state_hashes import TABLE, machine, state_hash

RECORDED = json.loads(TABLE.read_text())


def test_the_table_holds_every_registered_name() -> None:
    assert set(RECORDED["hashes"]) == set(ALGORITHMS)


@pytest.mark.skipif(
    machine() != RECORDED["machine"],
    reason=f"recorded with {RECORDED['machine']}; bits may differ with {machine()}",
)
@pytest.mark.parametrize("engine", ["sequential", "wire"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_short_run_ends_with_the_recorded_bits(name: str, engine: str) -> None:
    assert state_hash(name, engine) == RECORDED["hashes"][name]
