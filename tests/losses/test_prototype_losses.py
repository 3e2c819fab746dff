"""The pull of features to prototypes, and self-contrast of prototypes at its closed forms."""

import math

import pytest
import torch

from fedcord.losses.prototypes import prototype_alignment, prototype_self_contrast


def _case(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 1, 1, 0])
    prototypes = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    return features, labels, prototypes, torch.tensor([True, True, False, True])


def test_it_is_the_mean_over_all_elements_and_missing_classes_add_nothing() -> None:
    features, labels, prototypes, held = _case()
    total = 0.0
    for row, label in enumerate(labels.tolist()):
        for column in range(5):
            if held[label]:
                total += float(features[row, column] - prototypes[label, column]) ** 2
    wanted = total / (7 * 5)
    assert abs(float(prototype_alignment(features, labels, prototypes, held)) - wanted) < 1e-12


def test_the_gradient_reaches_features_of_known_classes_and_no_prototype() -> None:
    features, labels, prototypes, held = _case()
    features.requires_grad_()
    prototypes.requires_grad_()
    prototype_alignment(features, labels, prototypes, held).backward()
    assert prototypes.grad is None
    assert features.grad is not None
    wanted = 2 * (features - prototypes[labels]).detach() / 35
    wanted[labels == 2] = 0
    assert torch.allclose(features.grad, wanted)


def test_without_any_prototype_it_is_zero() -> None:
    features, labels, prototypes, held = _case()
    assert float(prototype_alignment(features, labels, prototypes, torch.zeros_like(held))) == 0


# --- prototypes against each other ---------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 10])
def test_invariant_6_equal_prototypes_give_log_c(classes: int) -> None:
    assert float(prototype_self_contrast(torch.ones(classes, 7))) == pytest.approx(
        math.log(classes), rel=1e-6
    )


def test_invariant_6_is_above_zero_for_prototypes_of_any_scale() -> None:
    prototypes = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for scale in (0.01, 0.3, 1.0):
        assert float(prototype_self_contrast(scale * prototypes)) > 0


def test_sleeps_at_the_usual_start_and_wakes_when_prototypes_shrink() -> None:
    prototypes = torch.randn(10, 512, generator=torch.Generator().manual_seed(0))
    asleep = prototypes.clone().requires_grad_()
    prototype_self_contrast(asleep).backward()
    assert asleep.grad is not None
    assert float(asleep.grad.abs().max()) < 1e-6
    awake = (prototypes / 22.6).requires_grad_()
    prototype_self_contrast(awake).backward()
    assert awake.grad is not None
    assert float(awake.grad.abs().max()) > 1e-3


def test_agrees_with_a_loop() -> None:
    prototypes = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    total = 0.0
    for c in range(4):
        scores = [float(prototypes[c] @ prototypes[k]) / 2 for k in range(4)]
        total += math.log(sum(map(math.exp, scores))) - scores[c]
    assert float(prototype_self_contrast(prototypes, 2.0)) == pytest.approx(total / 4, rel=1e-9)
