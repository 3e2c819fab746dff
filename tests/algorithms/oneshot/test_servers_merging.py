"""Servers that merge weights: ties and dare from the common start, and by Fisher information."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.algorithms.oneshot.member import Member
from fedcord.algorithms.oneshot.oneshot import first_message
from fedcord.algorithms.oneshot.servers.aggregator import Common
from fedcord.algorithms.oneshot.servers.diagonal_fisher import (
    Certainty,
    diagonal_fisher,
    fisher_spec,
)
from fedcord.algorithms.oneshot.servers.kronecker import PROTOTYPES
from fedcord.algorithms.oneshot.servers.server import Server
from fedcord.algorithms.oneshot.servers.ties import Trimming
from fedcord.core.contract import Env
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import hash_tensors, prefixed, select, spec_of
from tests.federation import IMAGE, VECTOR, env, examples

BOTH = pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])


def member(server: Server, here: Env, client: int, values: dict[str, object]) -> Member:
    """A client that went some way from the common start."""
    generator = torch.Generator().manual_seed(client)
    start = first_message(here)
    network = here.task.scratch_network()
    trained = {name for name, _ in network.named_parameters()}
    moved = {
        n: t + 0.3 * torch.randn(t.shape, generator=generator) if n in trained else t
        for n, t in select(start, "model").items()
    }
    network.load_state_dict({**network.state_dict(), **moved})
    drawn = torch.randn(start["proto.weight"].shape, generator=generator)
    prototypes = start["proto.weight"] + drawn
    own = examples(6, client, values)
    extra = server.extra_upload(network, prototypes, ClientData(own, own, own), here.at(client))
    return Member(encoder_tensors(network), prototypes, torch.ones(3), 10.0 * (client + 1), extra)


def members(server: Server, here: Env, values: dict[str, object]) -> dict[int, Member]:
    return {client: member(server, here, client, values) for client in range(3)}


def fused(server: Server, here: Env, held: dict[int, Member]) -> dict[str, Tensor]:
    return server.fuse(held, Common(start=first_message(here)), here)


def weights_of(model: dict[str, Tensor], here: Env) -> Tensor:
    """All that is trained, in the order of the network, prototypes last."""
    names = [n for n, _ in here.task.scratch_network().named_parameters() if n in model]
    return torch.cat([model[n].double().flatten() for n in [*names, "prototypes"]])


@BOTH
def test_ties_trims_over_all_of_a_members_weights_at_once(values: dict[str, object]) -> None:
    server = Server(kind="ties", weighting="uniform", trimming=Trimming(density=0.1, scale=0.5))
    here = env(values)
    held, start = members(server, here, values), first_message(here)
    origin = weights_of({**select(start, "model"), "prototypes": start["proto.weight"]}, here)
    changes = [
        weights_of({**m.model, "prototypes": m.prototypes}, here) - origin for m in held.values()
    ]
    kept = round(0.1 * len(origin))
    cut = [torch.where(c.abs() >= c.abs().sort().values[-kept], c, 0.0) for c in changes]
    merged = torch.zeros_like(origin)
    for place in range(len(origin)):
        column = [float(c[place]) for c in cut if c[place] != 0]
        same = [v for v in column if v * sum(column) > 0]
        merged[place] = sum(same) / len(same) if same else 0.0
    found = weights_of(
        select(fused(server, here, held), "fused.model")
        | select(fused(server, here, held), "fused"),
        here,
    )
    assert torch.allclose(found, origin + 0.5 * merged, atol=1e-6)


@BOTH
def test_limits_of_ties(values: dict[str, object]) -> None:
    here, held = env(values), members(Server(), env(values), values)
    everything = Server(kind="ties", trimming=Trimming(density=1.0))
    alone = fused(everything, here, {1: held[1]})
    for name, tensor in held[1].model.items():
        assert torch.allclose(alone[f"fused.model.{name}"], tensor, atol=1e-6)
    nowhere = Server(kind="ties", trimming=Trimming(scale=0.0))
    there = fused(nowhere, here, held)
    assert there["fused.prototypes"].equal(first_message(here)["proto.weight"])


@BOTH
def test_dare_without_drops_is_the_mean_bit_for_bit(values: dict[str, object]) -> None:
    here, held = env(values), members(Server(), env(values), values)
    mean = fused(Server(kind="param_avg"), here, held)
    assert hash_tensors(fused(Server(kind="dare", drop=0.0), here, held)) == hash_tensors(mean)
    assert hash_tensors(fused(Server(kind="dare", drop=0.1), here, held)) != hash_tensors(mean)


def test_dare_is_the_mean_on_average_over_draws() -> None:
    here, server = env(), Server(kind="dare", drop=0.5)
    held, start = members(server, here, VECTOR), Common(start=first_message(here))
    draws = [
        server.fuse(held, start, dataclasses.replace(here, seed=seed))["fused.prototypes"]
        for seed in range(400)
    ]
    mean = fused(Server(kind="param_avg"), here, held)["fused.prototypes"]
    assert float((torch.stack(draws).mean(0) - mean).abs().max()) < 0.2
    assert float((draws[0] - mean).abs().max()) > 0.4


@BOTH
def test_the_fisher_mean_minimises_the_sum_of_quadratics(values: dict[str, object]) -> None:
    server, here = Server(kind="fisher", certainty=Certainty(damping=1e-3)), env(values)
    held = members(server, here, values)
    result = fused(server, here, held)
    shares = [m.size / 60 for m in held.values()]
    theta = {n: t.double().requires_grad_() for n, t in select(result, "fused").items()}
    loss = torch.zeros((), dtype=torch.float64)
    for share, m in zip(shares, held.values(), strict=True):
        own = {**prefixed("model", m.model), "prototypes": m.prototypes}
        for name, information in m.extra.items():
            key = name if name == PROTOTYPES else f"model.{name}"
            gap = theta[key] - own[key].double()
            loss = loss + share * ((information.double() + 1e-3) * gap.square()).sum()
    trained = [theta[n if n == PROTOTYPES else f"model.{n}"] for n in held[0].extra]
    for gradient in torch.autograd.grad(loss, trained):
        assert float(gradient.abs().max()) < 1e-6
    mean = fused(Server(kind="param_avg"), here, held)
    assert not torch.allclose(result["fused.prototypes"], mean["fused.prototypes"], atol=1e-2)


def test_much_damping_and_equal_information_give_the_mean() -> None:
    here, server = env(), Server(kind="fisher", certainty=Certainty(damping=1e6))
    held = members(server, here, VECTOR)
    mean = fused(Server(kind="param_avg"), here, held)
    same = {k: dataclasses.replace(m, extra=held[0].extra) for k, m in held.items()}
    for found in (fused(server, here, held), fused(Server(kind="fisher"), here, same)):
        for name, tensor in mean.items():
            assert torch.allclose(found[name], tensor, atol=1e-5)


@pytest.mark.parametrize(
    "values",
    [
        VECTOR,
        IMAGE,
        {**IMAGE, "models": ["cnn"]},
        {**VECTOR, "kind": "text", "input_shape": [5], "vocabulary": 20, "models": ["text"]},
    ],
    ids=["mlp", "resnet", "cnn", "text"],
)
def test_the_diagonal_is_that_of_single_examples_gradients(values: dict[str, object]) -> None:
    here = env(values)
    network = here.task.initial_network(torch.Generator().manual_seed(5))
    width = fisher_spec(network, 3)[PROTOTYPES].shape[1]
    prototypes = torch.randn(3, width, generator=torch.Generator().manual_seed(6))
    data = examples(5, 1, values)
    if values["kind"] == "text":
        data = Examples(data.inputs.abs().long() % 20, data.labels)
    found = diagonal_fisher(network, prototypes, data, here.at(0), Certainty(batch_size=2))
    assert spec_of(found) == fisher_spec(network, 3)
    own = prototypes.clone().requires_grad_()
    parameters = dict(network.named_parameters())
    wanted = {n: torch.zeros_like(parameters[n]) for n in found if n != PROTOTYPES}
    wanted[PROTOTYPES] = torch.zeros_like(prototypes)
    variables = [own if n == PROTOTYPES else parameters[n] for n in found]
    for row in here.task.prepare(data.inputs):
        scores = F.normalize(network.features(row[None]), dim=1) @ own.T  # type: ignore[operator]
        logs = scores[0].log_softmax(0)
        for c in range(3):
            gradients = torch.autograd.grad(logs[c], variables, retain_graph=True)
            for name, gradient in zip(found, gradients, strict=True):
                wanted[name] += logs[c].detach().exp() * gradient.square() / 5
    for name, tensor in wanted.items():
        assert torch.allclose(found[name], tensor, rtol=1e-4, atol=1e-8)


def test_drawn_labels_estimate_the_same_diagonal() -> None:
    here = env()
    network = here.task.initial_network(torch.Generator().manual_seed(5))
    prototypes = torch.randn(3, 16, generator=torch.Generator().manual_seed(6))
    data = examples(4, 1)
    exact = diagonal_fisher(network, prototypes, data, here.at(0), Certainty())[PROTOTYPES]
    drawn = torch.stack(
        [
            diagonal_fisher(
                network,
                prototypes,
                data,
                dataclasses.replace(here, seed=seed, client=0),
                Certainty(labels="drawn"),
            )[PROTOTYPES]
            for seed in range(200)
        ]
    )
    assert not torch.allclose(drawn[0], exact, rtol=0.05)
    assert float((drawn.mean(0) - exact).norm() / exact.norm()) < 0.1


def test_a_client_without_examples_knows_nothing() -> None:
    here = env()
    network = here.task.scratch_network()
    found = diagonal_fisher(network, torch.ones(3, 16), examples(0, 1), here.at(0), Certainty())
    assert all(bool((tensor == 0).all()) for tensor in found.values())
