"""Block conjugate gradients against SciPy's, direct solves and the definition of the best."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import cg
from torch import Tensor

from fedcord.ops.conjugate_gradients import KnownProducts, new_directions
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.ridge_selection import GRID, RidgePath, best_ridge, residual_sum


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


def test_the_ridge_minimises_gcv_with_the_trace_that_the_probe_estimates() -> None:
    """Against dense matrices, once all of G is known."""
    gram, moment, y = problem()
    generator = torch.Generator().manual_seed(1)
    probe = torch.randint(2, (12, 1), generator=generator).double() * 2 - 1
    mean = float(gram.trace()) / 12
    known = KnownProducts.of(torch.eye(12, dtype=torch.float64), gram)

    def score(ridge: float) -> float:
        inverse = torch.linalg.inv(gram + ridge * torch.eye(12, dtype=torch.float64))
        error = residual_sum(gram, moment, 60.0, inverse @ moment)
        degrees = 12 - ridge * float(probe.T @ inverse @ probe)
        return 60 * error / (60 - degrees) ** 2

    found = known.choose_ridge(moment, probe, 12 * mean, 60.0, 60)
    assert float((y**2).sum()) == 60
    assert found == pytest.approx(min((mean * step for step in GRID), key=score))


def test_with_the_probe_among_the_right_sides_few_products_choose_the_ridge_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(900, 300, generator=generator, dtype=torch.float64)
    x = x * torch.logspace(0, -3, 300, dtype=torch.float64)
    scores = x[:, :40] @ torch.randn(40, 4, generator=generator, dtype=torch.float64)
    scores += torch.randn(900, 4, generator=generator, dtype=torch.float64)
    y = torch.nn.functional.one_hot(scores.argmax(dim=1), 4).double()
    gram, moment = x.T @ x, x.T @ y
    probe = torch.randint(2, (300, 1), generator=generator).double() * 2 - 1
    sides, trace = torch.cat([moment, probe], dim=1), float(gram.trace())
    directions, products, missing = moment[:, :0], moment[:, :0], sides
    for _ in range(12):
        new = new_directions(directions, missing)
        directions = torch.cat([directions, new], dim=1)
        products = torch.cat([products, gram @ new], dim=1)
        known = KnownProducts.of(directions, products)
        ridge = known.choose_ridge(moment, probe, trace, 900.0, 900)
        _, missing = known.solution(sides, ridge)
    whole = RidgePath.of(gram, moment, 900.0, 900)
    assert directions.shape[1] <= 60
    assert whole.gcv(ridge) <= 1.003 * whole.gcv(best_ridge(whole))
