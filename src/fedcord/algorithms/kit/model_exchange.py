"""What all methods share whose clients send a whole model and whose server averages it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.combine import Combine
from fedcord.algorithms.kit.local_sgd import LocalSGD
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
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.task import Network, Task, tensors_of
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select, spec_of

MODEL = "model"
"""The prefix of a model's tensors in everything that is sent, and of a client's own in memory."""


@dataclass(frozen=True)
class AveragesModels(ABC):
    """The half of the contract that averaging methods have in common.

    A method is a final frozen dataclass that adds its parameters and `client_update`. Where it has
    traits of its own it adds them to `traits_of_averaging`. Where it aggregates by itself, it joins
    models by `self.combine`; where it announces that sums suffice, that holds as far as
    `self.combine.needs_only` says so.
    """

    _: KW_ONLY
    combine: Combine = param(Combine(), "how the server joins models", unwritten=True)
    finetune_epochs: int = param(
        0,
        "epochs in which every client trains the final model on its own data, for itself; 0: none",
        at_least=0,
        unwritten=True,
    )

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds."""
        return self.traits_of_averaging()

    def traits_of_averaging(self) -> Traits:
        """What the fields above decide."""
        return Traits(personalizes=self.finetune_epochs > 0)

    def review(self, task: Task) -> Review:
        """What the method's parts have to say, local training above all."""
        return review_of_parts(self, task) + fine_tuning_review(self)

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

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The final model after `finetune_epochs` on the client's own data, kept by the client."""
        network = env.task.network_with(self.model_of(shared, memory, env), env.client)
        fine_tune(self, network, data, env)
        return {**memory, **prefixed(MODEL, tensors_of(network))}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores and features of `model_of`, and `prototypes` beside them."""
        network = env.task.held_network(self.model_of(shared, memory, env), env.client)
        return network_predictor(network, self.prototypes(shared))

    def model_of(self, shared: Tensors, memory: Tensors, env: Env) -> Tensors:
        """The tensors that answer at a client, or on the server, where memory is empty."""
        return answering_model(shared, memory)

    def prototypes(self, shared: Tensors) -> Tensor | None:
        """[C, M, D] vectors of classes that the method holds; most hold none."""
        return None


def fine_tune(method: AveragesModels, network: nn.Module, data: ClientData, env: Env) -> None:
    """Train a client's copy of the final model in place, by cross-entropy, as `local` says.

    The schedule of `local` is one over rounds, which are over: its learning rate is used as it is.
    Batches come from the streams of the round after the last.
    """
    errors = fine_tuning_review(method).errors
    if errors:
        raise ConfigError(errors)
    local: LocalSGD = method.local  # type: ignore[attr-defined]  # reviewed
    tuning = replace(local, epochs=method.finetune_epochs, steps=None, schedule="constant")
    tuning.train(network, data.train, cross_entropy, replace(env, round=env.num_rounds))


def fine_tuning_review(method: AveragesModels) -> Review:
    """Whether a method that is to be fine-tuned says how to train."""
    local = getattr(method, "local", None)
    if method.finetune_epochs == 0 or isinstance(local, LocalSGD):
        return Review()
    wrong = (
        f"finetune_epochs = {method.finetune_epochs}: {type(method).__name__} does not say how to "
        "train; give it a field local: LocalSGD, or leave finetune_epochs at 0."
    )
    return Review(errors=(wrong,))


def answering_model(shared: Tensors, memory: Tensors) -> dict[str, Tensor]:
    """The model that all share, with what a client has of its own in its place."""
    return {**select(shared, MODEL), **select(memory, MODEL)}


def network_predictor(network: Network, prototypes: Tensor | None = None) -> Predictor:
    """What one network says, and what it makes of inputs beside prototypes [C, M, D]."""
    return Predictor(
        network, features=lambda inputs: FeatureView(network.features(inputs), prototypes)
    )


def first_network(env: Env) -> nn.Module:
    """The network all clients of one architecture start from, drawn anew by whoever needs it."""
    start = replace(env, round=0, client=None)
    return env.task.initial_network(start.generator("init"), env.client)


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
