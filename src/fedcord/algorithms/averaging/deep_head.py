"""Any averaging method, and at the end accord's exact head on the encoder it has learnt.

Reference: this library; the last round is that of accord with one encoder, the averaged network's.
As `exact-head`, but the head sees what accord's sees: pooled maps of the stages under the features
by `joint.layers`, lengths by `joint.scaling`, a public encoder beside it by `joint.public`. It is
the control that tells what of accord is its head and what its encoders.

Travels: as the inner method; in the last round down the model, up Gram matrix and moment of what
the head sees, with class counts. Stays: as with the inner method; samples and features.

| symbol | here |
|---|---|
| φ(x) | `joint` of the averaged network without its classifier, 1 |
| G = Σ φφ', Q = Σ φy' | `stats.gram`, `stats.moment` |
| W = (G + λI)⁻¹ Q | `head.weight` |

Deviations: none. What comes out is a head beside a network and not a network; the network's own
classifier stays as the inner method left it and is not asked.

Limits: all of the model has the bits of the inner method after n − 1 rounds. With
`joint.layers.maps=none` and `joint.scaling=none` it answers as `exact-head` does, to rounding. The
head is the ridge regression of the pooled samples of those who take part in the last round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.accord.head import Head
from fedcord.algorithms.accord.joint_features import CHOSEN, JointFeatures, packed_encoders
from fedcord.algorithms.analytic.closed_form import WEIGHT
from fedcord.algorithms.analytic.privacy import Privacy
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import (
    HasHeadRound,
    averaging_method,
    network_review,
)
from fedcord.algorithms.kit.encoder import without_head
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.core.contract import Env, Predictor, Review, ServerState, Update, Updates
from fedcord.core.errors import ConfigError, shown
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select

ONLY = 0
"""The place of the one encoder among accord's."""


@dataclass(frozen=True)
class DeepHead(HasHeadRound):
    """An averaging method with accord's head at its end."""

    of: str = param("fedavg", "the averaging method; its parameters are inner.…")
    joint: JointFeatures = param(JointFeatures(), "what the head sees")
    ridge: float | str = param("gcv", "λ >= 0, or gcv", at_least=0, choices=("gcv",))
    wire: str = param("packed64", "how sums travel", choices=FORMATS)
    inner: Any = param(
        FedAvg(), "the averaging method's parameters", named_by=("of", averaging_method)
    )

    head_round = "last"
    sees_features_only = False

    def __post_init__(self) -> None:
        check_params(self)
        self.check_inner()
        if self.inner.traits.personalizes:
            raise ConfigError(
                f"of = {shown(self.of)}: with these parameters every client has a model of its "
                "own, which the common head is not made for; use exact-head, or switch them off."
            )

    def review(self, task: Task) -> Review:
        """What the inner method needs, and what the head sees of its network."""
        seen = self.joint.review(task) + Review(notes=self.joint.unseen(task))
        return network_review(self, task) + seen

    def expected_sums(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums in the agreed format."""
        return self._head.expected_sums(as_encoder(shared, env), env)

    def client_sums(self, shared: Tensors, data: ClientData, env: Env) -> Update:
        """One pass over the samples, which are only ever added up."""
        return self._head.client_sums(as_encoder(shared, env), data.train, env).update

    def solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The ridge regression of everybody's samples, beside the network."""
        seen = ServerState(as_encoder(state.shared, env))
        _, result = self._head.solved(seen, updates, env)
        return state.next(state.shared, result=result)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The inner method's model until there is a head, which is everybody's."""
        if WEIGHT not in shared:
            made: Predictor = self.inner.predictor(shared, memory, self.inner_env(env))
            return made
        return self._head.predictor({**shared, **as_encoder(shared, env)}, {}, env)

    @property
    def _head(self) -> Head:
        return Head(self.joint, self.ridge, self.wire, Privacy(), personal=False)


def as_encoder(shared: Tensors, env: Env) -> dict[str, Tensor]:
    """The model in `shared` as accord's one and only encoder."""
    encoder = without_head(select(shared, MODEL), env.task.scratch_network())
    return {CHOSEN: torch.tensor([ONLY]), **packed_encoders({ONLY: encoder})}
