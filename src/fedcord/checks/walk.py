"""Every verb of an algorithm called by hand, round by round, with all that went in and came out.

The engines do the same; here nothing stands between a check and the algorithm, so that a check can
look at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast

from torch import Generator, Tensor

from fedcord.core.contract import (
    Algorithm,
    ClientId,
    ClientResult,
    Env,
    Personalizes,
    ServerState,
    TrainsStacked,
)
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, prefixed
from fedcord.engine.population import Population
from fedcord.store.checkpoint import Checkpoint

T = TypeVar("T")


class Around(Protocol):
    """What a check does at every call: it must return what `call` returns."""

    def __call__(self, place: str, inputs: Mapping[str, Any], call: Callable[[], T]) -> T:
        """`place` names the verb, round and client; `inputs` are the call's arguments by name."""
        ...


@dataclass(frozen=True)
class RecordingEnv(Env):
    """An Env that notes the purposes of the random streams asked for."""

    asked: set[str] = field(default_factory=set, compare=False)

    def generator(self, purpose: str) -> Generator:
        """The random stream of (seed, purpose, round, client)."""
        self.asked.add(purpose)
        return super().generator(purpose)


@dataclass(frozen=True)
class Step:
    """One round: the server's place, its state before, clients' memories before, and results."""

    env: Env
    before: ServerState
    memories: Mapping[ClientId, Tensors]
    results: Mapping[ClientId, ClientResult]
    after: ServerState
    scores: Tensor  # [B, C] of the server's test set


@dataclass(frozen=True)
class Walk:
    """All rounds, and the memories personalisation left (empty for methods without it)."""

    start: ServerState
    steps: list[Step]
    personal: Mapping[ClientId, Tensors]

    @property
    def memories(self) -> dict[ClientId, Tensors]:
        """What each client holds in the end."""
        last = self.steps[-1]
        kept = {client: result.memory for client, result in last.results.items()}
        return {**kept, **self.personal}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that came out of any call, under names that say where."""
        out = prefixed("init", Checkpoint(self.start, {}).tensors())
        for step in self.steps:
            place = f"round {step.env.round}"
            for client, result in step.results.items():
                here = f"{place}, client {client}"
                out |= prefixed(f"{here}, update", result.update.tensors)
                out |= prefixed(f"{here}, memory", result.memory)
            out |= prefixed(f"{place}, aggregate", Checkpoint(step.after, {}).tensors())
            out[f"{place}, predictor"] = step.scores
        for client, memory in self.personal.items():
            out |= prefixed(f"personalize, client {client}", memory)
        return out


def just_call(place: str, inputs: Mapping[str, Any], call: Callable[[], T]) -> T:
    """The `Around` that only calls."""
    return call()


def walk(
    algorithm: Algorithm, population: Population, env: Env, around: Around = just_call
) -> Walk:
    """Run `env.num_rounds` rounds over all clients that hold training data.

    Args:
        algorithm: whose verbs are called.
        population: the clients.
        env: the server's place before the first round.
        around: called in place of every verb.
    """
    caller = _Caller(algorithm, around)
    datas = {
        client: population.client(client)
        for client, size in enumerate(population.train_sizes)
        if size > 0
    }
    inputs = env.task.prepare(population.test.inputs).to(env.task.device)
    memories: dict[ClientId, Tensors] = {client: {} for client in datas}
    start = state = around("init", {}, lambda: algorithm.init(env))
    steps: list[Step] = []
    for round_ in range(env.num_rounds):
        here = replace(env, round=round_)
        results = {
            client: caller.update(state.shared, memories[client], data, here.at(client))
            for client, data in datas.items()
        }
        caller.stacked(state.shared, memories, datas, here)
        after = caller.aggregate(state, results, here)
        scores = caller.scores(after.model, inputs, here)
        steps.append(Step(here, state, memories, results, after, scores))
        state = after
        memories = {client: result.memory for client, result in results.items()}
    last = steps[-1].env
    personal = {
        client: caller.personalize(state.model, memories[client], data, last.at(client))
        for client, data in datas.items()
        if algorithm.traits.personalizes
    }
    return Walk(start, steps, personal)


@dataclass(frozen=True)
class _Caller:
    """Calls verbs through an `Around`."""

    algorithm: Algorithm
    around: Around

    def update(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> ClientResult:
        return self.around(
            f"client_update (round {env.round}, client {env.client})",
            {"shared": shared, "memory": memory, "data": data},
            lambda: self.algorithm.client_update(shared, memory, data, env),
        )

    def stacked(
        self,
        shared: Tensors,
        memories: Mapping[ClientId, Tensors],
        datas: Mapping[ClientId, ClientData],
        env: Env,
    ) -> None:
        """Only watched: that stacks give the bits of single clients is for the engines' check."""
        method, clients = cast(TrainsStacked, self.algorithm), list(datas)
        if not self.algorithm.traits.stacks or not method.can_stack(env.task):
            return
        kept, held = [memories[c] for c in clients], [datas[c] for c in clients]
        self.around(
            f"client_updates (round {env.round})",
            {"shared": shared, "memories": kept, "data": held},
            lambda: method.client_updates(shared, kept, held, [env.at(c) for c in clients]),
        )

    def aggregate(
        self, state: ServerState, results: Mapping[ClientId, ClientResult], env: Env
    ) -> ServerState:
        updates = {client: results[client].update for client in sorted(results)}
        return self.around(
            f"aggregate (round {env.round})",
            {"state": state, "updates": updates},
            lambda: self.algorithm.aggregate(state, iter(updates.items()), env),
        )

    def scores(self, shared: Tensors, inputs: Tensor, env: Env) -> Tensor:
        return self.around(
            f"predictor (round {env.round})",
            {"shared": shared, "inputs": inputs},
            lambda: self.algorithm.predictor(shared, {}, env).scores(inputs),
        )

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        method = cast(Personalizes, self.algorithm)
        return self.around(
            f"personalize (client {env.client})",
            {"shared": shared, "memory": memory, "data": data},
            lambda: method.personalize(shared, memory, data, env),
        )
