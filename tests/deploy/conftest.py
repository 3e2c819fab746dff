"""Real SuperLinks and SuperNodes; started once where several tests can share them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcord.flower.rehearsal import Rehearsal, rehearsal

CLIENTS = 4


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A SuperLink and four SuperNodes that rehearse with digits."""
    root = tmp_path_factory.mktemp("deployed") / "runs"
    with rehearsal(root, CLIENTS, simulated=False, modules=Path.cwd()) as local:
        yield local
