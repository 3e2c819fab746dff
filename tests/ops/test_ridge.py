"""The guarded solver: T18, T19, T21 and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from fedcord.core.errors import ConfigError, DataError, NumericalError, ProtocolError
from fedcord.ops import ridge as ridge_module
from fedcord.ops.ridge import solve_min_norm, solve_ridge
from fedcord.ops.ridge_selection import GRID, RidgePath, choose_ridge, residual_sum


def data(rows: int, size: int, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=g, dtype=torch.float64)
    y = torch.eye(classes, dtype=torch.float64)[torch.randint(classes, (rows,), generator=g)]
    return x, y


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("ridge", [0.01, 1.0, 100.0])
def test_solution_is_that_of_scikit_learn(ridge: float) -> None:
    x, y = data(60, 12)
    weight, report = solve_ridge(x.T @ x, x.T @ y, ridge)
    model = Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(x.numpy(), y.numpy())
    assert gap(weight, torch.from_numpy(model.coef_.T.copy())) < 1e-10
    assert report.path == "cholesky"
    assert report.jitter == 0
    assert report.residual < 1e-12


def test_badly_scaled_columns_are_solved_by_equilibration() -> None:
    x, y = data(80, 10)
    scaled = x * torch.logspace(-5, 5, 10, dtype=torch.float64)
    weight, report = solve_ridge(scaled.T @ scaled, scaled.T @ y, 0.0)
    wanted, *_ = np.linalg.lstsq(scaled.numpy(), y.numpy(), rcond=None)
    assert report.path == "cholesky"
    assert report.condition < 100  # of the scaled matrix, not 1e20 of the given one
    assert np.allclose(scaled.numpy() @ wanted, (scaled @ weight).numpy(), atol=1e-9)


@pytest.mark.parametrize("kind", ["few samples", "duplicated column", "zero column"])
def test_t18_singular_without_ridge_is_the_pseudoinverse(kind: str) -> None:
    x, y = data(8 if kind == "few samples" else 40, 15)
    if kind == "duplicated column":
        x[:, 4] = x[:, 9]
    elif kind == "zero column":
        x[:, 4] = 0
    weight, report = solve_ridge(x.T @ x, x.T @ y, 0.0)
    assert gap(weight, torch.linalg.pinv(x) @ y) < 1e-8
    assert report.path == "spectral"
    assert report.rank == int(torch.linalg.matrix_rank(x))


def unit_diagonal(smallest: float) -> Tensor:
    """A 2x2 matrix with diagonal 1 and eigenvalues `smallest` and 2 − `smallest`."""
    matrix = torch.ones(2, 2, dtype=torch.float64)
    matrix[0, 1] = matrix[1, 0] = 1 - smallest
    return matrix


def test_t19_tiny_negative_eigenvalue_is_solved_with_reported_jitter() -> None:
    gram = unit_diagonal(-1e-13)
    _, report = solve_ridge(gram, torch.ones(2, 1, dtype=torch.float64), 1e-300)
    assert report.path == "cholesky"
    assert report.jitter == 1e-12


def test_t19_corrupt_statistics_raise_with_a_ridge_and_go_spectral_without() -> None:
    gram, moment = unit_diagonal(-1e-3), torch.ones(2, 1, dtype=torch.float64)
    with pytest.raises(NumericalError, match="not positive definite with ridge 1e-09"):
        solve_ridge(gram, moment, 1e-9)
    assert solve_ridge(gram, moment, 0.0)[1].path == "spectral"
    assert solve_ridge(gram, moment, 1e-9, on_singular="min_norm")[1].path == "spectral"


def test_large_jitter_warns() -> None:
    gram, moment = unit_diagonal(-3e-7), torch.ones(2, 1, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="adding 1e-06"):
        assert solve_ridge(gram, moment, 1e-12)[1].jitter == 1e-6


def test_condition_estimate_is_of_the_right_size() -> None:
    x, y = data(200, 20, seed=4)
    gram = x.T @ x
    d = gram.diagonal().rsqrt()
    values = torch.linalg.eigvalsh(gram * d * d[:, None])
    wanted = float(values[-1] / values[0])
    found = solve_ridge(gram, x.T @ y, 0.0)[1].condition
    assert wanted / 3 < found < 3 * wanted


def test_nothing_at_all_gives_zero_weights() -> None:
    zero = torch.zeros(4, 4, dtype=torch.float64)
    weight, report = solve_ridge(zero, zero[:, :2], 0.0)
    assert torch.equal(weight, zero[:, :2])
    assert report.rank == 0


def test_bad_input_is_refused() -> None:
    x, y = data(10, 3)
    gram, moment = x.T @ x, x.T @ y
    with pytest.raises(ConfigError, match=r"ridge = -1: must be a finite number >= 0"):
        solve_ridge(gram, moment, -1.0)
    with pytest.raises(ProtocolError, match=r"gram \[3, 3\] and moment \[2, 3\] do not fit"):
        solve_ridge(gram, moment[:2], 1.0)
    gram[0, 0] = float("nan")
    with pytest.raises(NumericalError, match="not finite"):
        solve_ridge(gram, moment, 1.0)


def test_t21_training_error_and_gcv_from_sums_equal_the_direct_ones() -> None:
    x, y = data(50, 8)
    gram, moment, square = x.T @ x, x.T @ y, float((y**2).sum())
    path = RidgePath.of(gram, moment, square, 50)
    for ridge in (1e-3, 1.0, 30.0):
        weight, _ = solve_ridge(gram, moment, ridge)
        rss = float(((y - x @ weight) ** 2).sum())
        hat = x @ torch.linalg.inv(gram + ridge * torch.eye(8, dtype=torch.float64)) @ x.T
        wanted = 50 * rss / (50 - float(hat.trace())) ** 2
        assert residual_sum(gram, moment, square, weight) == pytest.approx(rss, rel=1e-10)
        assert path.residual_sum(ridge) == pytest.approx(rss, rel=1e-8)
        assert path.degrees(ridge) == pytest.approx(float(hat.trace()), rel=1e-10)
        assert path.gcv(ridge) == pytest.approx(wanted, rel=1e-8)


def test_chosen_ridge_has_the_best_score_of_the_grid() -> None:
    x, y = data(40, 30, seed=2)
    gram, moment = x.T @ x, x.T @ y
    chosen = choose_ridge(gram, moment, 40.0, 40)
    path = RidgePath.of(gram, moment, 40.0, 40)
    mean = float(gram.diagonal().mean())
    assert path.gcv(chosen) <= min(path.gcv(mean * step) for step in GRID) * (1 + 1e-12)
    assert GRID[0] < chosen / mean < GRID[-1] * 1.001


def test_ridge_of_features_that_fit_everything_does_not_depend_on_rounding() -> None:
    x, y = data(20, 60, seed=3)
    chosen = set()
    for seed in range(4):
        order = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
        a, b = x[order], y[order]
        gram = a[:7].T @ a[:7] + a[7:].T @ a[7:]
        chosen.add(round(float(np.log10(choose_ridge(gram, a.T @ b, 20.0, 20))), 6))
    assert len(chosen) == 1


@pytest.mark.parametrize("conflicts", [0, 2])
def test_samples_that_occur_twice_do_not_make_a_perfect_fit_look_good(conflicts: int) -> None:
    """More features than samples, noisy targets; by GCV alone all is fitted."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 150, generator=generator, dtype=torch.float64)
    truth = torch.randn(150, 3, generator=generator, dtype=torch.float64) / 12
    y = x @ truth + torch.randn(100, 3, generator=generator, dtype=torch.float64)
    twice = torch.cat([torch.arange(100), torch.arange(40)])
    a, b = x[twice], y[twice].clone()
    b[100 : 100 + conflicts] += 1
    gram, square = a.T @ a, float((b**2).sum())
    path = RidgePath.of(gram, a.T @ b, square, 140)
    mean = float(gram.diagonal().mean())
    alone = mean * min(GRID, key=lambda step: path.gcv(mean * step))
    assert path.degrees(alone) > 0.95 * 100
    chosen = choose_ridge(gram, a.T @ b, square, 140)
    assert path.degrees(chosen) < 0.9 * 100
    new = torch.randn(2000, 150, generator=generator, dtype=torch.float64)

    def error(ridge: float) -> float:
        weight, _ = solve_ridge(gram, a.T @ b, ridge)
        return float(((new @ (weight - truth)) ** 2).sum())

    assert error(chosen) < 0.9 * error(alone)


