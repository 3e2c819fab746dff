"""DP-SGD: gradients of examples against a loop, clipping, noise, samples, and what is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.accounting import epsilon_of
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.kit.private_training import ExamplePrivacy, clipped_sums, poisson_batches
from fedcord.checks import Expectations, check_algorithm
from fedcord.core.errors import ConfigError, NumericalError
from fedcord.experiment.api import run
from tests import federation
from tests.checks.registered import QUICK

WIDE = federation.VECTOR | {"models": ["mlp:400"]}
GROUPS = federation.IMAGE | {"models": ["resnet10,width=4,norm=group"]}
NEVER_CLIPPED = 1e9


def _drawn(values: dict[str, object]) -> nn.Module:
    return federation.task(values).initial_network(torch.Generator().manual_seed(1))


def _by_loop(network: nn.Module, inputs: Tensor, labels: Tensor, clip: float) -> list[Tensor]:
    parameters = list(network.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for one, label in zip(inputs, labels, strict=True):
        loss = nn.functional.cross_entropy(network(one[None]), label[None])
        gradients = torch.autograd.grad(loss, parameters)
        length = float(torch.cat([g.flatten() for g in gradients]).norm())
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += min(1.0, clip / length) * gradient
    return total


@pytest.mark.parametrize("values", [federation.VECTOR, GROUPS], ids=["mlp", "resnet"])
@pytest.mark.parametrize("clip", [0.5, NEVER_CLIPPED])
def test_sums_of_shortened_gradients_are_those_of_a_loop(
    values: dict[str, object], clip: float
) -> None:
    network, data = _drawn(values), federation.examples(6, 5, values)
    inputs = federation.task(values).prepare(data.inputs)
    found = clipped_sums(network, inputs, data.labels, clip)
    for mine, other in zip(found, _by_loop(network, inputs, data.labels, clip), strict=True):
        assert torch.allclose(mine, other, atol=1e-5)


def test_one_example_moves_the_sum_by_the_clip_at_most_and_nobody_by_nothing() -> None:
    network, data = _drawn(federation.VECTOR), federation.examples(1, 5)
    sums = clipped_sums(network, 100 * data.inputs, 2 - data.labels, 0.25)
    assert float(torch.cat([g.flatten() for g in sums]).norm()) <= 0.25 * (1 + 1e-6)
    nothing = clipped_sums(network, data.inputs[:0], data.labels[:0], 0.25)
    assert all(float(g.abs().max()) == 0 for g in nothing)


def test_a_step_is_the_clipped_sum_with_noise_of_the_promised_deviation() -> None:
    env, data = federation.env(WIDE).at(1), federation.examples(40, 5)
    local, private = LocalSGD(steps=1, batch_size=10, lr=0.5), ExamplePrivacy(noise=3.0, clip=0.2)
    network = _drawn(WIDE)
    before = [p.detach().clone() for p in network.parameters()]
    (batch,) = poisson_batches(local, 40, env.generator("batches"))
    sums = clipped_sums(network, data.inputs[batch], data.labels[batch], 0.2)
    private.train(local, network, data, env)
    generator = env.generator("dp-noise")
    residues = []
    for start, end, total in zip(before, network.parameters(), sums, strict=True):
        noisy = (start - end.detach()) / 0.5 * 10  # the step, times q n = 10
        drawn = torch.randn(total.shape, generator=generator, dtype=torch.float64)
        assert torch.allclose(noisy, total + 0.6 * drawn.float(), atol=1e-4)
        residues.append((noisy - total).flatten())
    assert float(torch.cat(residues).std()) == pytest.approx(0.6, rel=0.03)


def test_all_examples_without_noise_or_clip_are_a_plain_full_batch() -> None:
    env, data = federation.env().at(1), federation.examples(40, 5)
    local = LocalSGD(steps=3, batch_size=40, momentum=0.9)
    ours, theirs = _drawn(federation.VECTOR), _drawn(federation.VECTOR)
    ExamplePrivacy(noise=1e-15, clip=NEVER_CLIPPED).train(local, ours, data, env)
    local.train(theirs, data, cross_entropy, env)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-5)


def test_batches_are_poisson_samples() -> None:
    local = LocalSGD(steps=2000, batch_size=8)
    drawn = list(poisson_batches(local, 40, torch.Generator().manual_seed(0)))
    sizes = torch.tensor([len(batch) for batch in drawn], dtype=torch.float64)
    assert len(drawn) == 2000
    assert float(sizes.mean()) == pytest.approx(8, rel=0.02)
    assert float(sizes.var()) == pytest.approx(40 * 0.2 * 0.8, rel=0.1)  # a fixed size has none
    assert [len(b) for b in poisson_batches(LocalSGD(), 5, torch.Generator())] == [5]
    assert list(poisson_batches(LocalSGD(), 0, torch.Generator())) == []


def test_what_is_spent_is_the_most_of_any_client() -> None:
    local, private = LocalSGD(epochs=2, batch_size=10), ExamplePrivacy(noise=2.0, delta=1e-4)
    sizes = [100, 35, 31, 400]
    alone = [epsilon_of(2.0, 10 / n, 3 * 2 * -(-n // 10), 1e-4) for n in sizes]
    spent = private.spent(local, sizes, rounds=3)
    assert spent.epsilon == max(alone) == alone[2]
    assert (spent.delta, spent.unit) == (1e-4, "example")
    tiny = private.spent(local, [3], rounds=3)  # all examples in every step
    assert tiny.epsilon == epsilon_of(2.0, 1.0, 6, 1e-4)


@pytest.mark.parametrize("method", [FedAvg, FedProx])
def test_private_clients_tell_no_loss_and_only_they_account(method: Any) -> None:
    people, env = federation.population(), federation.env()
    algorithm = method(private=ExamplePrivacy(noise=1.0))
    state = algorithm.init(env)
    update = algorithm.client_update(state.shared, {}, people.client(0), env.at(0)).update
    assert update.metrics == {}
    assert algorithm.traits.accounts_privacy
    assert not algorithm.can_stack(env.task)
    assert not method().traits.accounts_privacy


def test_batch_normalisation_is_refused() -> None:
    algorithm = FedAvg(private=ExamplePrivacy(noise=1.0))
    (error,) = algorithm.review(federation.task(federation.IMAGE)).errors
    assert "use a network without it" in error
    assert algorithm.review(federation.task(GROUPS)).errors == ()
    assert FedAvg().review(federation.task(federation.IMAGE)).errors == ()


def test_values_that_hide_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"noise = 0.*must be > 0"):
        ExamplePrivacy(noise=0.0)


def test_weights_that_noise_has_blown_up_are_refused() -> None:
    local, env = LocalSGD(lr=1e30), federation.env().at(0)
    with pytest.raises(NumericalError, match=r"lower local\.lr .* private\.noise"):
        ExamplePrivacy(noise=1e10).train(
            local, _drawn(federation.VECTOR), federation.examples(40, 5), env
        )


def test_the_contract_holds() -> None:
    algorithm = FedAvg(QUICK, ExamplePrivacy(noise=0.02, clip=5.0))
    assert check_algorithm(algorithm, Expectations(is_random=True), tasks=["vectors"]).passed


def test_a_private_run_learns_says_its_epsilon_and_is_the_same_on_engines(tmp_path: Path) -> None:
    how: dict[str, Any] = {"clients": 3, "partition": "iid", "subset": 600, "rounds": 3}
    params = {"private": {"noise": 0.5}, "local": {"lr": 0.3, "epochs": 2}}
    found = [
        run("fedavg", out=tmp_path / engine, engine=engine, params=params, **how)
        for engine in ("sequential", "wire")
    ]
    assert found[0]["state_hash"] == found[1]["state_hash"]
    assert found[0]["accuracy"] > 0.5
    assert found[0]["privacy"]["unit"] == "example"
    assert 0 < found[0]["privacy"]["epsilon"] < 100
    assert found[0]["privacy"]["statement"] in found[0]["notes"]
