"""What all methods share whose clients exchange prototypes, with their models (†) or without.

Without, every client keeps the model it trains. All start from the same weights, which each draws
from the run's seed for its own architecture, so that no model is ever sent.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_network
from fedcord.algorithms.prototype.local_work import (
    current_model,
    feature_dims,
)
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.core.contract import (
    ClientId,
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
from fedcord.core.examples import ClientData
from fedcord.core.task import Task, tensors_of
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select, spec_of
from fedcord.ops.vectors import nearest_scores
from fedcord.ops.weighted_mean import weighted_mean

EXCHANGES = ("prototypes", "both")
EXCHANGE = "what travels: prototypes alone, or models too (the † form)"
BY_PROTOTYPES, BY_CLASSIFIER = "prototypes", "classifier"
"""Names of the two ways to answer."""


@dataclass(frozen=True)
class Upload:
    """What one client sent beside its model, as the server sees it.

    Attributes:
        client: its number.
        size: its training examples.
        tensors: all that is not the model.
    """

    client: ClientId
    size: float
    tensors: Tensors


class ExchangesPrototypes(ABC):
    """The half of the contract that prototype methods have in common.

    A method is a final frozen dataclass that adds its parameters, `exchange` and `local` among
    them, and the abstract verbs below.
    """

    exchange: str
    local: LocalSGD

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds, and whether models stay with the clients."""
        own = self.exchange == "prototypes"
        return Traits(keeps_own_models=own)

    @property
    def rules(self) -> tuple[str, str]:
        """Ways to answer, the one that counts first."""
        if self.traits.keeps_own_models:
            return BY_PROTOTYPES, BY_CLASSIFIER
        return BY_CLASSIFIER, BY_PROTOTYPES

    def review(self, task: Task) -> Review:
        """Networks whose features cannot be compared, and what local training has to say."""
        return self.local.review(task) + comparable_features(task)

    def init(self, env: Env) -> ServerState:
        """What the method starts from, and a freshly drawn model where models are exchanged."""
        start = self.first_knowledge(env)
        if self.traits.keeps_own_models:
            return start
        model = prefixed(MODEL, tensors_of(first_network(env)))
        return replace(start, shared={**model, **start.shared})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """What the method asks for, and a model like the one sent, if one was."""
        return {**spec_of(prefixed(MODEL, select(shared, MODEL))), **self.asked_for(env)}

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The models' mean where models are exchanged, and what `learn` makes of the rest."""
        model, uploads = self.read(state, updates)
        uploads = sorted(uploads, key=lambda upload: upload.client)
        learnt = self.learn(state, uploads, env)
        return replace(learnt, shared={**model, **learnt.shared})

    def read(self, state: ServerState, updates: Updates) -> tuple[Tensors, list[Upload]]:
        """The mean of the models by numbers of examples, and the uploads without models."""
        uploads: list[Upload] = []

        def models() -> Iterator[tuple[Tensors, float]]:
            for client, update in updates:
                uploads.append(without_model(client, update))
                if update.weight > 0:
                    yield select(update.tensors, MODEL), update.weight

        return mean_model(state, models()), uploads

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The global or the client's own model beside the global prototypes.

        It answers by the nearest prototype and by the network's classifier.
        """
        network = env.task.held_network(current_model(shared, memory, env), env.client)
        known, rules = self.known(shared).to(env.task.device), self.rules
        values, held = known.values, known.held

        def scores_by_rule(inputs: Tensor) -> dict[str, Tensor]:
            features = network.features(inputs)
            scores = {
                BY_PROTOTYPES: nearest_scores(features, values, held),
                BY_CLASSIFIER: network.classify(features),
            }
            return {rule: scores[rule] for rule in rules}

        table = values.where(held[:, None], torch.nan)[:, None]
        return Predictor(
            lambda inputs: scores_by_rule(inputs)[rules[0]],
            scores_by_rule,
            lambda inputs: FeatureView(network.features(inputs), table),
        )

    @abstractmethod
    def first_knowledge(self, env: Env) -> ServerState:
        """The state before the first round, without a model."""

    @abstractmethod
    def asked_for(self, env: Env) -> dict[str, TensorSpec]:
        """What clients send beside their model."""

    @abstractmethod
    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local work; see `prototype.local_work`."""

    @abstractmethod
    def learn(self, state: ServerState, uploads: Sequence[Upload], env: Env) -> ServerState:
        """The next state, without a model, from uploads in ascending order of clients."""

    @abstractmethod
    def known(self, shared: Tensors) -> Prototypes:
        """The prototypes that examples are compared with, from `ServerState.model`."""


def comparable_features(task: Task) -> Review:
    """Whether prototypes of all the task's networks can be compared."""
    dims = feature_dims(task)
    if len(set(dims)) == 1:
        return Review()
    found = ", ".join(f"network {place} has {dim}" for place, dim in enumerate(dims, start=1))
    wrong = (
        f"prototypes need features of one length in all networks, but {found}; choose networks "
        "that end alike, such as --model mlp:64 --model mlp:128-64 --model cnn,fc=64."
    )
    return Review(errors=(wrong,))


def without_model(client: ClientId, update: Update) -> Upload:
    """What an update holds beside the model."""
    rest = {n: t for n, t in update.tensors.items() if not n.startswith(f"{MODEL}.")}
    return Upload(client, update.weight, rest)


def mean_model(state: ServerState, weighted: Iterator[tuple[Tensors, float]]) -> dict[str, Tensor]:
    """The mean of models with positive weights; the one of `state` when there is none."""
    first = next(weighted, None)
    if first is None or not first[0]:
        for _ in weighted:  # read all the same: uploads are collected on the way
            pass
        return prefixed(MODEL, select(state.shared, MODEL))
    return prefixed(MODEL, weighted_mean(itertools.chain([first], weighted)))
