"""Algorithms that are each wrong in one way, to show that every check can fail."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy, received_model
from fedcord.core.contract import ClientResult, Env, Review, ServerState, Traits, Update, Updates
from fedcord.core.errors import DataError, NumericalError
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed
from fedcord.ops.weighted_mean import weighted_mean
from tests.checks.registered import QUICK
from tests.checks.sound import Keeper, NearestMean, Plain


def scaled(result: ClientResult, factor: float) -> ClientResult:
    """The same result with all real tensors of its update multiplied."""
    tensors = {
        name: tensor * factor if tensor.is_floating_point() else tensor
        for name, tensor in result.update.tensors.items()
    }
    return replace(result, update=replace(result.update, tensors=tensors))


def with_tensor(result: ClientResult, name: str, tensor: Tensor) -> ClientResult:
    tensors = {**result.update.tensors, name: tensor}
    return replace(result, update=replace(result.update, tensors=tensors))


# --- declaration ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PersonalizesInWordsOnly(NearestMean):
    """Announces a verb that is spelt otherwise."""

    traits = Traits(rounds=1, additive=True, personalizes=True)

    def personalise(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        return memory


@dataclass(frozen=True)
class KeepsRulesToItself(NearestMean):
    """Has a verb that nobody would ever call."""

    def predict_by_rules(
        self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env
    ) -> Mapping[str, Tensor]:
        return {"nearest": self.predict(shared, memory, inputs, env)}


@dataclass(frozen=True)
class HalfStacked(NearestMean):
    """Has one of the two verbs that it announces."""

    traits = Traits(rounds=1, additive=True, stacks=True)

    def can_stack(self, task: Task) -> bool:
        return False


@dataclass(frozen=True)
class LetsTraitsBeSet(NearestMean):
    """Its traits would be a parameter, because they have a type."""

    traits: Traits = Traits(rounds=1, additive=True)  # noqa: RUF009 - the mistake itself


@dataclass(frozen=True)
class DeclaresByDictionary(NearestMean):
    """Its traits have no fixed names, so any misspelling would do."""

    traits = {"rounds": 1, "aditive": True}  # type: ignore[assignment]  # noqa: RUF012


@dataclass(frozen=True)
class ReviewsInPlainText(NearestMean):
    """Returns a text, of which nobody knows whether it is an error."""

    def review(self, task: Task) -> Review:
        return "all is well"  # type: ignore[return-value]


@dataclass(frozen=True)
class ReviewsWithoutComma(NearestMean):
    """Returns a text where a tuple of texts was meant."""

    def review(self, task: Task) -> Review:
        return Review(errors="too few classes")  # type: ignore[arg-type]


@dataclass(frozen=True)
class RefusesTheTask(NearestMean):
    """Cannot be checked here, and says so."""

    def review(self, task: Task) -> Review:
        return Review(errors=("it needs at least 1000 classes.",))


# --- purity ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountsCalls(Plain):
    """Hides a counter on the object."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        calls = getattr(self, "_calls", 0) + 1
        object.__setattr__(self, "_calls", calls)
        return scaled(super().client_update(shared, memory, data, env), 1 + 1e-3 * calls)


@dataclass(frozen=True)
class DrawsGlobally(Plain):
    """Moves a global generator, and does not even use the number."""

    library: str = "torch"

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        draws = {"torch": torch.rand, "numpy": np.random.rand, "random": random.random}
        draw: Any = draws[self.library]
        draw(1) if self.library == "torch" else draw()
        return super().aggregate(state, updates, env)


@dataclass(frozen=True)
class SeedsGlobally(Plain):
    """Seeds the global generator, as scripts do."""

    def init(self, env: Env) -> ServerState:
        torch.manual_seed(0)
        return super().init(env)


@dataclass(frozen=True)
class IgnoresSeed(Plain):
    """Always the same draws, whatever the run's seed."""

    def init(self, env: Env) -> ServerState:
        return super().init(replace(env, seed=0))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return super().client_update(shared, memory, data, replace(env, seed=0))


@dataclass(frozen=True)
class EditsShared(Plain):
    """Uses the received tensors as its own."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        shared["model.head.bias" if "model.head.bias" in shared else min(shared)].mul_(0.9)
        return result


@dataclass(frozen=True)
class EditsData(Plain):
    """Augments the client's data where it lies."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        data.train.inputs.add_(1)
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class EditsUpdates(Plain):
    """Sums into the first update that arrives."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = list(updates)
        after = super().aggregate(state, iter(held), env)
        for _, update in held[:1]:
            update.tensors[min(update.tensors)].zero_()
        return after


@dataclass(frozen=True)
class BorrowsNetwork(Plain):
    """Returns the weights of the network that the next client will train."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        network = received_model(shared, env)
        self.local.train(network, data.train, cross_entropy, env)
        tensors = {name: tensor.detach() for name, tensor in network.state_dict().items()}
        return ClientResult(Update(prefixed("model", tensors), weight=len(data.train)))


