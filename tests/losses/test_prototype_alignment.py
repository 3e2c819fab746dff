import torch

from fedcord.losses.prototype_alignment import prototype_alignment


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
