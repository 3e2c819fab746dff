"""Servers that solve or train: what they reduce to, and factors."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.algorithms.oneshot.member import Member
from fedcord.algorithms.oneshot.servers.aggregator import Common
from fedcord.algorithms.oneshot.servers.kronecker import factored_layers, kronecker_factors
from fedcord.algorithms.oneshot.servers.lpa import Posterior, solve_layer
from fedcord.algorithms.oneshot.servers.server import Server
from fedcord.algorithms.oneshot.servers.trainable_protos import (
    PrototypeTraining,
    class_gap,
    contrast_loss,
    train_prototypes,
)
from fedcord.core.contract import Env
from fedcord.core.errors import NumericalError
from fedcord.core.examples import ClientData, Examples
from tests.federation import IMAGE, VECTOR, env, examples


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spd(size: int, seed: int) -> Tensor:
    root = drawn(size, 2 * size, seed=seed)
    return root @ root.T / (2 * size)


def upload(server: Server, here: Env, client: int, values: dict[str, object]) -> Member:
    network = here.task.initial_network(torch.Generator().manual_seed(client))
    prototypes = drawn(3, int(network.feature_dim), seed=client)  # type: ignore[arg-type]
    own = examples(10, client, values)
    extra = server.extra_upload(network, prototypes, ClientData(own, own, own), here.at(client))
    return Member(encoder_tensors(network), prototypes, torch.ones(3), 10.0 * (client + 1), extra)


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
@pytest.mark.parametrize("damping", [0.01, 0.3])
def test_28_lpa_with_identity_factors_is_the_weighted_mean(
    values: dict[str, object], damping: float
) -> None:
    server, here = Server(kind="lpa", posterior=Posterior(damping=damping)), env(values)
    uploads = {k: upload(server, here, k, values) for k in range(3)}
    plain = {
        k: dataclasses.replace(m, extra={n: torch.eye(len(t)) for n, t in m.extra.items()})
        for k, m in uploads.items()
    }
    mean = Server(kind="param_avg")
    wanted, found = mean.fuse(plain, Common(), here), server.fuse(plain, Common(), here)
    assert wanted.keys() == found.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6)
    curved = server.fuse(uploads, Common(), here)
    assert any(not torch.allclose(curved[n], t, atol=1e-3) for n, t in wanted.items())


def test_28_lpa_damps_both_factors_by_the_root_of_one_minus_rho() -> None:
    """By default with the authors' ρ = 0.999: singular factors become √0.001 on the diagonal."""
    a, b = torch.diag(torch.tensor([4.0, 0.0])), torch.diag(torch.tensor([0.0, 9.0]))
    m = [drawn(2, 2, seed=1), drawn(2, 2, seed=2)]
    w = torch.tensor([0.75, 0.25], dtype=torch.float64)
    swapped = solve_layer([a, a.flip(0, 1)], [b, b.flip(0, 1)], m, w, Posterior(tolerance=1e-12))
    root = 0.001**0.5
    inputs = [[4 + root, root], [root, 4 + root]]
    outputs = [[root, 9 + root], [9 + root, root]]
    for row in range(2):
        for column in range(2):  # diagonal factors: every weight has a weighted mean of its own
            share = [float(w[i]) * outputs[i][row] * inputs[i][column] for i in range(2)]
            mean = sum(p * float(m[i][row, column]) for i, p in enumerate(share)) / sum(share)
            assert float(swapped[row, column]) == pytest.approx(mean, rel=1e-5)


def test_28_lpa_solves_the_dense_system_to_its_tolerance() -> None:
    ins, outs = 5, 4
    a = [spd(ins, s) for s in (1, 2, 3)]
    b = [spd(outs, s) for s in (4, 5, 6)]
    m = [drawn(outs, ins, seed=s) for s in (7, 8, 9)]
    w = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    posterior = Posterior(damping=0.01, tolerance=1e-10)
    found = solve_layer(a, b, m, w, posterior)
    # vec of rows: B M A = (B ⊗ Aᵀ) vec(M)
    left, right = np.zeros((ins * outs, ins * outs)), np.zeros(ins * outs)
    for i in range(3):
        damped_a = a[i].double().numpy() + 0.01 * np.eye(ins)
        damped_b = b[i].double().numpy() + 0.01 * np.eye(outs)
        operator = float(w[i]) * np.kron(damped_b, damped_a.T)
        left += operator
        right += operator @ m[i].double().numpy().reshape(-1)
    wanted = np.linalg.solve(left, right).reshape(outs, ins)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-7)
    loose = solve_layer(a, b, m, w, Posterior(damping=0.01, tolerance=1e-2)).numpy()
    residual = np.linalg.norm(right - left @ loose.reshape(-1))
    assert 1e-10 < residual / np.linalg.norm(right) <= 1e-2


