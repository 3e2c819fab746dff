"""FedHPro's client losses (specification prototype, sections 2.5, 2.11, 2.12)."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.ops.vectors import unit
from tests import federation

PAPER, OFF = HyperObjective(), HyperObjective(margin="off")
CODE = HyperObjective(margin="reference")
LABELS = torch.tensor([0, 2, 1, 2, 3])


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def similarities() -> Tensor:
    return (draw(5, 4) * 0.4).clamp(-1, 1).double()


def slow_similarity(z: Tensor, hyper: Tensor) -> list[list[float]]:
    """Mean cosine of every feature to the M vectors of every class, pair by pair."""

    def cosine(a: Tensor, b: Tensor) -> float:
        return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    return [[sum(cosine(row, u) for u in own) / len(own) for own in hyper] for row in z]


@pytest.mark.parametrize("margin", [0.0, 0.3, -0.2])
def test_2_5_paper_form_equals_the_slow_loop(margin: float) -> None:
    s, tau = similarities(), 0.05
    losses = []
    for row, label in zip(s.tolist(), LABELS.tolist(), strict=True):
        far = sum(math.exp((v + margin) / tau) for j, v in enumerate(row) if j != label)
        losses.append(math.log(1 + far / math.exp(row[label] / tau)))
    found = PAPER.contrast(s, LABELS, margin)
    assert float(found) == pytest.approx(sum(losses) / 5, rel=1e-9)


@pytest.mark.parametrize("margin", [0.0, 3.0, 45.0, -1e-3])
def test_2_5_code_form_equals_the_slow_loop(margin: float) -> None:
    s, tau = similarities(), 0.05
    losses = [
        math.log(sum(math.exp(v / tau) for v in row) + margin) - row[label] / tau
        for row, label in zip(s.tolist(), LABELS.tolist(), strict=True)
    ]
    assert float(CODE.contrast(s, LABELS, margin)) == pytest.approx(sum(losses) / 5, rel=1e-6)


def test_2_5_a_negative_sum_of_the_code_form_stays_finite() -> None:
    s = torch.full((2, 3), -1.0, requires_grad=True)
    loss = CODE.contrast(s, torch.tensor([0, 1]), -1.0)
    (gradient,) = torch.autograd.grad(loss, s)
    assert math.isfinite(float(loss.detach()))
    assert bool(torch.isfinite(gradient).all())


def test_2_12_8_without_margin_it_is_cross_entropy_of_similarities() -> None:
    s = similarities()
    wanted = float(F.cross_entropy(s / 0.05, LABELS))
    for objective in (PAPER, CODE, OFF):
        assert float(objective.contrast(s, LABELS, 0.0)) == pytest.approx(wanted, rel=1e-9)
    assert float(OFF.contrast(s, LABELS, 5.0)) == pytest.approx(wanted, rel=1e-9)


def test_2_12_8_it_is_positive_and_increases_with_the_margin() -> None:
    s = similarities()
    for objective in (PAPER, CODE):
        values = [float(objective.contrast(s, LABELS, d)) for d in (0.0, 0.1, 0.5, 1.0)]
        assert 0 < values[0] < values[1] < values[2] < values[3]


def test_2_9_g_the_codes_reduction_divides_by_the_batch_once_more() -> None:
    s = similarities()
    code = replace(PAPER, contrast_reduction="reference")
    assert float(code.contrast(s, LABELS, 0.1)) * 5 == pytest.approx(
        float(PAPER.contrast(s, LABELS, 0.1))
    )


@pytest.mark.parametrize("dim", [4, 64])
def test_2_12_9_alignment_is_one_minus_cosine_over_d(dim: int) -> None:
    z, target = unit(draw(6, dim).abs()), unit(draw(6, dim, seed=1).abs())
    assert float((z - target).abs().max()) < 1
    cosines = (z * target).sum(1)
    mean = float((1 - cosines).mean())
    assert float(PAPER.alignment(z, target)) == pytest.approx(mean / dim, rel=1e-5)
    summed = replace(PAPER, alignment_reduction="sum")
    assert float(summed.alignment(z, target)) == pytest.approx(mean, rel=1e-5)


def test_2_12_9_alignment_is_zero_iff_directions_agree() -> None:
    z = unit(draw(6, 8))
    assert float(PAPER.alignment(z, z.clone())) == 0
    assert float(PAPER.alignment(z, unit(draw(6, 8, seed=1)))) > 0


def slow_margin(means: Tensor, is_unit: bool) -> float:
    rows = [row / row.norm() if is_unit and row.norm() > 0 else row for row in means.double()]
    pairs = [(a, b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
    return sum(float(a @ b) for a, b in pairs) / (len(rows) - 1) ** 2


@pytest.mark.parametrize("kind", ["normalised", "raw"])
def test_2_5_margin_equals_the_slow_loop(kind: str) -> None:
    means = draw(6, 7) * 3
    means[2] = 0  # a class the client lacks
    found = replace(PAPER, margin_prototypes=kind).client_margin(means)
    assert found == pytest.approx(slow_margin(means, kind == "normalised"), rel=1e-6)


@pytest.mark.parametrize("held", [2, 5, 10])
def test_2_12_10_margin_bounds(held: int) -> None:
    classes = 10
    for seed in range(20):
        means = torch.zeros(classes, 6)
        means[:held] = draw(held, 6, seed=seed)
        found = PAPER.client_margin(means)
        low, high = -held / (classes - 1) ** 2, held * (held - 1) / (classes - 1) ** 2
        assert low - 1e-9 <= found <= high + 1e-9
        assert PAPER.client_margin(means.abs()) >= 0


def test_2_12_10_margin_of_equal_orthogonal_and_lone_prototypes() -> None:
    equal = draw(1, 6).expand(10, -1)
    assert PAPER.client_margin(equal) == pytest.approx(10 / 9, rel=1e-6)
    assert PAPER.client_margin(torch.eye(5)) == pytest.approx(0, abs=1e-9)
    alone = torch.zeros(5, 4)
    alone[3] = 2.0
    assert PAPER.client_margin(alone) == 0  # 2.11: a client with one class
    assert PAPER.client_margin(torch.zeros(5, 4)) == 0


def loss_of(objective: HyperObjective, hyper: Tensor, margin: float = 0.0) -> tuple[Tensor, Tensor]:
    """The whole loss on a small network, and the network's features."""
    network = federation.task().initial_network(torch.Generator().manual_seed(0))
    held = federation.examples(9, 0)
    loss = objective.loss(hyper, margin)(network, held.inputs, held.labels)
    features: Tensor = network.features(held.inputs)  # type: ignore[operator]
    return loss, features.detach()


