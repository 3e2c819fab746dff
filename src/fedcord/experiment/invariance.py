"""How much models change when the same samples are distributed to other clients, measured.

The first client keeps its samples; the others' are pooled and redistributed in several ways, among
fewer and more clients. A method is invariant if neither the global model nor the first client's own
moves beyond rounding. Where only the last part of a method is, the parts before it are made once,
from the clients as they are, and the rest is measured given them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from fedcord.core.contract import Algorithm, Env, Personalizes, ServerState
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import Tensors, prefixed
from fedcord.experiment.played import model_gap, play


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
    """The certificate.

    Attributes:
        dealings: what was tried.
        given: what was made once and not anew for every dealing; empty when nothing was.
    """

    dealings: tuple[Dealing, ...]
    given: str = ""

    @property
    def difference(self) -> float:
        """Largest change over all dealings."""
        return max(dealing.difference for dealing in self.dealings)

    def __str__(self) -> str:
        lines = [
            f"{dealing.name:<34} {dealing.num_clients:>6} clients   {dealing.difference:.2e}"
            for dealing in self.dealings
        ]
        given = f", given {self.given}" if self.given else ""
        return "\n".join([*lines, f"largest relative difference{given}: {self.difference:.2e}"])


def check_invariance(
    algorithm: Algorithm,
    clients: Sequence[ClientData],
    env: Env,
    on_dealing: Callable[[int, int], None] = lambda done, total: None,
) -> Invariance:
    """Train on the clients as they are, then on several other dealings, and compare.

    Args:
        algorithm: any method; it has to be one of fixed rounds.
        clients: at least two, with training samples; only those are redistributed.
        env: the server's place before the first round.
        on_dealing: (done, to do), the clients as they are included.
    """
    if len(clients) < 2:
        raise DataError(
            f"{len(clients)} client cannot be redistributed; give at least two that have samples."
        )
    before, given = algorithm.traits.settles_first or (0, "")
    rounds = algorithm.traits.rounds or env.num_rounds
    env = replace(env, num_rounds=rounds)
    start, _ = play(algorithm, algorithm.init(env), dict(enumerate(clients)), env, before)
    wanted = _trained(algorithm, start, clients, env)
    first, pooled = clients[0], _joined([client.train for client in clients[1:]])
    ways = list(_dealings(pooled.labels, len(clients) - 1, env))
    dealings: list[Dealing] = []
    for name, parts in ways:
        on_dealing(1 + len(dealings), 1 + len(ways))
        others = [_holding(pooled, part, first) for part in parts]
        found = _trained(algorithm, start, [first, *others], env)
        if _shapes(found) != _shapes(wanted):
            raise ConfigError(
                f"the model has another form with {1 + len(others)} clients than with "
                f"{len(clients)}, so it cannot be the same; this measures methods whose model has "
                "no parts of single clients, such as afl, fedhip and accord."
            )
        dealings.append(Dealing(name, 1 + len(others), model_gap(found, wanted)))
    return Invariance(tuple(dealings), given)


def _shapes(model: Tensors) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.items()}


def _dealings(labels: Tensor, count: int, env: Env) -> Iterator[tuple[str, list[Tensor]]]:
    order = torch.randperm(len(labels), generator=env.generator("invariance"))
    by_class = order[labels[order].argsort(stable=True)]
    halves = max(1, count // 2)
    yield "shuffled, as many clients", list(order.tensor_split(count))
    yield "sorted by class, as many clients", list(by_class.tensor_split(count))
    yield "sorted by class, half the clients", list(by_class.tensor_split(halves))
    yield "shuffled, twice the clients", list(order.tensor_split(2 * count))
    yield "everything at one client", [order]


def _trained(
    algorithm: Algorithm, start: ServerState, clients: Sequence[ClientData], env: Env
) -> dict[str, Tensor]:
    """The server's model, and the first client's memory after personalisation."""
    state, memories = play(algorithm, start, dict(enumerate(clients)), env, env.num_rounds)
    own = memories.get(0, {})
    if algorithm.traits.personalizes and len(clients[0].train):
        last = replace(env, round=env.num_rounds - 1)
        method = cast(Personalizes, algorithm)
        own = method.personalize(state.model, own, clients[0], last.at(0))
    return {**state.model, **prefixed("first client", own)}


def _holding(pooled: Examples, rows: Tensor, like: ClientData) -> ClientData:
    nothing = Examples(like.train.inputs[:0], like.train.labels[:0])
    return ClientData(Examples(pooled.inputs[rows], pooled.labels[rows]), nothing, nothing)


def _joined(parts: Sequence[Examples]) -> Examples:
    return Examples(torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts]))
