"""Clipping, noise and sampling of dp-fedavg, and its limit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from fedcord.algorithms.averaging.dp_fedavg import DPFedAvg
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.accounting import epsilon_of
from fedcord.algorithms.kit.client_privacy import ClientPrivacy
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Update
from fedcord.core.errors import ConfigError
from fedcord.experiment.api import run
from fedcord.experiment.load import load_config
from tests import federation

ENV = federation.env()
BIG = {"change.a": torch.full((30_000,), 3.0), "change.b": torch.full((30_000,), -3.0)}


def _length(tensors: dict[str, torch.Tensor]) -> float:
    return float(torch.cat([t.double().flatten() for t in tensors.values()]).norm())


@pytest.mark.parametrize("clip", [0.5, 1.0, 7.0])
def test_changes_are_shortened_to_the_clip_and_shorter_ones_left(clip: float) -> None:
    privacy = ClientPrivacy(clip=clip)
    sent = privacy.sent(BIG, ENV.at(0))
    assert _length(sent) == pytest.approx(clip, rel=1e-6)
    direction = torch.full((30_000,), clip / 60_000**0.5)
    assert torch.allclose(sent["change.a"], direction, rtol=1e-6)
    short = {"change.a": torch.tensor([0.3 * clip, -0.2 * clip])}
    assert torch.equal(privacy.sent(short, ENV.at(0))["change.a"], short["change.a"])


def test_the_servers_noise_has_the_promised_deviation() -> None:
    zeros = {name: torch.zeros_like(t) for name, t in BIG.items()}
    mean = ClientPrivacy(clip=2.0, noise=1.5, sampling=0.5).released(zeros, 8.0, ENV)
    noise = torch.cat(list(mean.values()))
    # of the sum z S = 3, of the mean over q n = 4 a quarter of that
    assert float(noise.std()) == pytest.approx(3 / 4, rel=0.01)
    assert abs(float(noise.mean())) < 0.02
    assert torch.equal(
        ClientPrivacy(noise=0.0).released(zeros, 8.0, ENV)["change.a"].float(), zeros["change.a"]
    )


def test_the_clients_noise_adds_up_to_the_promised_deviation() -> None:
    privacy = ClientPrivacy(clip=2.0, noise=1.5, noise_at="distributed", honest=6)
    zeros = {name: torch.zeros_like(t) for name, t in BIG.items()}
    total = sum(privacy.sent(zeros, ENV.at(k))["change.a"] for k in range(6))
    assert float(torch.as_tensor(total).std()) == pytest.approx(3.0, rel=0.02)
    released = privacy.released(zeros, 6.0, ENV)  # the server adds none
    assert float(released["change.a"].abs().max()) == 0.0


def test_too_few_clients_for_distributed_noise_is_an_error() -> None:
    privacy = ClientPrivacy(noise_at="distributed", honest=6)
    with pytest.raises(ConfigError, match="only 5 clients answered, so their sum has less noise"):
        privacy.released({"change.a": torch.zeros(2)}, 5.0, ENV)


def test_every_client_decides_by_itself_whether_to_contribute() -> None:
    privacy = ClientPrivacy(sampling=0.3)
    rounds = [dataclasses.replace(ENV, round=r) for r in range(100)]
    taken = [privacy.contributes(env.at(k)) for env in rounds for k in range(20)]
    assert sum(taken) / len(taken) == pytest.approx(0.3, abs=0.03)


def test_who_does_not_contribute_sends_zeros_and_everybody_weighs_one() -> None:
    people = federation.population()
    algorithm = DPFedAvg(ClientPrivacy(sampling=1e-9))
    state = algorithm.init(ENV)
    update = algorithm.client_update(state.shared, {}, people.client(0), ENV.at(0)).update
    assert update.weight == 1.0
    assert update.metrics == {}  # the loss would tell of the data
    assert all(float(t.abs().max()) == 0 for t in update.tensors.values())


def test_without_noise_clip_and_sampling_it_is_fedavg_with_equal_weights() -> None:
    people, local = federation.population(federation.IMAGE), LocalSGD(lr=0.1)
    env = federation.env(federation.IMAGE)
    private = DPFedAvg(ClientPrivacy(clip=1e6, noise=0.0), local)
    plain = FedAvg(local)
    state = plain.init(env)
    ends = []
    for algorithm in (private, plain):
        updates = []
        for k in (0, 1, 3):
            own = algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update
            updates.append((k, Update(own.tensors, weight=1.0)))
        ends.append(algorithm.aggregate(state, iter(updates), env).shared)
    for name, tensor in ends[1].items():
        if tensor.is_floating_point():
            assert torch.allclose(ends[0][name], tensor, atol=1e-6), name
    assert not private.traits.accounts_privacy


def test_variances_stay_variances_under_any_noise() -> None:
    env = federation.env(federation.IMAGE)
    algorithm = DPFedAvg(ClientPrivacy(clip=100.0))
    state = algorithm.init(env)
    zeros = {
        n: torch.zeros(s.shape) for n, s in algorithm.expected_update(state.shared, env).items()
    }
    after = algorithm.aggregate(state, iter([(0, Update(zeros, 1.0))]), env).shared
    variances = [t for n, t in after.items() if n.endswith("running_var")]
    assert variances
    assert all(float(t.min()) >= 1e-3 for t in variances)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "exact-head", "params": {"of": "dp-fedavg"}},
        {"algorithm": "exact-head", "params": {"inner": {"private": {"noise": 1.0}}}},
    ],
)
def test_noise_under_exact_sums_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="would not cover the exact sums of features"):
        load_config(settings)


def test_a_run_says_what_it_has_spent_masked_or_not(tmp_path: Path) -> None:
    small: dict[str, Any] = {"clients": 4, "partition": "iid", "subset": 200, "rounds": 2}
    spread = {"noise": 2.0, "noise_at": "distributed", "honest": 4, "sampling": 0.5, "delta": 1e-4}
    found = [
        run(
            "dp-fedavg",
            out=tmp_path / str(secure),
            secure=secure,
            params={"privacy": spread},
            **small,
        )
        for secure in (None, 0.6)
    ]
    expected = epsilon_of(2.0, 0.5, 2, 1e-4)
    for result in found:
        assert result["privacy"]["epsilon"] == pytest.approx(expected)
        assert result["privacy"]["delta"] == 1e-4
        assert result["privacy"]["unit"] == "client"
        assert result["privacy"]["statement"] in result["notes"]
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-4)
