"""Models of which a part stays with the client: what is sent, what is kept, and how both meet.

Until a client has trained, its part is that of the model everybody starts from, which each draws
from the run's seed, so that it need never be sent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import replace

import torch
from torch import nn

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    answering_model,
    fine_tuning_review,
    first_network,
)
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Review,
    ServerState,
    Traits,
    Update,
)
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.task import Task, tensors_of
from fedcord.core.tensors import Tensors, prefixed, select, spec_of

VISITED = "visited"
"""In the memory of a client that has taken part and keeps no tensor of the network."""


class KeepsPartOfModel(AveragesModels):
    """The half of the contract of methods that average a part of a network.

    A method is a final frozen dataclass that adds its parameters, `kept` and `client_update`. There
    is no common model: the server's test is the mean over the clients that have taken part, each
    with the current common part and its own.
    """

    @abstractmethod
    def kept(self, network: nn.Module) -> Set[str]:
        """Names of the tensors that stay with the client."""

    @property
    def traits(self) -> Traits:
        """Every client has its own model."""
        suffice = self.combine.needs_only is not None
        return replace(self.traits_of_averaging(), keeps_own_models=True, sums_suffice=suffice)

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of what clients send, unless it is joined by a robust rule."""
        return self.combine.needs_only

    def review(self, task: Task) -> Review:
        """Whether something is shared, and the same by all networks."""
        networks = [task.scratch_network(place) for place in range(len(task.networks))]
        parts = [without(network.state_dict(), self.kept(network)) for network in networks]
        return review_of_parts(self, task) + fine_tuning_review(self) + shared_part_review(parts)

    def init(self, env: Env) -> ServerState:
        """The common part of a freshly drawn model."""
        network = first_network(env)
        return ServerState(prefixed(MODEL, without(tensors_of(network), self.kept(network))))

    def model_of(self, shared: Tensors, memory: Tensors, env: Env) -> Tensors:
        """The common part and the client's own; what neither holds is as it was drawn."""
        found = answering_model(shared, memory)
        missing = env.task.scratch_network(env.client).state_dict().keys() - found.keys()
        drawn = tensors_of(first_network(env)) if missing else {}
        return {**found, **{name: drawn[name] for name in missing}}

    def train_together(
        self, local: LocalSGD, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Both parts train as one network, as FedAvg's clients train theirs."""
        start = prefixed(MODEL, self.model_of(shared, memory, env))
        done = train_received(local, start, [data], [env])[0].update
        return self.result(select(done.tensors, MODEL), data, env, done.metrics)

    def result(
        self, trained: Tensors, data: ClientData, env: Env, metrics: Mapping[str, float]
    ) -> ClientResult:
        """Sends the common part of a trained model and keeps the rest."""
        kept = self.kept(env.task.scratch_network(env.client))
        sent = prefixed(MODEL, without(trained, kept))
        own = prefixed(MODEL, {name: trained[name] for name in trained if name in kept})
        return ClientResult(Update(sent, len(data.train), metrics), own or {VISITED: torch.ones(1)})


def without(tensors: Tensors, names: Set[str]) -> Tensors:
    """All tensors but those."""
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def head_names(network: nn.Module) -> Set[str]:
    """Of the last layer's tensors."""
    head = head_prefix(network)
    return {name for name in network.state_dict() if name.startswith(head)}


def shared_part_review(parts: list[Tensors]) -> Review:
    """Whether the parts of all networks that are to be averaged exist and agree."""
    if not all(parts):
        wrong = (
            "all layers of this network stay with the clients, so nothing would be shared; choose "
            "a network with trained layers below, such as --model mlp:64."
        )
        return Review(errors=(wrong,))
    if any(spec_of(part) != spec_of(parts[0]) for part in parts):
        wrong = (
            "the layers to be averaged differ between the networks given; choose networks that "
            "agree in them, or give --model once."
        )
        return Review(errors=(wrong,))
    return Review()
