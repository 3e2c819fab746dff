"""Networks of an ensemble as tensors, stacked by architecture, and their outputs on a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.algorithms.kit.outputs import Output
from fedcord.core.contract import ClientId, Env
from fedcord.core.errors import ProtocolError
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


def member_outputs(
    result: Tensors, inputs: Tensor, env: Env, output: Output, batch_norm: str = "running"
) -> Iterator[tuple[int, Tensor]]:
    """(place among all members in ascending order, output [B, ...]) of every network.

    Each network's tensors are read once per call. Networks that are nothing but linear layers run
    as one batched product; convolutions are faster one network after the other.

    Args:
        result: holds what `pack` gave.
        inputs: [B, ...] prepared.
        env: the server's place.
        output: what to ask of each network.
        batch_norm: `running` statistics, or those of this `batch`, as FAFI's released code does
            (scores then depend on the batch).
    """
    held = select(result, ENSEMBLE)
    places = _places(held)
    for which in sorted({name.partition(".")[0] for name in held}, key=int):
        group = select(held, which)
        clients = group["clients"].tolist()
        network = env.task.scratch_network(clients[0]).eval()
        stacked = select(group, "model")
        if batch_norm == "running" and is_linear_only(network) and stacked:
            outputs = _outputs_at_once(network, stacked, inputs, output)
            yield from zip((places[client] for client in clients), outputs, strict=True)
            continue
        for row, client in enumerate(clients):
            load(network, {name: tensor[row] for name, tensor in stacked.items()})
            network.train(batch_norm == "batch")
            try:
                out = output(network, inputs)
            finally:
                network.eval()
            yield places[client], out


def num_members(result: Tensors) -> int:
    """K of an ensemble that `pack` made."""
    return len(_places(select(result, ENSEMBLE)))


def load(network: nn.Module, tensors: Tensors) -> None:
    """Copy `tensors` into `network`; only the head may be missing."""
    own = network.state_dict()
    head = head_prefix(network)
    wrong = {name for name in own.keys() ^ tensors.keys() if not name.startswith(head)}
    if wrong:
        raise ProtocolError(
            f"the network and the member's tensors differ in {', '.join(sorted(wrong))}; "
            "use the model the tensors were trained with."
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


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


def _outputs_at_once(
    network: nn.Module, stacked: Tensors, inputs: Tensor, output: Output
) -> Tensor:
    asks = _Asks(network, output)

    def one(tensors: dict[str, Tensor]) -> Tensor:
        out: Tensor = torch.func.functional_call(asks, tensors, (inputs,))
        return out

    outputs: Tensor = torch.func.vmap(one)(prefixed("network", stacked))
    return outputs


def _places(held: Tensors) -> dict[ClientId, int]:
    clients = sorted(
        client
        for name, tensor in held.items()
        if name.endswith(".clients")
        for client in tensor.tolist()
    )
    return {client: place for place, client in enumerate(clients)}
