"""An averaging method with one round more, in which clients' sums make its classifier.

What is common to methods that put such a round before or after any method whose clients send
models: `of` names that method and `inner` holds its parameters. Its rounds are the very ones it
would have in a run with one round less, bit for bit. What comes out is usually a network again,
by `with_classifier`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fedcord.algorithms.kit.linear_head import Head, head_problem, with_head
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.algorithms.kit.trained_part import only_trained, trained_part
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
    Work,
)
from fedcord.core.errors import ConfigError, shown
from fedcord.core.examples import ClientData
from fedcord.core.params import build
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select


def averaging_method(name: str) -> Any:
    """The method of a name with its usual parameters."""
    return build(algorithm_class(name), ALGORITHMS[name].preset if name in ALGORITHMS else {})


class HasHeadRound(ABC):
    """The half of the contract that such methods have in common.

    A method is a final frozen dataclass that adds its parameters, `of` and `inner` among them,
    calls `check_inner` when it is made, and says what its round is.

    Attributes:
        of: name of the inner method.
        inner: that method.
        head_round: whether the classifier is made before or after its rounds.
        train: the part of the network that the inner method trains, see `kit.trained_part`.
        sees_features_only: whether the classifier sees inputs through the network's features alone.
    """

    of: str
    inner: Any
    head_round: Literal["first", "last"]
    train: str = "all"
    sees_features_only: bool = True

    def check_inner(self) -> None:
        """Refuse an inner method that is another than named, or that averages no models."""
        cls = algorithm_class(self.of)
        if type(self.inner) is not cls:
            raise ConfigError(
                f"of = {shown(self.of)}, but inner is a {type(self.inner).__name__}; give "
                f"inner={cls.__name__}(…) with it."
            )
        traits, again = self.inner.traits, isinstance(self.inner, HasHeadRound)
        if traits.rounds is not None or traits.keeps_own_models or again:
            raise ConfigError(
                f"of = {shown(self.of)}: must be a method that averages models over as many rounds "
                "as one likes, such as fedavg, fedprox or moon."
            )
        if traits.accounts_privacy:
            raise ConfigError(
                f"of = {shown(self.of)}: its noise would not cover the exact sums of features that "
                "make the classifier; switch the noise off, or use the method alone."
            )

    @abstractmethod
    def expected_sums(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """What a client must send in the round of the head."""

    @abstractmethod
    def client_sums(self, shared: Tensors, data: ClientData, env: Env) -> Update:
        """A client's sums over its samples' features, by the model in `shared`."""

    @abstractmethod
    def solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The state with the classifier that follows from everybody's sums."""

    @property
    def traits(self) -> Traits:
        """Those of the inner method that one round of sums does not change."""
        inner: Traits = self.inner.traits
        return Traits(
            looks_through_network=inner.looks_through_network and self.sees_features_only,
            personalizes=bool(inner.personalizes),
            stacks=bool(inner.stacks),
            shares_work=bool(inner.shares_work),
            sums_suffice=bool(inner.sums_suffice),
        )

    def review(self, task: Task) -> Review:
        """What the inner method needs, and a linear classifier to put the new one into."""
        return network_review(self, task)

    def is_head_round(self, env: Env) -> bool:
        """Whether clients send sums in the round of `env`."""
        return env.round == (0 if self.head_round == "first" else env.num_rounds - 1)

    def inner_env(self, env: Env) -> Env:
        """The same place in a run of the inner method alone, which has one round less."""
        count = max(env.num_rounds - 1, 1)
        round_ = env.round - 1 if self.head_round == "first" else min(env.round, count - 1)
        return dataclasses.replace(env, round=max(round_, 0), num_rounds=count)

    def init(self, env: Env) -> ServerState:
        """That of the inner method."""
        state: ServerState = self.inner.init(self.inner_env(env))
        return state

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums, or what the inner method wants."""
        if self.is_head_round(env):
            return self.expected_sums(shared, env)
        spec: Mapping[str, TensorSpec] = self.inner.expected_update(shared, self.inner_env(env))
        return spec

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Sums, which leave the memory as it is, or the inner method's work."""
        if self.is_head_round(env):
            with env.task.passes.of(env.client):
                return ClientResult(self.client_sums(shared, data, env), dict(memory))
        with only_trained(self.train, env.task.scratch_network(env.client)):
            done: ClientResult = self.inner.client_update(shared, memory, data, self.inner_env(env))
        return done

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """The inner method's rounds are its own bits; those that train a part only are not."""
        if self.is_head_round(env) or self.train != "all" or not self.inner.traits.shares_work:
            return None
        done: Work | None = self.inner.work(shared, self.inner_env(env))
        return done

    def can_stack(self, task: Task) -> bool:
        """Whether the inner method can train several clients in one go, which trains all."""
        return self.train == "all" and bool(self.inner.can_stack(task))

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """The same for several clients."""
        if self.is_head_round(envs[0]):
            everyone = zip(memories, datas, envs, strict=True)
            return [self.client_update(shared, *each) for each in everyone]
        places = [self.inner_env(env) for env in envs]
        done: list[ClientResult] = self.inner.client_updates(shared, memories, datas, places)
        return done

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The model with its new classifier, or what the inner method makes of updates."""
        if self.is_head_round(env):
            return self.solved(state, updates, env)
        after: ServerState = self.inner.aggregate(state, updates, self.inner_env(env))
        return after

    def needs_only(self, env: Env) -> Combination | None:
        """Sums, or what the inner method needs."""
        if self.is_head_round(env):
            return "sum"
        needs: Combination | None = self.inner.needs_only(self.inner_env(env))
        return needs

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The inner method's model for the client."""
        made: Tensors = self.inner.personalize(shared, memory, data, self.inner_env(env))
        return made

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The inner method's model; after the round of the head, with that classifier."""
        made: Predictor = self.inner.predictor(shared, memory, self.inner_env(env))
        return made


def network_review(method: HasHeadRound, task: Task) -> Review:
    """What the inner method needs, and of its network a classifier to replace."""
    found: Review = method.inner.review(task)
    network = task.scratch_network()
    wrong = head_problem(network, type(method).__name__)
    sent = select(method.inner.init(Env(task, seed=0)).shared, MODEL)
    if wrong is None and sent.keys() != network.state_dict().keys():
        wrong = (
            f"of = {shown(method.of)}: with these parameters its model is not the network itself "
            "(it has parts of its own), so its classifier cannot be replaced; switch them off."
        )
    if wrong is None and not trained_part(method.train, network):
        wrong = (
            f"train = '{method.train}': nothing but the classifier of {type(network).__name__} "
            "is ever trained; use train=classifier, or fed3r alone."
        )
    return found if wrong is None else found + Review(errors=(wrong,))


def with_classifier(state: ServerState, head: Head, env: Env) -> ServerState:
    """The state after the round of the head, with this one in its network."""
    return state.next(with_head(state.shared, head, env))
