"""What one-shot baselines share: one model down, cross-entropy at clients, one model up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_model, model_spec
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.core.contract import (
    ClientId,
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Updates,
    Work,
)
from fedcord.core.errors import ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.params import plain
from fedcord.core.parts import review_of_parts
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select

ONE_SHOT = LocalSGD(epochs=60, batch_size=64, lr=0.05, momentum=0.9)
"""Long local training, with the budget of FAFI's clients, so that methods compare."""


FUSED = "fused"
"""The prefix of the one model that some servers make."""


@dataclass(frozen=True)
class Upload:
    """What one client sent.

    Attributes:
        tensors: by name, `model.*` among them.
        size: training examples.
    """

    tensors: Tensors
    size: float

    @property
    def model(self) -> dict[str, Tensor]:
        """The tensors of its network."""
        return select(self.tensors, MODEL)


Uploads = Mapping[ClientId, Upload]
"""In ascending order of clients."""


class SendsOnce(ABC):
    """The half of the contract that methods with one exchange of models have in common.

    A method is a final frozen dataclass that adds its parameters, `local` among them, and `fuse`
    and `predictor`. One with another `client_update` has another `client_settings`, too.
    """

    local: LocalSGD

    @property
    def traits(self) -> Traits:
        """One round."""
        return Traits(rounds=1, stacks=True, shares_work=True)

    def review(self, task: Task) -> Review:
        """What the method's parts have to say, local training above all."""
        return review_of_parts(self, task)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What decides clients' work; methods that only fuse differently do it once for all."""
        return training_settings(self.local)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """All that is received, and `client_settings`."""
        return Work(self.client_settings, shared)

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, the same for every client."""
        return ServerState(shared=first_model(env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model like the one sent."""
        return model_spec(shared)

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy."""
        return self.client_updates(shared, [memory], [data], [env])[0]

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """The same for several clients, in one go where they can stack."""
        return train_received(self.local, shared, datas, envs)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """What `fuse` makes of the uploads becomes the result; clients are sent nothing more."""
        uploads = {client: Upload(u.tensors, u.weight) for client, u in updates if u.weight > 0}
        if not uploads:
            raise ProtocolError("no client trained on an example; at least one is needed.")
        uploads = {client: uploads[client] for client in sorted(uploads)}
        return state.next(shared=state.shared, result=self.fuse(state, uploads, env))

    @abstractmethod
    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """Everything prediction needs, from the state before and the uploads."""

    @abstractmethod
    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The model that the result holds, ready to answer."""


def training_settings(local: LocalSGD, **more: Any) -> dict[str, Any]:
    """What decides the work of clients that train on cross-entropy, and what differs in it."""
    return {"procedure": "cross-entropy once", "local": plain(local), **more}


def fused_predictor(shared: Tensors, env: Env) -> Predictor:
    """The one model a server made, held as `fused.*`."""
    return Predictor(env.task.held_network(select(shared, FUSED)))


def upload_weights(uploads: Uploads, weighting: str) -> list[float]:
    """Shares of the examples (`size`) or equal shares (`uniform`); their sum is 1."""
    sizes = [upload.size if weighting == "size" else 1.0 for upload in uploads.values()]
    total = sum(sizes)
    return [size / total for size in sizes]
