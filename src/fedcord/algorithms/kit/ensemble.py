"""Networks of an ensemble as tensors, stacked by architecture, and their outputs on inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import held_encoder
from fedcord.algorithms.kit.outputs import Output
from fedcord.core.contract import ClientId, Env
from fedcord.core.tensors import Tensors, prefixed, select

ENSEMBLE = "ensemble"


def pack(models: Mapping[ClientId, Tensors], env: Env) -> dict[str, Tensor]:
    """The models as `ensemble.<architecture>.{clients, model.*}`, stacked to [K, ...].

    Args:
        models: tensors of each member's network, whole or without its head, in ascending order.
        env: whose task tells which architecture a client has.
    """
    groups: dict[int, list[ClientId]] = {}
    for client in models:
        groups.setdefault(client % len(env.task.networks), []).append(client)
    out: dict[str, Tensor] = {}
    for which, clients in sorted(groups.items()):
        own = {"clients": torch.tensor(clients)}
        for name in models[clients[0]]:
            own[f"model.{name}"] = torch.stack([models[client][name] for client in clients])
        out |= prefixed(f"{ENSEMBLE}.{which}", own)
    return out


MemberOutputs = Callable[[Tensor], Iterator[tuple[int, Tensor]]]
"""Prepared inputs to (place among all members in ascending order, output [B, ...]) of each."""


def member_outputs(
    result: Tensors, env: Env, output: Output, batch_norm: str = "running"
) -> MemberOutputs:
    """Every network of an ensemble, loaded once and ready to be asked.

    Networks that are nothing but linear layers run as one batched product; convolutions are faster
    one network after the other.

    Args:
        result: holds what `pack` gave.
        env: the server's place.
        output: what to ask of each network.
        batch_norm: `running` statistics, or those of this `batch`, as FAFI's released code does
            (scores then depend on the batch).
    """
    held = select(result, ENSEMBLE)
    places = _places(held)
    groups = []
    for which in sorted({name.partition(".")[0] for name in held}, key=int):
        group = select(held, which)
        clients = group["clients"].tolist()
        ask = _asked(select(group, "model"), clients, env, output, batch_norm == "batch")
        groups.append(([places[client] for client in clients], ask))

    def outputs(inputs: Tensor) -> Iterator[tuple[int, Tensor]]:
        for found, ask in groups:
            yield from zip(found, ask(inputs), strict=True)

    return outputs


def weighted_sum(outputs: Iterable[tuple[int, Tensor]], weights: Sequence[float]) -> Tensor:
    """Σ w_i o_i over (place, output) of members, with the weights of all members."""
    return sum((weights[place] * output for place, output in outputs), start=torch.zeros(()))


def log_of_mean(probabilities: Tensor) -> Tensor:
    """Finite logarithms of probabilities [B, C], which cross-entropy reads."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()


def num_members(result: Tensors) -> int:
    """K of an ensemble that `pack` made."""
    return len(_places(select(result, ENSEMBLE)))


def is_linear_only(network: nn.Module) -> bool:
    """Whether nothing but `nn.Linear` holds parameters or buffers, so that stacking pays."""
    return all(
        type(module) is nn.Linear
        for module in network.modules()
        if any(True for _ in module.parameters(recurse=False))
        or any(True for _ in module.buffers(recurse=False))
    )


class _Asks(nn.Module):
    """Makes `output` the forward pass, which is what `functional_call` runs."""

    def __init__(self, network: nn.Module, output: Output) -> None:
        super().__init__()
        self.network = network
        self.output = output

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(self.network, inputs)


def _asked(
    stacked: Tensors, clients: Sequence[ClientId], env: Env, output: Output, training: bool
) -> Callable[[Tensor], Iterable[Tensor]]:
    """What asks all members of one architecture, in their order."""
    network = env.task.scratch_network(clients[0])
    if stacked and not training and is_linear_only(network):
        return _asked_at_once(network, stacked, env, output)
    rows = [{name: tensor[row] for name, tensor in stacked.items()} for row in range(len(clients))]
    members = [held_encoder(env.task, own, clients[0], training) for own in rows]
    return lambda inputs: (output(member, inputs) for member in members)


def _asked_at_once(
    network: nn.Module, stacked: Tensors, env: Env, output: Output
) -> Callable[[Tensor], Tensor]:
    asks = _Asks(network, output)
    # in fresh memory, because alignment decides the last bits of products
    own = {n: t.to(env.task.device).clone() for n, t in prefixed("network", stacked).items()}

    def ask(inputs: Tensor) -> Tensor:
        def one(tensors: dict[str, Tensor]) -> Tensor:
            out: Tensor = torch.func.functional_call(asks, tensors, (inputs,))
            return out

        asks.eval()
        outputs: Tensor = torch.func.vmap(one)(own)
        return outputs

    return ask


def _places(held: Tensors) -> dict[ClientId, int]:
    clients = sorted(
        client
        for name, tensor in held.items()
        if name.endswith(".clients")
        for client in tensor.tolist()
    )
    return {client: place for place, client in enumerate(clients)}
