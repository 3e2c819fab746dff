"""Weights of members and the mean of their prototypes."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.member import Member
from fedcord.algorithms.oneshot.servers.aggregator import Members
from fedcord.core.contract import ClientId, Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.tensors import spec_of

WEIGHTINGS = ("size", "uniform")


def holding_data(members: Members) -> dict[ClientId, Member]:
    """The members in ascending order, without those that trained on nothing."""
    found = {client: members[client] for client in sorted(members) if members[client].size > 0}
    if not found:
        raise ProtocolError(
            f"none of {len(members)} members trained on an example; at least one is needed."
        )
    return found


def member_weights(members: Members, weighting: str) -> Tensor:
    """Weights [K] with sum 1: shares of the examples (`size`) or equal shares (`uniform`)."""
    sizes = [member.size if weighting == "size" else 1.0 for member in members.values()]
    total = sum(sizes)
    return torch.tensor([size / total for size in sizes])


def mean_prototypes(members: Members, weighting: str) -> Tensor:
    """G [C, D] from the members' P_i.

    Args:
        members: with prototypes of one shape.
        weighting: `uniform` is the plain mean over members. `counts` weighs each class by the
            examples a member has of it, so that prototypes nobody trained do not count; a class
            that no member holds gets the plain mean.
    """
    prototypes = torch.stack([m.prototypes for m in members.values()]).double()  # [K, C, D]
    plain = prototypes.mean(0)
    dtype = next(iter(members.values())).prototypes.dtype
    if weighting == "uniform":
        return plain.to(dtype)
    counts = torch.stack([m.counts for m in members.values()]).double()[..., None]  # [K, C, 1]
    total = counts.sum(0)
    weighed = (counts * prototypes).sum(0) / total.clamp(min=1e-300)
    return torch.where(total > 0, weighed, plain).to(dtype)


def check_equal_features(members: Members, env: Env) -> None:
    """Refuse members whose features cannot be added up."""
    first = next(iter(members))
    wanted = members[first].prototypes.shape
    for client, member in members.items():
        if member.prototypes.shape != wanted:
            raise ConfigError(
                f"{env.said(client)} has prototypes {list(member.prototypes.shape)}, "
                f"{env.said(first)} {list(wanted)}; fusing features needs models with "
                "equal feature dimension: give all models the same width, or choose "
                "server.kind=prob_ensemble or logit_ensemble."
            )


def check_equal_models(members: Members, env: Env) -> None:
    """Refuse members whose weights cannot be fused into one network."""
    first = next(iter(members))
    wanted = spec_of(members[first].model)
    for client, member in members.items():
        found = spec_of(member.model)
        if found != wanted:
            odd = sorted(n for n in {**found, **wanted} if found.get(n) != wanted.get(n))
            raise ConfigError(
                f"{env.said(first)} and {env.said(client)} differ in {', '.join(odd)}; "
                "fusing weights needs one architecture: give one model, or choose "
                "server.kind=feature_ensemble."
            )
