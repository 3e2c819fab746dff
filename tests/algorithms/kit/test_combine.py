"""Robust joining of models, in every method that averages models."""

import dataclasses
from typing import Any

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.combine import RULES, Combine
from fedcord.algorithms.kit.model_exchange import AveragesModels
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.checks import Expectations, check_algorithm
from fedcord.core.contract import Update
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.params import build
from fedcord.core.tensors import hash_tensors, select
from fedcord.ops.weighted_mean import weighted_mean
from tests import federation
from tests.checks.registered import QUICK

ROBUST = [rule for rule in RULES if rule != "mean"]
AVERAGING = [n for n in ALGORITHMS if issubclass(algorithm_class(n), AveragesModels)]


def _models(count: int, bad: int = 0) -> list[tuple[int, Update]]:
    generator = torch.Generator().manual_seed(0)
    models = [{"model.w": torch.randn(3, 2, generator=generator)} for _ in range(count)]
    for model in models[count - bad :]:
        model["model.w"] = torch.full((3, 2), 1e6)
    counts = [{"model.n": torch.tensor(k + 5)} for k in range(count)]
    return [(k, Update(models[k] | counts[k], weight=1.0 + k)) for k in range(count)]


START = {"model.w": torch.zeros(3, 2), "model.n": torch.tensor(0), "other": torch.zeros(1)}


def test_the_mean_is_the_weighted_mean_bit_for_bit() -> None:
    found = Combine().join(iter(_models(5)), START)
    assert hash_tensors(found) == hash_tensors(
        weighted_mean((u.tensors, u.weight) for _, u in _models(5))
    )


@pytest.mark.parametrize("rule", ROBUST)
def test_two_bad_clients_of_ten_do_not_get_far(rule: str) -> None:
    found = Combine(rule).join(iter(_models(10, bad=2)), START)
    assert float(found["model.w"].abs().max()) < 3
    assert float(Combine().join(iter(_models(10, bad=2)), START)["model.w"].max()) > 1e5
    assert found["model.w"].dtype == torch.float32
    assert int(found["model.n"]) == 9  # the lower median of 5 … 14


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "krum", "geometric-median"])
def test_a_clients_word_about_its_size_is_not_its_weight(rule: str) -> None:
    liars = [(k, dataclasses.replace(u, weight=1e12 if k > 7 else 1.0)) for k, u in _models(10, 2)]
    honest = Combine(rule).join(iter(_models(10, 2)), START)
    assert hash_tensors(Combine(rule).join(iter(liars), START)) == hash_tensors(honest)


@pytest.mark.parametrize("rule", ROBUST)
def test_clients_without_examples_do_not_count(rule: str) -> None:
    idle = [(k, dataclasses.replace(u, weight=0.0)) for k, u in _models(12, bad=5) if k > 6]
    with_idle = Combine(rule).join(iter([*_models(7), *idle]), START)
    assert hash_tensors(with_idle) == hash_tensors(Combine(rule).join(iter(_models(7)), START))
    with pytest.raises(ProtocolError, match="nothing to join"):
        Combine(rule).join(iter(idle), START)


def test_krum_is_one_clients_model_and_multi_krum_a_mean_of_some() -> None:
    models = _models(10, bad=2)
    single = Combine("krum").join(iter(models), START)["model.w"]
    assert sum(torch.equal(single, u.tensors["model.w"]) for _, u in models) == 1
    several = Combine("multi-krum").join(iter(models), START)["model.w"]
    assert not any(torch.equal(several, u.tensors["model.w"]) for _, u in models)


def test_norm_bound_is_of_the_change_not_of_the_model() -> None:
    start = {"model.w": torch.full((3, 2), 100.0), "model.n": torch.tensor(0)}
    far = [(0, Update({"model.w": torch.full((3, 2), 200.0), "model.n": torch.tensor(1)}, 1.0))]
    change = Combine("norm-bound", norm_bound=0.5).join(iter(far), start)["model.w"] - 100
    assert float(change.norm()) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("rule", ["krum", "multi-krum"])
def test_too_few_clients_for_krum_is_said(rule: str) -> None:
    with pytest.raises(ConfigError, match="needs at least 11 clients in a round, and 10 sent"):
        Combine(rule, bad_share=0.4).join(iter(_models(10)), START)
    with pytest.raises(ConfigError, match=r"bad_share = 0\.5: must be >= 0 and < 0\.5"):
        Combine(rule, bad_share=0.5)


def _end(name: str, rule: str, sent_by_bad: float) -> str:
    """What one round leads to when the last of four clients sends the same number everywhere."""
    people, env = federation.population(sizes=(12, 12, 12, 12)), federation.env()
    values: dict[str, Any] = {**ALGORITHMS[name].preset, "combine": {"rule": rule}}
    algorithm = build(algorithm_class(name), values)
    needs = getattr(algorithm, "needs_only", lambda env: None)(env)
    assert rule == "mean" or (needs is None and not algorithm.traits.sums_suffice)
    state = algorithm.init(env)
    updates = []
    for k in range(4):
        own = algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update
        sent = {
            n: torch.full_like(t, sent_by_bad) if k == 3 and n.startswith("model.") else t
            for n, t in own.tensors.items()
        }
        updates.append((k, dataclasses.replace(own, tensors=sent)))
    return hash_tensors(select(algorithm.aggregate(state, iter(updates), env).shared, "model"))


@pytest.mark.parametrize("name", AVERAGING)
def test_every_averaging_method_joins_by_its_rule(name: str) -> None:
    """How far a bad client is makes no difference to a median; whether it is one does."""
    assert _end(name, "median", 1e4) == _end(name, "median", 1e6) != _end(name, "mean", 1e4)


@pytest.mark.parametrize("rule", ["median", "geometric-median", "trimmed-mean", "norm-bound"])
def test_fedavg_with_a_robust_rule_keeps_the_contract(rule: str) -> None:
    algorithm = FedAvg(QUICK, combine=Combine(rule))
    expectations = Expectations(is_random=True, order_tolerance=1e-5)
    assert check_algorithm(algorithm, expectations, tasks=["vectors"]).passed