def test_28_lpa_says_so_when_it_cannot_reach_the_tolerance() -> None:
    a, b = [spd(30, 1), 100 * spd(30, 2)], [100 * spd(20, 3), spd(20, 4)]
    m = [drawn(20, 30, seed=5), drawn(20, 30, seed=6)]
    w = torch.tensor([0.5, 0.5], dtype=torch.float64)
    with pytest.raises(NumericalError, match=r"after 1 steps.*raise server.posterior.damping"):
        solve_layer(a, b, m, w, Posterior(tolerance=1e-12, max_iterations=1))


def note(
    seen: dict[str, tuple[Tensor, Tensor]],
    name: str,
    _: nn.Module,
    given: tuple[Tensor, ...],
    output: Tensor,
) -> None:
    output.retain_grad()
    seen[name] = (given[0].detach(), output)


def per_example_factors(
    network: nn.Module, prototypes: Tensor, data: Examples, here: Env
) -> dict[str, Tensor]:
    """Each example alone, each patch cut out by hand, each product as an outer product."""
    layers = factored_layers(network)
    out: dict[str, Tensor] = {}

    def add(name: str, row: Tensor, scale: float) -> None:
        product = torch.outer(row, row).double() * scale / len(data)
        out[name] = out.get(name, torch.zeros_like(product)) + product

    for i in range(len(data)):
        seen: dict[str, tuple[Tensor, Tensor]] = {}
        hooks = []
        for name, layer in layers.items():
            hooks.append(layer.register_forward_hook(functools.partial(note, seen, name)))
        z = F.normalize(network.features(here.task.prepare(data.inputs[i : i + 1])), dim=1)  # type: ignore[operator]
        scores = z @ prototypes.T
        scores.retain_grad()
        (-scores.log_softmax(1)[0, data.labels[i]]).backward()
        for hook_handle in hooks:
            hook_handle.remove()
        for name, layer in layers.items():
            x, y = seen[name]
            assert y.grad is not None
            ending = torch.ones(1) if layer.bias is not None else torch.zeros(0)
            if isinstance(layer, nn.Linear):
                add(f"{name}.inputs", torch.cat([x[0], ending]), 1.0)
                add(f"{name}.outputs", y.grad[0], 1.0)
                continue
            k, s, p = layer.kernel_size[0], layer.stride[0], layer.padding[0]
            assert isinstance(p, int)
            padded = F.pad(x[0], (p, p, p, p))
            height, width = y.shape[2:]
            for r in range(height):
                for c in range(width):
                    patch = padded[:, r * s : r * s + k, c * s : c * s + k].reshape(-1)
                    add(f"{name}.inputs", torch.cat([patch, ending]), 1 / (height * width))
                    add(f"{name}.outputs", y.grad[0, :, r, c], 1.0)
        assert scores.grad is not None
        add("prototypes.inputs", z[0].detach(), 1.0)
        add("prototypes.outputs", scores.grad[0], 1.0)
    return out


@pytest.mark.parametrize(
    "values",
    [
        VECTOR,
        {**IMAGE, "models": ["resnet10,width=2"]},
        {**IMAGE, "models": ["cnn:3-4,kernel=3,fc=6"]},
    ],
    ids=["mlp", "resnet", "cnn"],
)
def test_kronecker_factors_against_outer_products_one_by_one(values: dict[str, object]) -> None:
    here = env(values)
    network = here.task.initial_network(torch.Generator().manual_seed(2)).eval()
    prototypes = drawn(3, int(network.feature_dim))  # type: ignore[arg-type]
    data = examples(4, 5, values)
    found = kronecker_factors(network, prototypes, data, here, batch_size=3)
    wanted = per_example_factors(network, prototypes, data, here)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        scale = float(tensor.abs().max())
        torch.testing.assert_close(
            found[name].double(), tensor, rtol=1e-3, atol=1e-4 * scale + 1e-9, msg=name
        )