@pytest.mark.parametrize("num_vectors", [1, 5])
def test_2_5_total_is_the_sum_of_its_terms(num_vectors: int) -> None:
    hyper = draw(3, num_vectors, 16)
    objective = HyperObjective(contrast_weight=0.7, alignment_weight=3.0)
    held = federation.examples(9, 0)
    total, z = loss_of(objective, hyper, 0.2)
    plain, _ = loss_of(HyperObjective(contrast_weight=0.0, alignment_weight=0.0), hyper)
    s = torch.tensor(slow_similarity(z, hyper))
    contrast = PAPER.contrast(s, held.labels, 0.2)
    centres = torch.stack([own.mean(0) / own.mean(0).norm() for own in hyper])
    align = F.smooth_l1_loss(z / z.norm(dim=1, keepdim=True), centres[held.labels])
    wanted = float(plain.detach()) + 0.7 * float(contrast) + 3.0 * float(align)
    assert float(total.detach()) == pytest.approx(wanted, rel=1e-5)


def test_2_12_13_mean_directions_are_at_most_one_long() -> None:
    hyper = draw(10, 5, 256)
    lengths = unit(hyper).mean(1).norm(dim=1)
    assert float(lengths.max()) <= 1
    assert lengths.tolist() == pytest.approx([5**-0.5] * 10, rel=0.2)  # 2.6: random vectors


def test_2_12_15_hyper_prototypes_get_no_gradient() -> None:
    """15.4: constants at the client, though nothing stops a caller from passing a leaf."""
    hyper = draw(3, 5, 16)
    loss, _ = loss_of(HyperObjective(), hyper, 0.1)
    loss.backward()
    assert not hyper.requires_grad
    assert hyper.grad is None


def test_2_11_dead_features_leave_everything_finite() -> None:
    z = torch.zeros(2, 4, requires_grad=True)
    direction = unit(z)
    target = unit(draw(2, 4))
    s = direction @ unit(draw(3, 4, seed=2)).T
    labels = torch.tensor([0, 1])
    loss = PAPER.contrast(s, labels, 0.1) + PAPER.alignment(direction, target)
    (gradient,) = torch.autograd.grad(loss, z)
    assert torch.equal(direction.detach(), torch.zeros(2, 4))
    assert math.isfinite(float(loss.detach()))
    assert torch.equal(gradient, torch.zeros(2, 4))


def test_2_5_negatives_include_classes_the_client_lacks() -> None:
    network = federation.task().initial_network(torch.Generator().manual_seed(0))
    inputs, only_class_0 = federation.examples(9, 0).inputs, torch.zeros(9, dtype=torch.int64)
    near = draw(3, 5, 16)
    far = near.clone()
    with torch.no_grad():
        near[2] = network.features(inputs).mean(0)  # type: ignore[operator]
        values = [float(OFF.loss(u, 0.0)(network, inputs, only_class_0)) for u in (near, far)]
    assert values[0] > values[1] + 0.1
