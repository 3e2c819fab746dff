"""A network without its head: what one-shot clients train beside their prototypes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcord.core.errors import ProtocolError
from fedcord.core.task import HeldNetwork, Task, check_tensors, tensors_of
from fedcord.core.tensors import Tensors


def head_prefix(network: nn.Module) -> str:
    """The dotted start of the head's tensor names, such as `head.`."""
    head: object = getattr(network, "head", None)
    for name, module in network.named_modules():
        if name and module is head:
            return f"{name}."
    raise ProtocolError(
        f"{type(network).__name__} has no layer that is its `head`; use a network of this library "
        "or name its last layer so."
    )


def encoder_parameters(network: nn.Module) -> list[nn.Parameter]:
    """What is trained of the encoder."""
    head = head_prefix(network)
    return [
        parameter
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and not name.startswith(head)
    ]


def encoder_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters and buffers but the head's, under their names in the network."""
    return without_head(tensors_of(network), network)


def without_head(model: Tensors, network: nn.Module) -> dict[str, Tensor]:
    """A model's tensors but the head's; `network` is of its kind, with whatever weights."""
    head = head_prefix(network)
    return {name: tensor for name, tensor in model.items() if not name.startswith(head)}


def encoder_with(task: Task, tensors: Tensors, client: int | None = None) -> nn.Module:
    """The task's network of this process with `tensors` as its encoder, in evaluation mode.

    Its head keeps whatever it held: use `features` only. As with `Task.network_with`, the next call
    reuses the module, so keep no reference to it.
    """
    network = task.scratch_network(client)
    own = network.state_dict()
    check_tensors(own, tensors, without=head_prefix(network))
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
    return network.eval()


def held_encoder(
    task: Task, tensors: Tensors, client: int | None = None, training: bool = False
) -> HeldNetwork:
    """The same as a network to keep; `training` is told in `HeldNetwork`."""
    network = task.scratch_network(client)
    return HeldNetwork(network, tensors, head_prefix(network), training)