def test_where_every_ridge_fits_nearly_all_the_largest_is_taken() -> None:
    x, y = data(1, 2000)
    gram = x.T @ x
    mean = float(gram.diagonal().mean())
    assert choose_ridge(gram, x.T @ y, 1.0, 1) == pytest.approx(mean * GRID[-1])


def test_a_small_ridge_may_win_where_samples_are_many() -> None:
    x, _ = data(400, 20, seed=4)
    y = x @ torch.randn(20, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gram = x.T @ x
    chosen = choose_ridge(gram, x.T @ y, float((y**2).sum()), 400)
    assert RidgePath.of(gram, x.T @ y, float((y**2).sum()), 400).degrees(chosen) > 0.9 * 20


def test_ridge_of_zero_features_is_refused() -> None:
    zero = torch.zeros(3, 3, dtype=torch.float64)
    with pytest.raises(DataError, match="all features are zero"):
        choose_ridge(zero, zero, 1.0, 5)


def test_minimum_norm_with_full_rank_is_the_plain_solution() -> None:
    x, y = data(30, 5)
    plain = solve_ridge(x.T @ x, x.T @ y, 0.5)[0]
    assert gap(solve_min_norm(x.T @ x, x.T @ y, 0.5)[0], plain) < 1e-12


@pytest.mark.parametrize("columns", [1, 8, 9, 60])
def test_residual_is_measured_and_a_single_wrong_column_shows(columns: int) -> None:
    """Against the full product; where columns are joined, within the spread of eight sums."""
    generator = torch.Generator().manual_seed(columns)
    rows = torch.randn(40, 12, generator=generator, dtype=torch.float64)
    gram = rows.T @ rows
    moment = torch.randn(12, columns, generator=generator, dtype=torch.float64)
    weight, report = solve_ridge(gram, moment, 0.5)
    assert report.residual < 1e-13
    weight[:, columns // 2] += 0.01
    full = gram @ weight + 0.5 * weight - moment
    wanted = float(full.norm() / moment.norm())
    found = ridge_module._residual(gram, weight, moment, 0.5)
    assert found == pytest.approx(wanted, rel=1e-9 if columns <= 8 else 1e-6)


def test_the_sums_of_columns_measure_the_length_of_any_error() -> None:
    generator = torch.Generator().manual_seed(0)
    eye, ratios = torch.eye(30, dtype=torch.float64), []
    for _ in range(50):
        moment = torch.randn(30, 100, generator=generator, dtype=torch.float64)
        weight = moment + torch.randn(30, 100, generator=generator, dtype=torch.float64)
        exact = float((weight - moment).norm() / moment.norm())
        ratios.append(ridge_module._residual(eye, weight, moment, 0.0) / exact)
    assert 0.95 < sum(ratios) / 50 < 1.05
    assert min(ratios) > 0.7
    assert max(ratios) < 1.3
