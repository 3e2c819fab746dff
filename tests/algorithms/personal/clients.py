"""Runs of personal methods over a small federation, and what clients are left with."""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Algorithm, ServerState
from fedcord.core.tensors import Tensors
from fedcord.engine.rounds import Schedule, run_rounds
from tests import federation

QUICK = LocalSGD(batch_size=8, lr=0.1)
GENERAL = LocalSGD(batch_size=8, lr=0.1, clip=1e9)
"""The path with autograd; nothing is ever clipped."""
VALUES = {"mlp": federation.VECTOR, "resnet": federation.IMAGE}


@dataclass(frozen=True)
class Done:
    """A run: the server's last state, and what clients keep."""

    state: ServerState
    memories: dict[int, Tensors]


def run(algorithm: Algorithm, network: str = "mlp", rounds: int = 2) -> Done:
    """All clients in every round."""
    values = VALUES[network]
    # a batch of one has no variance in the deepest map
    sizes = federation.SIZES if network == "mlp" else (16, 11)
    people, env = federation.population(values, sizes), federation.env(values, rounds=rounds)
    reached = federation.sequential(algorithm, env.task, people)
    schedule = Schedule(rounds, lambda _: range(len(sizes)))
    state = run_rounds(algorithm, reached, env, algorithm.init(env), schedule)
    return Done(state, dict(reached.gather_memory()))
