"""Clients with stated numbers of examples per class, and runs over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.contract import Algorithm, ServerState, Update
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.engine.federation import Federation
from fedcord.engine.population import Population
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests import federation

NAMES = tuple(
    f"{name}{form}" for name in ("fedproto", "fedtgp", "fedsa", "fedgmkd") for form in ("", "+")
)
OWN = tuple(name for name in NAMES if not name.endswith("+"))
OFF: Mapping[str, Mapping[str, float]] = {
    "fedproto": {"prototype_weight": 0.0},
    "fedtgp": {"prototype_weight": 0.0},
    "fedsa": {"anchor_weight": 0.0, "contrast_weight": 0.0, "calibration_weight": 0.0},
    "fedgmkd": {
        "distillation_weight": 0.0,
        "prototype_weight": 0.0,
        "model_strength": 0.0,
        "model_offset": 0.0,
    },
}
"""What makes each method add nothing to cross-entropy and to the mean of models."""

SKEWED = ((20, 10, 0), (0, 12, 9), (15, 0, 1), (4, 4, 4))
"""Examples per class of the usual clients."""

ODD = ((0, 0, 0), (7, 0, 0), (0, 1, 0))
"""A client with nothing, one with one class, one with one example."""


def method(name: str, local: LocalSGD | None = None, **values: Any) -> Any:
    """A registered method that works in milliseconds."""
    quick = {"server_epochs": 5} if name.startswith("fedtgp") else {}
    chosen = {**ALGORITHMS[name].preset, **quick, **values}
    nested = {"local": {"lr": 0.1, "batch_size": 8}} if local is None else {}
    made = build(algorithm_class(name), {**chosen, **nested})
    return made if local is None else type(made)(**{**made.__dict__, "local": local})


def examples(counts: Sequence[int], seed: int) -> Examples:
    """`counts[c]` examples of class c around centres all clients share."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centres = 2 * torch.randn(3, 8, generator=torch.Generator().manual_seed(99))
    return Examples(centres[labels] + torch.randn(len(labels), 8, generator=generator), labels)


def population(clients: Sequence[Sequence[int]] = SKEWED) -> Population:
    nothing = examples((0, 0, 0), 0)
    held = [ClientData(examples(c, k), nothing, nothing) for k, c in enumerate(clients)]
    return Population.from_clients(held, examples((40, 40, 40), 77))


@dataclass
class Run:
    state: ServerState
    reached: Federation
    records: list[RoundRecord]
    states: list[ServerState]


def run(
    algorithm: Algorithm,
    people: Population | None = None,
    rounds: int = 2,
    clients: Callable[[int], Sequence[int]] | None = None,
    values: dict[str, object] = federation.VECTOR,
    reached: Federation | None = None,
) -> Run:
    held = people or population()
    engine = reached or federation.sequential(algorithm, federation.task(values), held)
    everyone = [k for k, size in enumerate(held.train_sizes) if size > 0]
    env, records = federation.env(values, rounds=rounds), list[RoundRecord]()
    first = algorithm.init(env)
    states = [first]

    def note(state: ServerState, record: RoundRecord) -> None:
        states.append(state)
        records.append(record)

    schedule = Schedule(rounds, clients or (lambda _: everyone))
    final = run_rounds(algorithm, engine, env, first, schedule, note)
    return Run(final, engine, records, states)


def updates(
    algorithm: Algorithm, state: ServerState, people: Population, clients: Sequence[int]
) -> dict[int, Update]:
    """What clients send in the first round."""
    env = federation.env()
    return {
        k: algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update
        for k in clients
    }
