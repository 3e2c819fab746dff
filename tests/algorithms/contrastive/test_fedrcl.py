"""Invariants of FedRCL (specification prototype, section 6), and its losses against slow loops."""

import math

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.fedrcl import FedRCL, stages_and_scores
from fedcord.algorithms.contrastive.relaxed_contrast import likeness_penalty, relaxed_contrast
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Update
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.core.tensors import hash_tensors
from fedcord.losses.supcon import supervised_contrast
from tests import federation

TAU = 0.05
LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 1, 0])


def directions(count: int = 8, dim: int = 5, seed: int = 0) -> Tensor:
    vectors = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors.double(), dim=1)


def slow_terms(
    s: list[list[float]], labels: list[int], pos: int, neg: int, tau: float, threshold: float
) -> tuple[list[float], list[float]]:
    """SCL and PEN of every example as the code form says, with loops and lists."""
    contrast, penalty = [], []
    for i, label in enumerate(labels):
        mates = sorted(s[i][j] for j, other in enumerate(labels) if other == label)[:pos]
        others = sorted((s[i][j] for j, o in enumerate(labels) if o != label), reverse=True)[:neg]
        each = [
            -math.log(
                math.exp(p / tau) / (math.exp(p / tau) + sum(math.exp(n / tau) for n in others))
            )
            for p in mates
        ]
        contrast.append(sum(each) / len(each) if others else 0.0)
        rest = sorted(s[i][j] for j, o in enumerate(labels) if o == label and j != i)[:pos]
        kept = [value if value >= threshold else -1.0 for value in rest] or [-1.0]
        penalty.append(math.log(1 + sum(math.exp((value - 1) / tau) for value in kept)))
    return contrast, penalty


@pytest.mark.parametrize(("pos", "neg"), [(1, 2), (2, 1), (3, 4)])
@pytest.mark.parametrize("threshold", [0.7, -0.2])
def test_6_code_form_equals_the_slow_loop(pos: int, neg: int, threshold: float) -> None:
    v = directions()
    s = v @ v.T
    wanted = slow_terms(s.tolist(), LABELS.tolist(), pos, neg, 0.3, threshold)
    contrast = relaxed_contrast(s, LABELS, pos, neg, 0.3)
    penalty = likeness_penalty(s, LABELS, pos, threshold, 0.3)
    # with several positives, missing ones are counted as −1 as well
    missing = [max(0, min(pos, 8) - max(int((c == LABELS).sum()) - 1, 1)) for c in LABELS.tolist()]
    wanted_penalty = [
        math.log(math.exp(p) + m * math.exp(-2 / 0.3))
        for p, m in zip(wanted[1], missing, strict=True)
    ]
    assert contrast.tolist() == pytest.approx(wanted[0], rel=1e-9)
    assert penalty.tolist() == pytest.approx(wanted_penalty, rel=1e-9)


def test_6_paper_form_is_supervised_contrast() -> None:
    v = directions()
    found = relaxed_contrast(v @ v.T, LABELS, "all", "all", 0.2).mean()
    assert float(found) == pytest.approx(float(supervised_contrast(v, LABELS, 0.2)), rel=1e-7)


def test_6_paper_form_of_the_penalty() -> None:
    v = directions()
    s, tau, threshold = v @ v.T, 0.2, 0.1
    found = likeness_penalty(s, LABELS, "all", threshold, tau)
    for i, label in enumerate(LABELS.tolist()):
        alike = [
            math.exp(float(s[i, j]) / tau)
            for j, other in enumerate(LABELS.tolist())
            if other == label and j != i and float(s[i, j]) > threshold
        ]
        # log(Σ e^{s/τ} + e^{1/τ}), less the constant 1/τ
        wanted = math.log(sum(alike) + math.exp(1 / tau)) - 1 / tau
        assert float(found[i]) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_6_the_hardest_positive_and_the_two_nearest_negatives() -> None:
    s = torch.eye(5, dtype=torch.float64)
    s[0] = torch.tensor([1.0, 0.2, 0.9, 0.5, 0.4])
    labels = torch.tensor([0, 0, 0, 1, 1])
    three = torch.cat([labels, torch.tensor([2])])
    wider = torch.eye(6, dtype=torch.float64)
    wider[0] = torch.tensor([1.0, 0.2, 0.9, 0.5, 0.4, -0.9])
    wanted = math.log(1 + math.exp((0.5 - 0.2) / TAU) + math.exp((0.4 - 0.2) / TAU))
    assert float(relaxed_contrast(s, labels, 1, 2, TAU)[0]) == pytest.approx(wanted)
    assert float(relaxed_contrast(wider, three, 1, 2, TAU)[0]) == pytest.approx(wanted)


def test_6_penalty_rises_above_the_threshold_and_is_constant_below() -> None:
    labels = torch.tensor([0, 0])

    def penalty(similarity: float) -> tuple[float, float]:
        s = torch.tensor([[1.0, similarity], [similarity, 1.0]], dtype=torch.float64)
        s.requires_grad_()
        value = likeness_penalty(s, labels, 1, 0.7, TAU).sum()
        (gradient,) = torch.autograd.grad(value, s)
        return float(value.detach()), float(gradient.abs().sum())

    below = [penalty(value) for value in (-0.5, 0.3, 0.69)]
    above = [penalty(value) for value in (0.7, 0.8, 0.95, 1.0)]
    assert len({value for value, _ in below}) == 1
    assert all(gradient == 0 for _, gradient in below)
    values = [value for value, _ in above]
    assert below[0][0] < values[0] < values[1] < values[2] < values[3]
    assert all(gradient > 0 for _, gradient in above)


