"""Anchored ridge regression: T11, T12, T13; and the sandwiched solve of T27."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedcord.core.errors import NumericalError
from fedcord.ops.anchored import AnchoredPath, anchored_solve, sandwiched_solve

D, C = 12, 3


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def one_hot(count: int, seed: int) -> Tensor:
    labels = torch.randint(C, (count,), generator=torch.Generator().manual_seed(seed))
    return torch.eye(C, dtype=torch.float64)[labels]


def federation(own: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Own features and targets, S with them and others in it, W."""
    f, y = normal(own, D, seed=1), one_hot(own, 2)
    others, their = normal(70, D, seed=3), one_hot(70, 4)
    metric = f.T @ f + others.T @ others + 0.7 * torch.eye(D, dtype=torch.float64)
    moment = f.T @ y + others.T @ their
    return f, y, metric, torch.linalg.solve(metric, moment), moment


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("own", [1, D // 2, 2 * D])
@pytest.mark.parametrize("alpha", [0.3, 40.0])
def test_t11_t12_direct_residual_small_client_and_anchored_forms_agree(
    own: int, alpha: float
) -> None:
    f, y, metric, weight, moment = federation(own)
    direct = torch.linalg.solve(metric + alpha * f.T @ f, moment + alpha * f.T @ y)
    rest = y - f @ weight
    residual = weight + alpha * torch.linalg.solve(metric + alpha * f.T @ f, f.T @ rest)
    inner = torch.eye(own, dtype=torch.float64) / alpha + f @ torch.linalg.solve(metric, f.T)
    small = weight + torch.linalg.solve(metric, f.T) @ torch.linalg.solve(inner, rest)
    anchored = anchored_solve(f.T @ f, f.T @ y, weight, metric, 1 / alpha)
    path = AnchoredPath.of(f, y, weight, metric).model(alpha)
    for form in (residual, small, anchored, path):
        assert gap(form, direct) < 1e-10


def test_t12_with_the_identity_it_is_the_pull_of_pfedacnnl() -> None:
    f, y, _, weight, _ = federation(20)
    eye, mu = torch.eye(D, dtype=torch.float64), 2.5
    wanted = torch.linalg.solve(f.T @ f + mu * eye, f.T @ y + mu * weight)
    assert gap(anchored_solve(f.T @ f, f.T @ y, weight, eye, mu), wanted) < 1e-12
    assert gap(AnchoredPath.of(f, y, weight, eye).model(1 / mu), wanted) < 1e-12


@pytest.mark.parametrize("own", [5, 15])
def test_t13_leave_one_out_equals_dropping_each_sample(own: int) -> None:
    f, y, metric, weight, moment = federation(own)
    alpha = 3.0
    found = AnchoredPath.of(f, y, weight, metric).leave_one_out(alpha, 1 + alpha)
    for i in range(own):
        kept = torch.arange(own) != i
        without = metric - f[i : i + 1].T @ f[i : i + 1]
        left = without + alpha * f[kept].T @ f[kept]
        right = moment - f[i : i + 1].T @ y[i : i + 1] + alpha * f[kept].T @ y[kept]
        wanted = y[i] - f[i] @ torch.linalg.solve(left, right)
        assert torch.allclose(found[i], wanted, atol=1e-10)


def test_t13_leave_one_out_with_a_fixed_anchor_equals_dropping_each_sample() -> None:
    f, y, _, weight, _ = federation(15)
    eye, mu = torch.eye(D, dtype=torch.float64), 0.8
    found = AnchoredPath.of(f, y, weight, eye).leave_one_out(1 / mu, 1 / mu)
    for i in range(15):
        kept = torch.arange(15) != i
        model = anchored_solve(f[kept].T @ f[kept], f[kept].T @ y[kept], weight, eye, mu)
        assert torch.allclose(found[i], y[i] - f[i] @ model, atol=1e-10)


def test_choice_has_the_fewest_mistakes_then_the_smallest_error() -> None:
    f, y, metric, weight, _ = federation(20)
    path = AnchoredPath.of(f, y, weight, metric)
    grid = [0.0, 0.5, 5.0, 50.0]
    scores = {}
    for alpha in grid:
        errors = path.leave_one_out(alpha, 1 + alpha)
        wrong = int(((y - errors).argmax(1) != y.argmax(1)).sum())
        scores[alpha] = (wrong, float((errors**2).sum()), alpha)
    alpha, model = path.choose(grid, y, contains_own=True)
    assert alpha == min(scores.values())[2]
    assert torch.equal(model, path.model(alpha))


def test_metric_that_is_not_definite_is_refused() -> None:
    f, y, _, weight, _ = federation(4)
    with pytest.raises(NumericalError, match="metric is not positive definite"):
        AnchoredPath.of(f, y, weight, -torch.eye(D, dtype=torch.float64))


def test_t27_sandwiched_least_squares_equals_the_kronecker_system() -> None:
    units, rest, right = normal(40, 5, seed=1), normal(40, C, seed=2), normal(4, C, seed=3)
    found = sandwiched_solve(units.T @ units, units.T @ rest, right, 0.3)
    # vec is column-major: vec(F Ω W) = (W' ⊗ F) vec(Ω)
    big = torch.kron(right.T.contiguous(), units)
    system = big.T @ big + 0.3 * torch.eye(20, dtype=torch.float64)
    vector = torch.linalg.solve(system, big.T @ rest.T.reshape(-1))
    assert gap(found, vector.view(4, 5).T) < 1e-10