# --- aggregation ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LastWins(Plain):
    """Keeps what came last."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        *_, (_, last) = updates
        return state.next({name: tensor.clone() for name, tensor in last.tensors.items()})


@dataclass(frozen=True)
class WeighsOneTooMany(Plain):
    """Divides by one example more than there are."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = list(updates)
        weight = sum(update.weight for _, update in held)
        mean = weighted_mean((update.tensors, update.weight) for _, update in held)
        share = weight / (weight + 1)
        return state.next({n: t * share if t.is_floating_point() else t for n, t in mean.items()})


@dataclass(frozen=True)
class MeanOfMeans(NearestMean):
    """Calls itself additive, and averages class means over clients."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        count = result.update.tensors["class.count"]
        mean = result.update.tensors["class.sum"] / count.clamp(min=1)[:, None]
        return with_tensor(
            with_tensor(result, "class.sum", mean), "class.count", (count > 0).float()
        )


@dataclass(frozen=True)
class MedianCalledMean(Plain):
    """Says that the mean of models is enough, and takes their median."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = [update.tensors for _, update in updates]
        return state.next({n: torch.stack([t[n] for t in held]).median(0)[0] for n in held[0]})


# --- clients --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpreadOfOne(NearestMean):
    """Sends a standard deviation that one example does not have."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        own = {"data.spread": TensorSpec((), torch.float32)}
        return {**super().expected_update(shared, env), **own}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        inputs = env.task.prepare(data.train.inputs).flatten(1).mean(1)
        spread = ((inputs - inputs.mean()).square().sum() / (len(inputs) - 1)).sqrt()
        result = super().client_update(shared, memory, data, env)
        return with_tensor(result, "data.spread", spread)

    traits = Traits(rounds=1)


@dataclass(frozen=True)
class DividesByZero(Plain):
    """Crashes on a client with one example."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        return replace(
            result, update=replace(result.update, metrics={"rate": 1 / (len(data.train) - 1)})
        )


@dataclass(frozen=True)
class FailsOnNothing(NearestMean):
    """Asks an empty tensor for its largest value."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        assert int(data.train.labels.max()) < env.task.num_classes
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class RefusesNothing(NearestMean):
    """Not broken: says clearly that it cannot work without examples."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        if not len(data.train):
            raise DataError(f"client {env.client} holds no example; leave it out.")
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class RaggedPrototypes(NearestMean):
    """Sends rows of the classes a client has, and nothing of others."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        size = torch.Size(env.task.input_shape).numel()
        spec = TensorSpec((size,), torch.float32)
        return {f"proto.{number}": spec for number in range(env.task.num_classes)}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        inputs, labels = env.task.prepare(data.train.inputs).flatten(1), data.train.labels
        rows = {
            f"proto.{number}": inputs[labels == number].mean(0)
            for number in range(env.task.num_classes)
            if bool((labels == number).any())
        }
        return ClientResult(Update(rows, weight=len(labels)))

    def init(self, env: Env) -> ServerState:
        specs = self.expected_update({}, env)
        return ServerState({name: torch.zeros(spec.shape) for name, spec in specs.items()})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        sums: dict[str, Tensor] = {}
        weight: dict[str, float] = {}
        for _, update in updates:
            for name, row in update.tensors.items():
                sums[name] = sums.get(name, torch.zeros_like(row)) + update.weight * row
                weight[name] = weight.get(name, 0.0) + update.weight
        return state.next({**state.shared, **{n: t / weight[n] for n, t in sums.items()}})

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        rows = torch.stack([shared[f"proto.{n}"] for n in range(env.task.num_classes)])
        return -torch.cdist(inputs.flatten(1), rows)

    traits = Traits(rounds=1)


@dataclass(frozen=True)
class SendsGraph(NearestMean):
    """Forgets to detach, so that the update drags its graph along."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        total = result.update.tensors["class.sum"].clone().requires_grad_()
        return with_tensor(result, "class.sum", total * 1)


# --- state ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VelocityOnObject(Keeper):
    """Keeps the server's momentum on itself; right until the process ends."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        past = {**getattr(self, "_past", {}), -1: state.private}
        hidden = past.get(env.round - 1, {n: torch.zeros_like(t) for n, t in state.private.items()})
        after = super().aggregate(replace(state, private=hidden), updates, env)
        object.__setattr__(self, "_past", {**past, env.round: after.private})
        return replace(after, private=state.private)


@dataclass(frozen=True)
class ForgetsRound(Plain):
    """Returns a state that does not say how far it is."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        return ServerState(super().aggregate(state, updates, env).shared)


