"""Alignment: values, pulls and what they leave alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.oneshot.alignment import Alignment

FORMS = ("mse", "relative", "cosine")


def pair(c: int = 5, d: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(c, d, generator=generator, dtype=torch.float64)
    return p, torch.randn(c, d, generator=generator, dtype=torch.float64)


def slow_value(form: str, p: Tensor, t: Tensor) -> Tensor:
    """The table of the module, one class at a time."""
    parts = []
    for row, goal in zip(p, t, strict=True):
        if form == "mse":
            parts.append(((row - goal) ** 2).mean())
        elif form == "relative":
            parts.append(((row - goal) ** 2).sum() / (2 * (goal**2).sum()))
        else:
            parts.append(1 - row @ goal / (row.norm() * goal.norm()))
    return torch.stack(parts).mean()


def scale_of(form: str, p: Tensor, t: Tensor) -> Tensor:
    if form == "mse":
        return torch.ones(len(p), 1)
    lengths: Tensor = (t if form == "relative" else p).norm(dim=1, keepdim=True)
    return lengths


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chosen", [None, torch.tensor([0, 3])])
def test_pull_is_the_gradient_of_the_value_by_the_stated_length(
    form: str, chosen: Tensor | None
) -> None:
    p, t = pair()
    p.requires_grad_()
    rows = slice(None) if chosen is None else chosen
    expected = slow_value(form, p[rows], t[rows])
    expected.backward()
    value, pull = Alignment(form).pull(p, t, chosen)
    assert not value.requires_grad
    torch.testing.assert_close(value, expected.detach())
    assert p.grad is not None
    torch.testing.assert_close(pull, p.grad * scale_of(form, p.detach(), t))


def test_invariant_9_pure_alignment_decays_in_closed_form() -> None:
    p, t = pair()
    start, lr, weight = p.clone(), 0.05, 20.0
    for _ in range(30):
        p = p - lr * weight * Alignment("mse").pull(p, t)[1]
    factor = (1 - 2 * lr * weight / p.numel()) ** 30
    torch.testing.assert_close(p - t, (start - t) * factor)


@pytest.mark.parametrize("form", FORMS)
def test_invariant_10_nothing_is_left_at_the_target(form: str) -> None:
    _, t = pair()
    value, pull = Alignment(form).pull(t.clone(), t)
    assert float(value) == pytest.approx(0, abs=1e-12)
    assert float(pull.abs().max()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_invariant_11_absent_classes_are_not_pulled(form: str) -> None:
    p, t = pair()
    labels, counts = torch.tensor([3, 1, 3]), torch.tensor([0, 4, 0, 2, 9])
    batch, client = Alignment(form, "batch"), Alignment(form, "client")
    _, pull = batch.pull(p, t, batch.chosen(labels, counts))
    assert pull.abs().sum(1).gt(0).tolist() == [False, True, False, True, False]
    _, pull = client.pull(p, t, client.chosen(labels, counts))
    assert pull.abs().sum(1).gt(0).tolist() == [False, True, False, True, True]
    assert Alignment(form, "all").chosen(labels, counts) is None


def test_batch_classes_strengthen_the_pull_by_c_over_present() -> None:
    p, t = pair()
    _, everyone = Alignment("mse").pull(p, t)
    _, few = Alignment("mse", "batch").pull(p, t, torch.tensor([1, 3]))
    torch.testing.assert_close(few[1], everyone[1] * 5 / 2)


@pytest.mark.parametrize("form", ["relative", "cosine"])
@pytest.mark.parametrize(("c", "d"), [(3, 16), (10, 64), (10, 512), (100, 512)])
def test_scale_free_pull_means_the_same_for_every_size(form: str, c: int, d: int) -> None:
    p, t = pair(c, d)
    value, pull = Alignment(form).pull(p, t)
    assert 0.7 < float(value) < 1.4
    # what the classification loss can exert on a prototype is 1/C for balanced classes
    assert 0.8 < float(pull.norm(dim=1).mean()) * c < 1.8


def test_mse_pull_fades_with_the_number_of_entries() -> None:
    small = Alignment("mse").pull(*pair(10, 64))[1].norm(dim=1).mean()
    large = Alignment("mse").pull(*pair(100, 512))[1].norm(dim=1).mean()
    assert float(large / small) == pytest.approx(1 / (10 * 8**0.5), rel=0.1)


@pytest.mark.parametrize("form", FORMS)
def test_features_can_be_drawn_instead(form: str) -> None:
    z, t = pair(6, 4)
    z, labels = F.normalize(z, dim=1).requires_grad_(), torch.tensor([0, 1, 2, 0, 1, 5])
    value = Alignment(form, on="feature").of_features(z, labels, t)
    torch.testing.assert_close(value, slow_value(form, z, t[labels]))
    value.backward()
    assert z.grad is not None
    assert float(z.grad.abs().max()) > 0


@pytest.mark.parametrize("form", FORMS)
def test_a_zero_prototype_leaves_everything_finite(form: str) -> None:
    _, t = pair()
    value, pull = Alignment(form).pull(torch.zeros_like(t), t)
    assert bool(torch.isfinite(pull).all())
    assert bool(torch.isfinite(value))
