"""A federation in one loop over its clients, without an engine: to train again and compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from fedcord.core.contract import Algorithm, ClientId, ClientResult, Env, ServerState, Update
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors


def play(
    algorithm: Algorithm,
    state: ServerState,
    clients: Mapping[ClientId, ClientData],
    env: Env,
    until: int,
    participants: Callable[[int], Collection[ClientId]] | None = None,
    heard: Callable[[Env, ClientId, Update], None] = lambda here, client, update: None,
    told: Callable[[Tensors], None] = lambda shared: None,
) -> tuple[ServerState, dict[ClientId, Tensors]]:
    """The state after round number `until`, and what clients then keep.

    Args:
        algorithm: the method.
        state: to go on from; clients keep nothing yet.
        clients: in ascending order; those without training samples are passed over.
        env: the server's place; its round is set here.
        until: rounds done in the end.
        participants: who takes part in a round; everybody, if not given.
        heard: told of every update, with the server's place.
        told: told of what clients are given, round by round.
    """
    held = {number: data for number, data in clients.items() if len(data.train)}
    memories: dict[ClientId, Tensors] = {number: {} for number in held}
    for round_ in range(state.round, until):
        here = replace(env, round=round_)
        asked = held if participants is None else participants(round_)
        results: dict[ClientId, ClientResult] = {}
        told(state.shared)
        for number in asked:
            place = here.at(number)
            result = algorithm.client_update(state.shared, memories[number], held[number], place)
            results[number] = result
            heard(here, number, result.update)
        state = algorithm.aggregate(state, iter((n, r.update) for n, r in results.items()), here)
        memories |= {number: result.memory for number, result in results.items()}
    return state, memories


def model_gap(found: Tensors, wanted: Tensors) -> float:
    """Largest relative difference (Frobenius norm) of any tensor of numbers."""
    worst = 0.0
    for name, tensor in wanted.items():
        if tensor.is_floating_point():
            gap = float((found[name].double() - tensor.double()).norm())
            worst = max(worst, gap / max(float(tensor.double().norm()), 1e-300))
    return worst