@dataclass(frozen=True)
class KnowsItself(Plain):
    """Tells clients something through the object, which only one process shares."""

    def init(self, env: Env) -> ServerState:
        object.__setattr__(self, "_factor", 0.99)
        return super().init(env)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        return scaled(result, getattr(self, "_factor", 1.0))


# --- limits ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PullsAtZero(FedProx):
    """Has a floor under its weight."""

    local: LocalSGD = param(QUICK, "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        wired = FedProx(max(self.proximal_weight, 0.1), self.local)
        return wired.client_update(shared, memory, data, env)

    def can_stack(self, task: object) -> bool:
        return False


@dataclass(frozen=True)
class NeverPulls(FedProx):
    """Reads its weight nowhere."""

    local: LocalSGD = param(QUICK, "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return FedProx(0.0, self.local).client_update(shared, memory, data, env)

    def can_stack(self, task: object) -> bool:
        return False


# --- secrets --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SendsPrivate(Plain):
    """Puts the server's secret into the next message, within a larger tensor."""

    def init(self, env: Env) -> ServerState:
        state = super().init(env)
        secret = torch.rand(5, generator=env.generator("secret"))
        return ServerState({**state.shared, "hint": torch.zeros(7)}, {"secret": secret})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        after = super().aggregate(state, updates, env)
        hint = torch.cat([torch.zeros(1), state.private["secret"], torch.zeros(1)])
        return replace(after, shared={**after.shared, "hint": hint})


@dataclass(frozen=True)
class ProbesAloud(Plain):
    """Calls every round but the last a probe, and lets clients learn from it."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, probes=True)

    def is_probe(self, env: Env) -> bool:
        return env.round + 1 < env.num_rounds


@dataclass(frozen=True)
class SendsMemory(Plain):
    """Reveals what a client was to keep, in another precision."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        own = {"diary": TensorSpec((4,), torch.float64)}
        return {**super().expected_update(shared, env), **own}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        own = memory.get("own", torch.rand(4, generator=env.generator("own")))
        return replace(with_tensor(result, "diary", own.double()), memory={"own": own})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        after = super().aggregate(state, updates, env)
        return replace(after, shared={n: t for n, t in after.shared.items() if n != "diary"})


# --- prediction -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PredictsInTraining(Plain):
    """Normalises every batch by itself; tidies up after."""

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        network = received_model(shared, env).train()
        with torch.no_grad():
            scores: Tensor = network(inputs)
        network.eval()
        return scores


@dataclass(frozen=True)
class LeavesTrainingMode(Plain):
    """Predicts well, and leaves a trap for whoever uses the network next."""

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        scores = super().predict(shared, memory, inputs, env)
        env.task.scratch_network(env.client).train()
        return scores


@dataclass(frozen=True)
class PredictsLabels(NearestMean):
    """Returns labels where scores are expected."""

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        return super().predict(shared, memory, inputs, env).argmax(1)


# --- learning and refusal -------------------------------------------------------------------------


@dataclass(frozen=True)
class NeverTrains(Plain):
    """Sends back what it received."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        copies = {name: tensor.clone() for name, tensor in shared.items()}
        return ClientResult(Update(copies, weight=len(data.train)))


class AnySpec(TensorSpec):
    """Agrees with every shape and type."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = TensorSpec.__hash__


@dataclass(frozen=True)
class AgreesToAnything(NearestMean):
    """Says it expects whatever arrives; a doubled tensor is folded in without a word."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        agreed = super().expected_update(shared, env)
        return {name: AnySpec(spec.shape, spec.dtype) for name, spec in agreed.items()}

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        fitting = (
            (client, replace(update, tensors=self._folded(update.tensors, state.shared)))
            for client, update in updates
        )
        return super().aggregate(state, fitting, env)

    def _folded(self, tensors: Tensors, like: Tensors) -> Tensors:
        return {
            name: tensor.reshape(-1)[: like[name].numel()].reshape(like[name].shape)
            for name, tensor in tensors.items()
        }


@dataclass(frozen=True)
class SwallowsErrors(Plain):
    """Goes on when nobody could be heard."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        try:
            return super().aggregate(state, updates, env)
        except NumericalError:
            return state.next(state.shared)


# --- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeedsEverybody(Plain):
    """Takes it for granted that client 1 is there."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        everybody = dict(updates)
        everybody[1]
        return super().aggregate(state, iter(everybody.items()), env)
