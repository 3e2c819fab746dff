"""Block conjugate gradients against SciPy's, direct solves and the definition of the best."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import cg
from torch import Tensor

from fedcord.ops.conjugate_gradients import KnownProducts, new_directions
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.ridge_selection import choose_ridge


def problem(samples: int = 60, width: int = 12, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Features whose directions differ in strength, and one-hot targets."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(samples, width, generator=generator, dtype=torch.float64)
    x = x * torch.logspace(0, -2, width, dtype=torch.float64)
    labels = torch.randint(classes, (samples,), generator=generator)
    y = torch.nn.functional.one_hot(labels, classes).double()
    return x.T @ x, x.T @ y, y


def iterates(gram: Tensor, moment: Tensor, ridge: float, count: int) -> list[Tensor]:
    """W after each of `count` products."""
    directions, products = moment[:, :0], moment[:, :0]
    missing, found = moment, []
    for _ in range(count):
        new = new_directions(directions, missing)
        directions = torch.cat([directions, new], dim=1)
        products = torch.cat([products, gram @ new], dim=1)
        weight, missing = KnownProducts.of(directions, products).solution(moment, ridge)
        found.append(weight)
    return found


def test_with_one_right_side_every_iterate_is_that_of_scipy() -> None:
    gram, moment, _ = problem(classes=1)
    moment = moment[:, :1]
    system = (gram + 0.3 * torch.eye(12, dtype=torch.float64)).numpy()
    wanted: list[np.ndarray] = []
    cg(system, moment[:, 0].numpy(), rtol=1e-14, callback=lambda w: wanted.append(w.copy()))
    found = iterates(gram, moment, 0.3, 8)
    assert len(wanted) >= 8
    for ours, theirs in zip(found, wanted, strict=False):
        assert np.abs(ours[:, 0].numpy() - theirs).max() <= 1e-9 * np.abs(theirs).max()


def test_several_right_sides_have_the_best_solution_in_the_directions_of_all() -> None:
    """Against least squares in the block Krylov space, written out."""
    gram, moment, _ = problem()
    system = gram + 0.1 * torch.eye(12, dtype=torch.float64)
    exact = torch.linalg.solve(system, moment)
    root = torch.linalg.cholesky(system).T  # lengths as the system measures them
    space = moment
    for weight in iterates(gram, moment, 0.1, 3):
        best = space @ torch.linalg.lstsq(root @ space, root @ exact).solution
        assert float((weight - best).abs().max()) <= 1e-9
        space = torch.cat([space, gram @ space[:, -3:]], dim=1)


def test_all_directions_together_need_fewer_products_than_each_right_side_alone() -> None:
    gram, moment, _ = problem()
    exact, _ = solve_ridge(gram, moment, 0.1)
    together = iterates(gram, moment, 0.1, 3)[-1]
    alone = torch.cat([iterates(gram, moment[:, k : k + 1], 0.1, 3)[-1] for k in range(3)], dim=1)
    gaps = [float((weight - exact).norm()) for weight in (together, alone)]
    assert gaps[0] < 0.5 * gaps[1]


def test_when_nothing_is_missing_there_are_no_new_directions() -> None:
    _, moment, _ = problem(width=7)
    directions = new_directions(moment[:, :0], moment)
    assert torch.allclose(directions.T @ directions, torch.eye(3, dtype=torch.float64))
    assert new_directions(directions, moment).shape == (7, 0)  # they are in the span
    assert new_directions(directions, torch.zeros_like(moment)).shape == (7, 0)
    twice = torch.cat([moment, moment[:, :1]], dim=1)
    assert new_directions(moment[:, :0], twice).shape == (7, 3)
    whole = torch.eye(7, dtype=torch.float64)
    assert new_directions(whole, moment).shape == (7, 0)


def test_directions_that_were_rounded_on_their_way_cost_no_accuracy() -> None:
    gram, moment, _ = problem()
    directions = torch.eye(12, dtype=torch.float64) + 1e-7
    weight, missing = KnownProducts.of(directions, gram @ directions).solution(moment, 0.1)
    exact, _ = solve_ridge(gram, moment, 0.1)
    assert float((weight - exact).abs().max()) <= 1e-12
    assert float(missing.abs().max()) <= 1e-12


def test_without_a_ridge_directions_that_features_lack_are_left_out() -> None:
    gram, moment, _ = problem(samples=5)
    whole = torch.eye(12, dtype=torch.float64)
    weight, _ = KnownProducts.of(whole, gram).solution(moment, 0.0)
    assert float((gram @ weight - moment).abs().max()) <= 1e-9
    assert float(weight.norm()) < 1e6


@pytest.mark.parametrize("samples", [60, 9])
def test_the_ridge_is_that_of_the_whole_matrix_once_all_of_it_is_known(samples: int) -> None:
    gram, moment, y = problem(samples)
    square, trace = float((y**2).sum()), float(gram.trace())
    wanted = choose_ridge(gram, moment, square, samples)
    whole = torch.linalg.qr(gram).Q[:, : min(samples, 12)]
    known = KnownProducts.of(whole, gram @ whole)
    assert known.choose_ridge(moment, trace, square, samples) == pytest.approx(wanted, rel=1e-9)


def test_eigenvalues_of_which_only_the_sum_is_known_use_degrees_of_freedom() -> None:
    gram, moment, y = problem()
    part = new_directions(moment[:, :0], moment)
    known = KnownProducts.of(part, gram @ part)
    square = float((y**2).sum())
    chosen = [known.choose_ridge(moment, trace, square, 60) for trace in (float(gram.trace()), 0)]
    assert chosen[0] > chosen[1]
