"""Triangular factors as afl's messages: equal to sums, and better where sums lose digits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.rfactor import RFactor
from fedcord.core.errors import ConfigError, NumericalError, ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.core.tensors import spec_of
from fedcord.experiment.api import run
from fedcord.ops.ridge_selection import RidgePath
from tests.algorithms.analytic.samples import (
    CLASSES,
    LINEAR,
    NARROW,
    SIZE,
    client,
    dealt,
    env,
    gap,
    one_hot,
    samples,
    trained,
    updates,
    weight,
)

DATA = samples(80)
# clients with fewer samples than features, with more, with one, and with none
PARTS = torch.arange(80).split([3, 40, 1, 36, 0])
CLIENTS = dealt(DATA, PARTS)


def pair(**values: object) -> tuple[AFL, AFL]:
    packed = AFL(**{"features": NARROW, **values})  # type: ignore[arg-type]
    return packed, replace(packed, wire="rfactor")


@pytest.mark.parametrize("ridge", ["gcv", 0.3])
@pytest.mark.parametrize("balanced", [False, True])
def test_t20_factors_give_the_model_of_packed_sums(ridge: float | str, balanced: bool) -> None:
    packed, factored = pair(ridge=ridge, balanced=balanced)
    wanted, found = trained(packed, CLIENTS), trained(factored, CLIENTS)
    assert gap(weight(found), weight(wanted)) < 1e-10
    assert float(found.result["head.ridge"]) == pytest.approx(
        float(wanted.result["head.ridge"]), rel=1e-10
    )
    assert torch.equal(found.result["head.seen"], wanted.result["head.seen"])


def test_t1_the_partition_does_not_matter_to_factors() -> None:
    _, factored = pair(ridge=0.3)
    by_class = DATA.labels.argsort(stable=True)
    fitted = Ridge(alpha=0.3, fit_intercept=False).fit(
        NARROW.mapping({}, env())(DATA.inputs).numpy(), one_hot(DATA.labels).numpy()
    )
    for parts in ([by_class], by_class.tensor_split(3), by_class.tensor_split(80)):
        found = weight(trained(factored, dealt(DATA, list(parts))))
        np.testing.assert_allclose(found.numpy(), fitted.coef_.T, rtol=1e-9, atol=1e-10)


def test_t18_without_ridge_a_rank_deficient_federation_gets_the_pseudo_inverse() -> None:
    few = client(DATA, slice(0, 12))
    _, factored = pair(ridge=0.0)
    x = NARROW.mapping({}, env())(few.train.inputs)
    wanted = torch.linalg.pinv(x) @ one_hot(few.train.labels)
    assert gap(weight(trained(factored, [few])), wanted) < 1e-8


def test_correlated_features_keep_the_digits_that_sums_lose() -> None:
    """Feature 0 with a copy that differs by 1e-6: the Gram matrix has condition 1e12 and more."""
    g = torch.Generator().manual_seed(3)
    inputs = torch.randn(60, SIZE, generator=g, dtype=torch.float64)
    inputs[:, 1] = inputs[:, 0] + 1e-6 * inputs[:, 1]
    labels = torch.randint(CLASSES, (60,), generator=g)
    x, y = inputs, one_hot(labels)
    wanted = torch.linalg.lstsq(x, y, driver="gelsd").solution
    factor = RFactor.of(x[:20], y[:20]).merge(RFactor.of(x[20:], y[20:]))
    by_factor = gap(factor.solve(0.0)[0], wanted)
    by_sums = gap(torch.linalg.solve(x.T @ x, x.T @ y), wanted)
    assert by_factor < 1e-8
    assert by_sums > 100 * by_factor


def test_the_path_of_a_factor_is_that_of_its_gram_matrix() -> None:
    x, y = NARROW.mapping({}, env())(DATA.inputs), one_hot(DATA.labels)
    found = RFactor.of(x, y).path(80.0, 80.0)
    wanted = RidgePath.of(x.T @ x, x.T @ y, 80.0, 80.0)
    for ridge in (1e-3, 0.1, 10.0):
        assert found.gcv(ridge) == pytest.approx(wanted.gcv(ridge), rel=1e-9)


def test_reports_tell_rank_and_condition() -> None:
    x, y = NARROW.mapping({}, env())(DATA.inputs), one_hot(DATA.labels)
    factor = RFactor.of(x, y)
    _, report = factor.solve(0.5)
    values = torch.linalg.eigvalsh(x.T @ x)
    assert report.path == "factor"
    assert report.condition == pytest.approx(float((values[-1] + 0.5) / (values[0] + 0.5)))
    assert report.residual < 1e-12
    few = RFactor.of(x[:5], y[:5])
    assert few.solve(0.0)[1].rank == 5
    assert few.solve(0.0)[1].condition == float("inf")
    assert few.solve(2.0)[1].condition == pytest.approx(
        float(torch.linalg.cond(few.gram() + 2.0 * torch.eye(21, dtype=torch.float64)))
    )


def test_messages_have_one_shape_and_are_no_longer_than_packed_sums() -> None:
    packed, factored = pair()
    start = factored.init(env())
    expected = dict(factored.expected_update(start.shared, env()))
    numbers = []
    for method in (packed, factored):
        sent = [u.tensors for _, u in updates(method, method.init(env()), CLIENTS, env())]
        numbers.append(sum(t.numel() for t in sent[0].values()))
    assert all(spec_of(tensors) == expected for tensors in sent)
    assert numbers[1] <= numbers[0]


def test_what_factors_rule_out() -> None:
    packed, factored = pair()
    assert packed.traits.additive
    assert not factored.traits.additive
    assert "not sums over samples" in (factored.why_not_forget() or "")
    with pytest.raises(ConfigError, match="noise is calibrated to sums"):
        build(AFL, {"wire": "rfactor", "privacy": {"epsilon": 1.0}})


def test_other_features_and_values_that_are_not_finite_are_refused() -> None:
    _, factored = pair()
    start = factored.init(env())
    odd = replace(factored, features=replace(NARROW, unit=False))
    sent = [*updates(factored, start, CLIENTS[:1], env()), *updates(odd, start, CLIENTS[1:], env())]
    with pytest.raises(ProtocolError, match="other features than agreed"):
        factored.aggregate(start, iter(sent), env())
    broken = DATA.inputs[:4].clone()
    broken[2, 1] = torch.inf
    nothing = Examples(broken[:0], DATA.labels[:0])
    bad = ClientData(Examples(broken, DATA.labels[:4]), nothing, nothing)
    linear = replace(factored, features=LINEAR)
    with pytest.raises(NumericalError, match="not finite"):
        updates(linear, start, [bad], env())


@pytest.mark.parametrize("engine", ["sequential", "wire"])
def test_a_run_by_factors_gives_the_run_by_sums(tmp_path: Path, engine: str) -> None:
    found = [
        run(
            "afl",
            out=tmp_path / form,
            engine=engine,
            clients=4,
            partition="dirichlet:0.5",
            params={"wire": form, "ridge": 1.0, "features": {"width": 100}},
        )
        for form in ("packed64", "rfactor")
    ]
    assert found[0]["accuracy"] == found[1]["accuracy"] > 0.8
