import math

import pytest
import torch

from fedcord.losses.margin_contrast import distances, margin_contrast


def _case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    points = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    centres = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    return points, torch.tensor([0, 1, 2, 2, 1, 0]), centres


def _slow(
    points: torch.Tensor,
    labels: torch.Tensor,
    centres: torch.Tensor,
    margin: float,
    among: list[int],
) -> float:
    losses = []
    for point, label in zip(points.tolist(), labels.tolist(), strict=True):
        apart = {c: math.dist(point, centres[c].tolist()) for c in among}
        apart[label] += margin
        losses.append(apart[label] + math.log(sum(math.exp(-d) for d in apart.values())))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("margin", [0.0, 0.7, 5.0])
def test_it_is_the_cross_entropy_of_minus_distances(margin: float) -> None:
    points, labels, centres = _case()
    found = float(margin_contrast(points, labels, centres, margin))
    assert abs(found - _slow(points, labels, centres, margin, [0, 1, 2])) < 1e-9


def test_classes_that_do_not_compete_are_left_out() -> None:
    points, labels, centres = _case()
    kept = labels != 1
    candidates = torch.tensor([True, False, True])
    found = float(margin_contrast(points[kept], labels[kept], centres, 0.4, candidates))
    assert abs(found - _slow(points[kept], labels[kept], centres, 0.4, [0, 2])) < 1e-9


def test_8_9_and_10_8_a_margin_never_lowers_the_loss_of_an_example() -> None:
    points, labels, centres = _case()
    for row in range(len(points)):
        one = points[row : row + 1], labels[row : row + 1], centres
        losses = [float(margin_contrast(*one, margin)) for margin in (0.0, 0.1, 1.0, 10.0)]
        assert losses == sorted(losses)
        assert losses[0] < losses[-1]


def test_8_9_without_a_margin_the_nearest_centre_wins() -> None:
    _, _, centres = _case()
    labels = torch.arange(3)
    scores = -distances(centres, centres)
    assert torch.equal(scores.argmax(1), labels)
    expected = torch.nn.functional.cross_entropy(scores, labels)
    assert torch.allclose(margin_contrast(centres, labels, centres, 0.0), expected)


def test_a_point_on_its_centre_has_a_finite_gradient() -> None:
    centres = torch.zeros(2, 3, requires_grad=True)
    points = torch.zeros(1, 3, requires_grad=True)
    margin_contrast(points, torch.tensor([0]), centres, 0.0).backward()
    assert points.grad is not None
    assert bool(points.grad.isfinite().all())
    assert centres.grad is not None
    assert bool(centres.grad.isfinite().all())
