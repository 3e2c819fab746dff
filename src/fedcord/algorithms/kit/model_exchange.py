"""What all methods share whose clients send a whole model and whose server averages it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.combine import Combine
from fedcord.core.contract import (
    ClientResult,
    Env,
    FeatureView,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.task import Network, Task, tensors_of
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select, spec_of

MODEL = "model"
"""The prefix of a model's tensors in everything that is sent."""


@dataclass(frozen=True, kw_only=True)
class AveragesModels(ABC):
    """The half of the contract that averaging methods have in common.

    A method is a final frozen dataclass that adds its parameters and `client_update`. Where it
    aggregates by itself, it joins models by `self.combine`; where it announces that sums suffice,
    that holds as far as `self.combine.needs_only` says so.
    """

    combine: Combine = param(Combine(), "how the server joins models")

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds."""
        return Traits()

    def review(self, task: Task) -> Review:
        """What the method's parts have to say, local training above all."""
        return review_of_parts(self, task)

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, the same for every client."""
        return ServerState(shared=first_model(env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model like the one sent."""
        return model_spec(shared)

    @abstractmethod
    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training; see `received_model` and `model_update`."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The clients' models as one: their mean by numbers of examples, unless told otherwise."""
        return state.next(shared=self.combine.join(updates, state.shared))

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The global model's class scores and features, and `prototypes` beside them."""
        network = env.task.held_network(select(shared, MODEL), env.client)
        return network_predictor(network, self.prototypes(shared))

    def prototypes(self, shared: Tensors) -> Tensor | None:
        """[C, M, D] vectors of classes that the method holds; most hold none."""
        return None


def network_predictor(network: Network, prototypes: Tensor | None = None) -> Predictor:
    """What one network says, and what it makes of inputs beside prototypes [C, M, D]."""
    return Predictor(
        network, features=lambda inputs: FeatureView(network.features(inputs), prototypes)
    )


def first_model(env: Env) -> dict[str, Tensor]:
    """A freshly drawn model, as it is sent to every client."""
    network = env.task.initial_network(env.generator("init"))
    return prefixed(MODEL, tensors_of(network))


def model_spec(shared: Tensors) -> dict[str, TensorSpec]:
    """What a client must send that sends a model like the one received."""
    return spec_of(prefixed(MODEL, select(shared, MODEL)))


def received_model(shared: Tensors, env: Env) -> nn.Module:
    """The model in `shared` as a network of this process."""
    return env.task.network_with(select(shared, MODEL), env.client)


def model_update(network: nn.Module, data: ClientData, metrics: Mapping[str, float]) -> Update:
    """The update that sends a trained network, weighted by the examples it saw."""
    return Update(prefixed(MODEL, tensors_of(network)), weight=len(data.train), metrics=metrics)


def cross_entropy(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The plain classification loss, averaged over the batch."""
    return F.cross_entropy(network(inputs), labels)
