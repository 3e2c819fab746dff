"""Algorithms whose answers depend on what they must not, or are none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.kit.model_exchange import MODEL, received_model
from fedcord.core.contract import (
    Env,
    FeatureView,
    Predictor,
)
from fedcord.core.task import HeldNetwork, load_into
from fedcord.core.tensors import Tensors, select
from tests.checks.sound import NearestMean, Plain


@dataclass(frozen=True)
class PredictsInTraining(Plain):
    """Normalises every batch by itself."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        network = env.task.scratch_network(env.client)
        return Predictor(HeldNetwork(network, select(shared, MODEL), training=True))


@dataclass(frozen=True)
class LeavesTrainingMode(Plain):
    """Predicts well, and leaves a trap for whoever uses the network next."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        good = super().predictor(shared, memory, env)

        def scores(inputs: Tensor) -> Tensor:
            found = good.scores(inputs)
            env.task.scratch_network(env.client).train()
            return found

        return Predictor(scores)


@dataclass(frozen=True)
class PredictsLabels(NearestMean):
    """Returns labels where scores are expected."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        good = super().predictor(shared, memory, env)
        return Predictor(lambda inputs: good.scores(inputs).argmax(1))


@dataclass(frozen=True)
class BorrowsToPredict(Plain):
    """Keeps the network that the next one who needs it will fill."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        return Predictor(torch.no_grad()(received_model(shared, env)))


@dataclass(frozen=True)
class PredictsWithGraph(Plain):
    """Loads a network of its own and records what it does."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        network = env.task.networks[0](None)
        load_into(network, select(shared, MODEL))
        return Predictor(network.eval())


@dataclass(frozen=True)
class CountsAnotherRule(NearestMean):
    """What it gives alone is not the rule it names first."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        good = super().predictor(shared, memory, env)

        def scores_by_rule(inputs: Tensor) -> dict[str, Tensor]:
            scores = good.scores(inputs)
            return {"farthest": -scores, "nearest": scores}

        return replace(good, scores_by_rule=scores_by_rule)


@dataclass(frozen=True)
class ShowsOneFeature(NearestMean):
    """Shows a number where a vector of features is expected."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        good = super().predictor(shared, memory, env)
        return replace(good, features=lambda x: FeatureView(x.flatten(1).sum(1), None))


@dataclass(frozen=True)
class ShowsPrototypesFlat(NearestMean):
    """Forgets that there may be several prototypes of a class."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        good, mean = super().predictor(shared, memory, env), shared["class.mean"]
        return replace(good, features=lambda x: FeatureView(x.flatten(1), mean))


@dataclass(frozen=True)
class ShowsTheBatch(NearestMean):
    """Centres features by the batch they come in."""

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        def view(inputs: Tensor) -> FeatureView:
            x = inputs.flatten(1)
            return FeatureView(x - x.mean(0), None)

        return replace(super().predictor(shared, memory, env), features=view)
