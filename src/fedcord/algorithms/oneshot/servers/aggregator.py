"""What every aggregator does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from fedcord.algorithms.oneshot.member import Member
from fedcord.core.contract import ClientId, Env, Scores
from fedcord.core.tensors import Tensors

Members = Mapping[ClientId, Member]
"""Uploads by client, in ascending order, each of at least one example."""


class Aggregator(Protocol):
    """Fuses uploads once and answers with the result; a frozen object of options."""

    def fuse(self, members: Members, anchors: Tensor | None, env: Env) -> dict[str, Tensor]:
        """Everything prediction needs, as named tensors.

        Args:
            members: the uploads.
            anchors: [C, D] the clients' common anchors, or None where they have none.
            env: the server's place.
        """
        ...

    def scores(self, result: Tensors, env: Env) -> Scores:
        """The fused model, ready to answer; see `Predictor`."""
        ...