@pytest.mark.parametrize(("pos", "neg"), [(1, 2), ("all", 2), (1, "all"), ("all", "all")])
@pytest.mark.parametrize(
    "labels", [[0], [0, 0, 0], [0, 1, 2], [0, 0, 1]], ids=["one", "one-class", "alone", "mixed"]
)
def test_6_edge_batches_are_finite_and_not_negative(
    labels: list[int], pos: int | str, neg: int | str
) -> None:
    y = torch.tensor(labels)
    v = directions(len(labels)).float().requires_grad_()
    contrast = relaxed_contrast(v @ v.T, y, pos, neg, TAU)
    penalty = likeness_penalty(v @ v.T, y, pos, 0.7, TAU)
    (gradient,) = torch.autograd.grad((contrast + penalty).sum(), v)
    assert bool(torch.isfinite(gradient).all())
    assert bool((contrast >= 0).all())
    assert bool((penalty >= 0).all())


def test_6_no_negatives_no_contrast() -> None:
    v = directions(3)
    found = relaxed_contrast(v @ v.T, torch.tensor([1, 1, 1]), 1, 2, TAU)
    assert torch.equal(found, torch.zeros(3, dtype=torch.float64))


def test_6_an_example_alone_in_its_class_is_its_own_positive() -> None:
    v = directions(3)
    s = v @ v.T
    found = relaxed_contrast(s, torch.tensor([0, 1, 2]), 1, 2, TAU)
    wanted = math.log(1 + sum(math.exp((float(s[0, j]) - 1) / TAU) for j in (1, 2)))
    assert float(found[0]) == pytest.approx(wanted, rel=1e-9)


def test_6_loss_ignores_the_length_of_features() -> None:
    network = federation.task().initial_network(torch.Generator().manual_seed(0))
    inputs = federation.examples(12, 0).inputs
    with torch.no_grad():
        (before,), _ = stages_and_scores(network, inputs)
        for tensor in network.linear_layers[0].parameters():  # type: ignore[index, union-attr]
            tensor.mul_(7.0)  # ReLU passes a positive factor on
        (after,), _ = stages_and_scores(network, inputs)
    torch.testing.assert_close(before, after)


def test_6_stages_are_the_pooled_maps_before_activation() -> None:
    task = federation.task(federation.IMAGE)
    network = task.initial_network(torch.Generator().manual_seed(0)).eval()
    inputs = task.prepare(federation.examples(6, 0, federation.IMAGE).inputs)
    with torch.no_grad():
        found, scores = stages_and_scores(network, inputs)
        maps = network.stages(inputs)  # type: ignore[operator]
        assert len(found) == 5
        for own, map_ in zip(found, maps, strict=True):
            pooled = map_.mean((2, 3))
            torch.testing.assert_close(own, pooled / pooled.norm(dim=1, keepdim=True))
            assert bool((own < 0).any())
        torch.testing.assert_close(scores, network(inputs))


@pytest.mark.parametrize("values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"])
@pytest.mark.parametrize("local", [LocalSGD(), LocalSGD(clip=10.0)], ids=["free", "clipped"])
def test_6_no_weights_is_fedavg_bit_for_bit(values: dict[str, object], local: LocalSGD) -> None:
    people, env = federation.population(values), federation.env(values)
    shared = FedAvg(local).init(env).shared
    data, here = people.client(0), env.at(0)
    plain = FedAvg(local).client_update(shared, {}, data, here).update.tensors
    off = FedRCL(contrast_weight=0.0, penalty_weight=0.0, local=local)
    assert hash_tensors(off.client_update(shared, {}, data, here).update.tensors) == hash_tensors(
        plain
    )
    for on in (FedRCL(penalty_weight=0.0, local=local), FedRCL(contrast_weight=0.0, local=local)):
        found = on.client_update(shared, {}, data, here).update.tensors
        assert hash_tensors(found) != hash_tensors(plain)


def test_6_gradients_are_clipped_at_10_by_default() -> None:
    assert FedRCL().local.clip == 10.0


def test_6_the_server_mean_is_by_examples_or_uniform() -> None:
    env = federation.env()
    state = FedRCL().init(env)
    low = {name: torch.zeros_like(t) for name, t in state.shared.items()}
    high = {name: torch.ones_like(t) for name, t in state.shared.items()}
    updates = [(0, Update(low, weight=1)), (1, Update(high, weight=3))]
    means = {
        kind: {
            float(value)
            for tensor in FedRCL(server_mean=kind)
            .aggregate(state, iter(updates), env)
            .shared.values()
            for value in tensor.unique()
        }
        for kind in ("examples", "uniform")
    }
    assert means == {"examples": {0.75}, "uniform": {0.5}}


def test_numbers_or_all() -> None:
    assert build(FedRCL, {"topk_pos": "all", "topk_neg": 3}).topk_pos == "all"
    for wrong in ("some", 0):
        with pytest.raises(ConfigError, match="topk_pos"):
            build(FedRCL, {"topk_pos": wrong})


def test_a_network_without_stages_is_mentioned() -> None:
    assert "no stages" in FedRCL().review(federation.task()).notes[0]
    assert FedRCL().review(federation.task(federation.IMAGE)).notes == ()
