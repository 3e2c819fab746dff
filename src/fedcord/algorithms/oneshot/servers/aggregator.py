"""What every aggregator does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from fedcord.algorithms.oneshot.member import Member
from fedcord.core.contract import ClientId, Env, Scores
from fedcord.core.tensors import Tensors

Members = Mapping[ClientId, Member]
"""Uploads by client, in ascending order, each of at least one example."""


@dataclass(frozen=True)
class Common:
    """What all members had in common.

    Attributes:
        anchors: [C, D] the clients' anchors, or None where they have none.
        start: the encoder and prototypes they were first sent, named as in that message.
        learned: [C, D] the server's prototypes as they were sent back; None where they are not.
    """

    anchors: Tensor | None = None
    start: Tensors = field(default_factory=dict)
    learned: Tensor | None = None


class Aggregator(Protocol):
    """Fuses uploads once and answers with the result; a frozen object of options."""

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """Everything prediction needs, as named tensors.

        Args:
            members: the uploads.
            common: what they started from and went towards.
            env: the server's place.
        """
        ...

    def scores(self, result: Tensors, env: Env) -> Scores:
        """The fused model, ready to answer; see `Predictor`."""
        ...
