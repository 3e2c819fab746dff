"""How much a method's models change when the same samples are dealt to other clients, measured.

The first client keeps its samples; the others' are pooled and dealt anew in several ways, among
fewer and more clients. A method is invariant if neither the global model nor the first client's own
moves beyond rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.core.contract import Algorithm, ClientResult, Env, Personalizes
from fedcord.core.errors import DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import Tensors, prefixed


@dataclass(frozen=True)
class Dealing:
    """One way of dealing, and what it changed.

    Attributes:
        name: the way, in words.
        num_clients: clients there were, the first included.
        difference: largest relative change (Frobenius norm) of any tensor.
    """

    name: str
    num_clients: int
    difference: float


@dataclass(frozen=True)
class Invariance:
    """The certificate."""

    dealings: tuple[Dealing, ...]

    @property
    def difference(self) -> float:
        """Largest change over all dealings."""
        return max(dealing.difference for dealing in self.dealings)

    def __str__(self) -> str:
        lines = [
            f"{dealing.name:<34} {dealing.num_clients:>6} clients   {dealing.difference:.2e}"
            for dealing in self.dealings
        ]
        return "\n".join([*lines, f"largest relative difference: {self.difference:.2e}"])


def check_invariance(algorithm: Algorithm, clients: Sequence[ClientData], env: Env) -> Invariance:
    """Train on the clients as they are, then on several other dealings, and compare.

    Args:
        algorithm: any method; it has to be one of fixed rounds.
        clients: at least two, with training samples; only those are dealt anew.
        env: the server's place before the first round.
    """
    if len(clients) < 2:
        raise DataError(
            f"{len(clients)} client cannot be dealt anew; give at least two clients with samples."
        )
    wanted = _trained(algorithm, clients, env)
    first, pooled = clients[0], _joined([client.train for client in clients[1:]])
    dealings = []
    for name, parts in _dealings(pooled.labels, len(clients) - 1, env):
        others = [_holding(pooled, part, first) for part in parts]
        found = _trained(algorithm, [first, *others], env)
        dealings.append(Dealing(name, 1 + len(others), _difference(found, wanted)))
    return Invariance(tuple(dealings))


def _dealings(labels: Tensor, count: int, env: Env) -> Iterator[tuple[str, list[Tensor]]]:
    order = torch.randperm(len(labels), generator=env.generator("invariance"))
    by_class = order[labels[order].argsort(stable=True)]
    halves = max(1, count // 2)
    yield "shuffled, as many clients", list(order.tensor_split(count))
    yield "sorted by class, as many clients", list(by_class.tensor_split(count))
    yield "sorted by class, half the clients", list(by_class.tensor_split(halves))
    yield "shuffled, twice the clients", list(order.tensor_split(2 * count))
    yield "everything at one client", [order]


def _trained(algorithm: Algorithm, clients: Sequence[ClientData], env: Env) -> dict[str, Tensor]:
    """The server's model, and the first client's memory after personalisation."""
    rounds = algorithm.rounds or env.num_rounds
    env = replace(env, num_rounds=rounds)
    state = algorithm.init(env)
    held = {number: data for number, data in enumerate(clients) if len(data.train)}
    memories: dict[int, Tensors] = {number: {} for number in held}
    for round_ in range(rounds):
        here = replace(env, round=round_)
        results: dict[int, ClientResult] = {
            number: algorithm.client_update(state.shared, memories[number], data, here.at(number))
            for number, data in held.items()
        }
        state = algorithm.aggregate(state, iter((n, r.update) for n, r in results.items()), here)
        memories = {number: result.memory for number, result in results.items()}
    own = memories.get(0, {})
    if isinstance(algorithm, Personalizes) and 0 in held:
        last = replace(env, round=rounds - 1)
        own = algorithm.personalize(state.model, own, held[0], last.at(0))
    return {**state.model, **prefixed("first client", own)}


def _difference(found: Tensors, wanted: Tensors) -> float:
    worst = 0.0
    for name, tensor in wanted.items():
        if tensor.is_floating_point():
            gap = float((found[name].double() - tensor.double()).norm())
            worst = max(worst, gap / max(float(tensor.double().norm()), 1e-300))
    return worst


def _holding(pooled: Examples, rows: Tensor, like: ClientData) -> ClientData:
    nothing = Examples(like.train.inputs[:0], like.train.labels[:0])
    return ClientData(Examples(pooled.inputs[rows], pooled.labels[rows]), nothing, nothing)


def _joined(parts: Sequence[Examples]) -> Examples:
    return Examples(torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts]))
