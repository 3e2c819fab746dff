"""Small one-shot runs for tests: a preset, one client's training, a whole run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.core.contract import ClientResult, Env, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import build
from fedcord.core.tensors import hash_tensors
from fedcord.engine.federation import Federation
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests import federation
from tests.federation import VECTOR, population, task

QUICK: dict[str, Any] = {"local": {"epochs": 4, "batch_size": 16}, "checkpoints": 1}
ANY_POLICY = {"anchors": {"kind": "etf"}}


def method(*parts: Mapping[str, Any]) -> OneShot:
    values: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            old = values.get(name)
            values[name] = {**old, **value} if isinstance(old, dict) else value
    return build(OneShot, values)


def preset(name: str, *parts: Mapping[str, Any]) -> OneShot:
    return method(QUICK, PRESETS[name].values, *parts)


def policy(kind: str, **values: Any) -> dict[str, Any]:
    return {**ANY_POLICY, "policy": {"kind": kind, **values}}


def train(algorithm: OneShot, data: ClientData | None = None) -> ClientResult:
    """All chunks of client 0; the last result."""
    env = Env(task(), 0, num_rounds=algorithm.traits.rounds or 1)
    shared = algorithm.init(env).shared
    held = data or population().client(0)
    memory: Mapping[str, Tensor] = {}
    for round_ in range(algorithm.traits.rounds or 1):
        here = dataclasses.replace(env, round=round_, client=0)
        result = algorithm.client_update(shared, memory, held, here)
        memory = result.memory
    return result


def run(
    algorithm: OneShot, values: dict[str, object] = VECTOR
) -> tuple[ServerState, list[RoundRecord], Federation]:
    here, rounds = task(values), algorithm.traits.rounds or 1
    env = Env(here, 0, num_rounds=rounds)
    reached = federation.sequential(algorithm, here, population(values))
    records: list[RoundRecord] = []
    state = run_rounds(
        algorithm,
        reached,
        env,
        algorithm.init(env),
        Schedule(rounds, lambda round_: range(4)),
        lambda state, record: records.append(record),
    )
    return state, records, reached


def same_bits(a: ClientResult, b: ClientResult) -> bool:
    return hash_tensors(a.update.tensors) == hash_tensors(b.update.tensors)
