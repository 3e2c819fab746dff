"""FedHPro's server (specification prototype, sections 2.6, 2.7, 2.11, 2.12)."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.hyperprototype.matching import (
    Matching,
    gradient_gap,
    induced_gradients,
)
from fedcord.algorithms.hyperprototype.owners import OwnerMean
from fedcord.algorithms.hyperprototype.retraining import (
    Retraining,
    classifier_gradients,
    row_distance,
)
from fedcord.algorithms.kit.descent import linear_start
from fedcord.algorithms.kit.linear_head import Head
from fedcord.core.errors import NumericalError
from tests import federation

CLASSES, VECTORS, DIM = 10, 5, 64
EVERYONE = torch.ones(CLASSES, dtype=torch.bool)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def head(seed: int = 0, dim: int = DIM) -> Head:
    return Head(*linear_start(CLASSES, dim, generator(seed)))


def hyper(seed: int = 1, dim: int = DIM) -> Tensor:
    return torch.randn(CLASSES, VECTORS, dim, generator=generator(seed))


def targets(of: Head, seed: int = 2) -> Tensor:
    """Gradients of features that look real: not negative, around a centre for each class."""
    dim = of.weight.shape[1]
    centres = torch.randn(CLASSES, 1, dim, generator=generator(seed))
    noise = torch.randn(CLASSES, 100, dim, generator=generator(seed + 1))
    features = (centres + noise).relu()
    return induced_gradients(features, torch.arange(CLASSES), of)


def test_2_6_induced_gradient_is_that_of_autograd() -> None:
    classifier, vectors = head(), hyper().requires_grad_()
    found = induced_gradients(vectors, torch.arange(CLASSES), classifier)
    for label in range(CLASSES):
        scores = vectors[label] @ classifier.weight.T + classifier.bias
        loss = F.cross_entropy(scores, torch.full((VECTORS,), label), reduction="sum")
        (by_vector,) = torch.autograd.grad(loss, vectors)
        torch.testing.assert_close(found[label].detach(), by_vector[label].mean(0))


def test_2_12_1_the_metrics_equal_their_slow_forms() -> None:
    a = torch.randn(3, 5, generator=generator(0)).double()
    b = torch.randn(3, 5, generator=generator(1)).double()
    for row in range(3):
        x, y = a[row].tolist(), b[row].tolist()
        dot = sum(p * q for p, q in zip(x, y, strict=True))
        norms = math.sqrt(sum(p * p for p in x) * sum(q * q for q in y))
        coordinate = sum(1 - p * q / (abs(p) * abs(q) + 1e-6) for p, q in zip(x, y, strict=True))
        squared = sum((p - q) ** 2 for p, q in zip(x, y, strict=True))
        for metric, wanted in (
            ("cosine", 1 - dot / norms),
            ("coordinate", coordinate),
            ("mse", squared),
        ):
            assert float(gradient_gap(a, b, metric)[row]) == pytest.approx(wanted, rel=1e-9)


def test_2_12_3_small_steps_never_raise_the_cosine_loss() -> None:
    classifier = head()
    state, wanted, losses = hyper(), targets(classifier), []
    for _ in range(15):
        found = Matching(steps=1, lr=1.0).fit(state, wanted, EVERYONE, classifier, False)
        losses.append(found.losses)
        state = found.hyper
    assert all(after <= before + 1e-6 for before, after in losses)
    assert losses[-1][1] < losses[0][0]
    assert all(0 <= found.distances[i] <= 2 for i in (0, 1))


def test_2_12_4_coordinate_metric_counts_signs() -> None:
    g = torch.randn(4, DIM, generator=generator(0)).sign() * 3
    assert gradient_gap(g, g, "coordinate").tolist() == pytest.approx([0] * 4, abs=1e-4)
    assert gradient_gap(g, -g, "coordinate").tolist() == pytest.approx([2 * DIM] * 4, rel=1e-5)
    other = torch.randn(4, DIM, generator=generator(1))
    found = gradient_gap(g, other, "coordinate")
    assert bool(((found >= 0) & (found <= 2 * DIM)).all())
    unlike = 2 * (g.sign() != other.sign()).sum(1)
    assert found.tolist() == pytest.approx(unlike.tolist(), abs=0.1)


@pytest.mark.parametrize("metric", ["cosine", "coordinate", "mse"])
def test_2_12_5_hyper_prototypes_move_within_the_row_space(metric: str) -> None:
    classifier, start = head(), hyper()
    lr = {"cosine": 10.0, "coordinate": 0.1, "mse": 1.0}[metric]
    moved = Matching(metric=metric, lr=lr).fit(
        start, targets(classifier), EVERYONE, classifier, False
    )
    step = (moved.hyper - start).double().reshape(-1, DIM)
    _, _, basis = torch.linalg.svd(classifier.weight.double(), full_matrices=False)
    outside = step - step @ basis.T @ basis
    assert float(step.norm()) > 0.05
    assert float(outside.norm()) < 1e-4 * float(step.norm())


def test_2_12_6_positive_rescaling_of_targets_changes_nothing() -> None:
    classifier, start = head(), hyper()
    wanted = targets(classifier)
    one = Matching().fit(start, wanted, EVERYONE, classifier, False)
    two = Matching().fit(start, 50 * wanted, EVERYONE, classifier, False)
    torch.testing.assert_close(one.hyper, two.hyper, atol=1e-5, rtol=1e-4)
    assert one.losses == pytest.approx(two.losses, rel=1e-4)
    assert not torch.allclose(one.hyper, start)


def test_2_11_classes_nobody_owns_keep_their_hyper_prototypes() -> None:
    classifier, start = head(), hyper()
    owned = EVERYONE.clone()
    owned[[2, 7]] = False
    wanted = targets(classifier)
    found = Matching().fit(start, wanted, owned, classifier, False)
    kept = (found.hyper == start).flatten(1).all(1)
    assert kept.tolist() == (~owned).tolist()
    assert found.num_classes == 8


def test_2_11_saturated_gradients_are_skipped() -> None:
    classifier, start = head(), hyper()
    wanted = targets(classifier)
    wanted[4] = 1e-14
    found = Matching().fit(start, wanted, EVERYONE, classifier, False)
    assert torch.equal(found.hyper[4], start[4])
    none = Matching().fit(start, torch.zeros_like(wanted), EVERYONE, classifier, False)
    assert torch.equal(none.hyper, start)
    assert none.num_classes == 0


def test_2_11_a_tiny_induced_gradient_is_never_nan() -> None:
    """Hyper-prototypes so far out that the softmax is exactly one-hot."""
    classifier = head()
    far = 1e6 * classifier.weight[:, None].repeat(1, VECTORS, 1)
    for metric in ("cosine", "coordinate", "mse"):
        found = Matching(metric=metric).fit(far, targets(classifier), EVERYONE, classifier, False)
        assert bool(torch.isfinite(found.hyper).all())
        assert all(math.isfinite(value) for value in (*found.losses, *found.distances))


def test_steps_that_explode_are_reported() -> None:
    classifier = head()
    wild = Matching(metric="mse", lr=1e38)
    with pytest.raises(NumericalError, match=r"lower matching\.lr"):
        wild.fit(hyper(), 1e3 * targets(classifier), EVERYONE, classifier, False)


def test_2_6_the_codes_factor_matters_to_the_coordinate_metric_only() -> None:
    classifier, start = head(), hyper()
    wanted = targets(classifier) / 1000
    for metric, same in (("cosine", True), ("coordinate", False)):
        method = Matching(metric=metric, lr=1.0)
        one = method.fit(start, wanted, EVERYONE, classifier, True)
        two = method.fit(start, wanted, EVERYONE, classifier, False)
        assert (one.losses == pytest.approx(two.losses, rel=1e-4)) == same


@pytest.mark.parametrize(
    ("method", "same_head", "loss", "distance", "displacement"),
    [
        (Matching(lr=0.1), True, (0.084, 0.083), (0.0084, 0.0083), 0.005),
        (Matching(metric="coordinate", lr=0.1), True, (1269, 1242), (0.0084, 0.0064), 1.2),
        (Matching(lr=10.0), True, (0.084, 0.047), (0.0084, 0.0047), 0.43),
        (Matching(lr=100.0), True, (0.084, 0.0017), (0.0084, 0.0002), 1.7),
        (Matching(lr=0.1), False, (9.945, 9.944), (0.994, 0.994), 0.007),
        (Matching(metric="coordinate", lr=0.1), False, (2550, 2529), (0.994, 0.986), 1.1),
    ],
    ids=["cosine", "coordinate", "cosine-10", "cosine-100", "unrelated", "coordinate-unrelated"],
)
def test_2_6_behaviour_table(
    method: Matching,
    same_head: bool,
    loss: tuple[float, float],
    distance: tuple[float, float],
    displacement: float,
) -> None:
    """C = 10, M = 5, d = 256, one server call; features are drawn anew, so only roughly.

    The coordinate rows have the code's scales, 1/M and 1/n with n = 100 examples.
    """
    in_code = method.metric == "coordinate"
    start = hyper(dim=256)
    wanted = targets(head(0 if same_head else 9, 256)) / (100 if in_code else 1)
    found = method.fit(start, wanted, EVERYONE, head(0, 256), in_code)
    moved = float((found.hyper - start).norm(dim=2).mean())
    assert float(start.norm(dim=2).mean()) == pytest.approx(16, rel=0.05)
    rough = 0.5 if same_head else 0.15
    assert found.losses == pytest.approx(loss, rel=rough)
    assert found.distances == pytest.approx(distance, rel=rough, abs=1e-4)
    assert moved == pytest.approx(displacement, rel=0.4)


def test_2_6_3_means_count_owners_only() -> None:
    heard = OwnerMean(3)
    heard.add(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([True, False, True]))
    heard.add(torch.tensor([[5.0, 0.0]]), torch.tensor([True, False, False]))
    assert heard.mean().tolist() == [[3.0, 1.0], [0.0, 0.0], [3.0, 4.0]]
    assert heard.num_owners.tolist() == [2, 0, 1]


def test_consistency_is_the_mean_cosine_of_pairs_of_owners() -> None:
    rows = torch.randn(4, 3, 5, generator=generator(0))
    present = torch.tensor(
        [[True, True, False], [True, False, True], [True, True, False], [False, False, False]]
    )
    heard = OwnerMean(3)
    for own, where in zip(rows, present, strict=True):
        heard.add(own[where], where)
    cosines = []
    for label in range(3):
        owners = [k for k in range(4) if present[k, label]]
        cosines += [
            float(F.cosine_similarity(rows[a, label], rows[b, label], dim=0))
            for a in owners
            for b in owners
            if a < b
        ]
    assert len(cosines) == 4  # three owners of class 0, two of class 1, one of class 2
    assert heard.consistency() == pytest.approx(sum(cosines) / 4, rel=1e-5)


def test_consistency_needs_two_owners() -> None:
    heard = OwnerMean(2)
    heard.add(torch.ones(1, 3), torch.tensor([True, False]))
    heard.add(torch.ones(1, 3), torch.tensor([False, True]))
    heard.add(torch.zeros(1, 3), torch.tensor([True, False]))  # no direction
    assert heard.consistency() is None


QUICK = Retraining(vectors=6, matching_steps=30, matching_lr=1.0, epochs=30, lr=0.1)


def meta(seed: int = 3) -> Tensor:
    return torch.randn(CLASSES, 6, DIM, generator=generator(seed))


def test_2_7_classifier_gradients_are_those_of_autograd() -> None:
    classifier, vectors = head(), meta()
    weight, bias = (t.clone().requires_grad_() for t in (classifier.weight, classifier.bias))
    weights, biases = classifier_gradients(vectors, torch.arange(CLASSES), classifier)
    for label in range(CLASSES):
        scores = vectors[label] @ weight.T + bias
        loss = F.cross_entropy(scores, torch.full((6,), label))
        by_weight, by_bias = torch.autograd.grad(loss, (weight, bias))
        torch.testing.assert_close(weights[label], by_weight)
        torch.testing.assert_close(biases[label], by_bias)


def test_2_7_row_distance_is_smoothed_cosine_distance() -> None:
    a = torch.randn(2, 3, 4, generator=generator(0)).double()
    b = torch.randn(2, 3, 4, generator=generator(1)).double()
    found = row_distance(a, b)
    for i in range(2):
        for r in range(3):
            lengths = float(a[i, r].norm() * b[i, r].norm())
            wanted = 1 - float(a[i, r] @ b[i, r]) / (lengths + 1e-6)
            assert float(found[i, r]) == pytest.approx(wanted, rel=1e-9)
    assert row_distance(torch.zeros(1, 4), b[0, :1].float()).tolist() == [1.0]


def test_2_7_meta_features_come_nearer_where_a_class_is_owned() -> None:
    classifier, start = head(), meta()
    real = torch.randn(CLASSES, 20, DIM, generator=generator(8)).relu()
    weights, biases = classifier_gradients(real, torch.arange(CLASSES), classifier)
    owned = EVERYONE.clone()
    owned[3] = False

    def gap(vectors: Tensor) -> Tensor:
        own = classifier_gradients(vectors, torch.arange(CLASSES), classifier)
        return row_distance(own[0], weights).sum(1) + row_distance(own[1], biases)

    fitted = QUICK.fit_vectors(start, weights, biases, owned, classifier)
    assert bool((gap(fitted)[owned] < gap(start)[owned]).all())
    assert torch.equal(fitted[3], start[3])
    nobody = torch.zeros_like(owned)
    assert torch.equal(QUICK.fit_vectors(start, weights, biases, nobody, classifier), start)


def test_2_7_the_new_classifier_equals_plain_sgd() -> None:
    """Against torch.optim and autograd, with the same first weights and order."""
    env, vectors = federation.env(), meta()
    found = dataclasses.replace(QUICK, epochs=3, batch_size=7).train(vectors, env)
    layer = torch.nn.Linear(DIM, CLASSES)
    weight, bias = linear_start(CLASSES, DIM, env.generator("retraining-start"))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    inputs, labels = vectors.reshape(-1, DIM), torch.arange(CLASSES).repeat_interleave(6)
    order = env.generator("retraining-order")
    for _ in range(3):
        for batch in torch.randperm(60, generator=order).split(7):
            optimizer.zero_grad()
            F.cross_entropy(layer(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    torch.testing.assert_close(found.weight, layer.weight.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.bias, layer.bias.detach(), atol=1e-5, rtol=1e-4)


def test_2_7_the_new_classifier_tells_meta_features_apart() -> None:
    vectors = meta()
    found = QUICK.train(vectors, federation.env())
    answers = (vectors @ found.weight.T + found.bias).argmax(2)
    assert float((answers == torch.arange(CLASSES)[:, None]).float().mean()) > 0.9
