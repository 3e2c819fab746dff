"""Federations for accord: drawn encoders in place of trained ones, and runs through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.joint_features import CHOSEN, packed_encoders
from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.core.contract import Env, ServerState, Update
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.core.rng import torch_generator
from fedcord.core.task import Task
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.ops.number_format import shrink
from tests import federation
from tests.federation import VECTOR, population, task

CLASSES = 3
MIXED: dict[str, object] = {**VECTOR, "models": ["mlp:6", "mlp:9", "mlp:5-7"]}
SHORT: dict[str, Any] = {"local": {"epochs": 2, "batch_size": 16}}


def method(**values: Any) -> Accord:
    return build(Accord, {**SHORT, **values})


def drawn_encoder(task: Task, number: int, client: int) -> dict[str, Tensor]:
    """Weights nobody trained; equal numbers give equal weights."""
    return encoder_tensors(task.initial_network(torch_generator(number, "drawn", 0, 0), client))


def with_encoders(
    accord: Accord, env: Env, chosen: Sequence[int], same: bool = False
) -> ServerState:
    """The state before the sums, with drawn encoders."""
    models = {
        client: shrink(
            drawn_encoder(env.task, 5 if same else 5 + client, client), accord.encoder_format
        )
        for client in chosen
    }
    shared = {CHOSEN: torch.tensor(list(chosen)), **packed_encoders(models)}
    return ServerState(shared, round=env.round)


def at_sums(accord: Accord, values: dict[str, object] = VECTOR, seed: int = 0) -> Env:
    """The place of the last round, which is for sums."""
    assert accord.traits.rounds is not None
    return Env(task(values), seed, accord.traits.rounds - 1, accord.traits.rounds)


def sums_of(
    accord: Accord, state: ServerState, clients: Sequence[ClientData], env: Env
) -> list[tuple[int, Update]]:
    return [
        (number, accord.client_update(state.shared, {}, data, env.at(number)).update)
        for number, data in enumerate(clients)
    ]


def solved(
    accord: Accord, state: ServerState, clients: Sequence[ClientData], env: Env
) -> ServerState:
    return accord.aggregate(state, iter(sums_of(accord, state, clients, env)), env)


def client(examples: Examples, rows: Tensor | slice = slice(None)) -> ClientData:
    nothing = Examples(examples.inputs[:0], examples.labels[:0])
    return ClientData(Examples(examples.inputs[rows], examples.labels[rows]), nothing, nothing)


def pooled_features(
    accord: Accord, state: ServerState, examples: Examples, env: Env
) -> tuple[Tensor, Tensor]:
    """Joint features [N, D] and one-hot targets [N, C] of all samples at once."""
    inputs = env.task.prepare(examples.inputs)
    targets = torch.eye(CLASSES, dtype=torch.float64)[examples.labels]
    return accord.joint.mapping(state.shared, env)(inputs), targets


def run(
    accord: Accord,
    values: dict[str, object] = VECTOR,
    sizes: tuple[int, ...] = (40, 25, 12, 60),
    secure: float | None = None,
) -> tuple[list[ServerState], list[RoundRecord]]:
    """A whole run; the states after every round and what was recorded."""
    here, rounds = task(values), accord.traits.rounds
    assert rounds is not None
    env = Env(here, 0, num_rounds=rounds)
    reached = federation.sequential(accord, here, population(values, sizes))
    states, records = [accord.init(env)], []

    def note(state: ServerState, record: RoundRecord) -> None:
        states.append(state)
        records.append(record)

    everyone = range(len(sizes))
    schedule = Schedule(rounds, lambda _: everyone, secure=secure)
    run_rounds(accord, reached, env, states[0], schedule, note)
    return states, records


def at_round(env: Env, number: int) -> Env:
    return replace(env, round=number)


def gap(found: Tensor, wanted: Tensor) -> float:
    """Largest difference, relative to the largest value."""
    return float((found - wanted).abs().max() / wanted.abs().max())