def test_factors_of_no_example_are_zero_and_agree_with_their_spec() -> None:
    server, here = Server(kind="lpa"), env(IMAGE)
    network = here.task.initial_network(torch.Generator().manual_seed(2))
    prototypes = drawn(3, int(network.feature_dim))  # type: ignore[arg-type]
    nothing = examples(0, 0, IMAGE)
    found = server.extra_upload(
        network, prototypes, ClientData(nothing, nothing, nothing), here.at(0)
    )
    spec = server.extra_spec(here)
    assert {n: (tuple(t.shape), t.dtype) for n, t in found.items()} == {
        n: (s.shape, s.dtype) for n, s in spec.items()
    }
    assert all(not t.any() for t in found.values())
    assert not any(name.startswith("head") for name in found)
    assert Server().extra_spec(here) == {}


def test_29_plan_b_with_a_strong_pull_gives_the_anchors() -> None:
    anchors = F.normalize(drawn(3, 6, seed=1), dim=1)
    own = drawn(4, 3, 6, seed=2)
    mean = own.mean(0)
    far = PrototypeTraining(epochs=60, lr=0.05, start="mean", etf_weight=1e6)
    learned = train_prototypes(far, own, mean, anchors)
    assert float((learned - anchors).abs().max()) < 0.05
    free = train_prototypes(dataclasses.replace(far, etf_weight=0.0), own, mean, anchors)
    assert float((free - anchors).abs().max()) > 0.3


@pytest.mark.parametrize("contrast", ["dot", "fedtgp"])
def test_plan_b_contrast_against_the_written_out_formula(contrast: str) -> None:
    own, learned = drawn(4, 5, seed=3), drawn(4, 5, seed=4)
    margin = 0.7
    total = 0.0
    for c in range(4):
        scores = []
        for k in range(4):
            if contrast == "dot":
                scores.append(sum(float(own[c, d]) * float(learned[k, d]) for d in range(5)))
            else:
                squared = sum((float(own[c, d]) - float(learned[k, d])) ** 2 for d in range(5))
                scores.append(-(math.sqrt(squared) + (margin if k == c else 0.0)))
        total += -scores[c] + math.log(sum(math.exp(s) for s in scores))
    found = float(contrast_loss(own, learned, contrast, margin))
    assert found == pytest.approx(total / 4, rel=1e-5)


def test_plan_b_gradient_is_finite_where_a_member_sits_on_the_learned_prototype() -> None:
    learned = drawn(3, 4).requires_grad_()
    contrast_loss(learned.detach().clone(), learned, "fedtgp", 1.0).backward()
    assert learned.grad is not None
    assert bool(torch.isfinite(learned.grad).all())


def test_plan_b_margin_is_the_widest_of_the_nearest_gaps() -> None:
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])
    assert class_gap(points) == pytest.approx(5.0)  # nearest gaps: 5, 1, 1
    assert class_gap(points[:1]) == 0.0


def test_plan_b_first_step_is_adam_on_the_stated_loss() -> None:
    anchors, own = F.normalize(drawn(3, 4, seed=1), dim=1), drawn(1, 3, 4, seed=2)
    training = PrototypeTraining(epochs=1, lr=0.01, etf_weight=0.5)
    found = train_prototypes(training, own, own[0], anchors)
    g = anchors.clone().requires_grad_()
    loss = F.cross_entropy(own[0] @ g.T, torch.arange(3)) + 0.5 * ((g - anchors) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, g)
    torch.testing.assert_close(found, anchors - 0.01 * gradient.sign(), rtol=1e-3, atol=1e-5)
    nothing = train_prototypes(dataclasses.replace(training, epochs=0), own, own[0], anchors)
    assert torch.equal(nothing, anchors)


def test_plan_b_learns_without_anchors_where_it_needs_none() -> None:
    own = drawn(2, 3, 4)
    free = PrototypeTraining(start="mean", etf_weight=0.0, epochs=2)
    learned = train_prototypes(free, own, own.mean(0), None)
    assert 0 < float((learned - own.mean(0)).abs().max()) < 0.01


def test_plan_b_that_leaves_the_numbers_names_the_learning_rate() -> None:
    own = drawn(2, 3, 4) * 1e30
    with pytest.raises(NumericalError, match=r"lower server.training.lr \(now 0.001\)"):
        train_prototypes(PrototypeTraining(start="mean", etf_weight=0), own * 1e9, own[0], None)
