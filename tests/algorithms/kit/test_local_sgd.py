import math

import pytest
import torch
from torch import nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, NumericalError
from tests import federation

DATA = federation.examples(37, 5)


def _network() -> nn.Module:
    return federation.task().initial_network(torch.Generator().manual_seed(1))


def _env(round_: int = 0) -> Env:
    return Env(federation.task(), seed=3, round=round_, num_rounds=10, client=2)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_training_equals_a_plain_torch_loop(optimizer: str, weight_decay: float) -> None:
    local = LocalSGD(
        epochs=2, batch_size=10, lr=0.02, optimizer=optimizer, weight_decay=weight_decay, clip=0.5
    )
    ours, theirs = _network(), _network()
    local.train(ours, DATA, cross_entropy, _env())
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    reference = kind(theirs.parameters(), lr=0.02, weight_decay=weight_decay)
    for batch in local.batches(len(DATA), _env().generator("batches")):
        reference.zero_grad()
        nn.functional.cross_entropy(theirs(DATA.inputs[batch]), DATA.labels[batch]).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def test_an_epoch_visits_every_example_once_and_keeps_the_small_last_batch() -> None:
    batches = list(LocalSGD(epochs=2, batch_size=10).batches(37, torch.Generator().manual_seed(0)))
    assert [len(b) for b in batches] == [10, 10, 10, 7] * 2
    for epoch in (batches[:4], batches[4:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(37))
    assert not torch.equal(torch.cat(batches[:4]), torch.cat(batches[4:]))


def test_steps_replace_epochs_and_may_exceed_one_pass() -> None:
    local = LocalSGD(steps=6, batch_size=10)
    assert len(list(local.batches(37, torch.Generator()))) == 6
    assert len(list(local.batches(1, torch.Generator()))) == 6
    assert list(local.batches(0, torch.Generator())) == []


def test_schedules() -> None:
    assert LocalSGD(lr=0.4).lr_at(_env(9)) == 0.4
    assert LocalSGD(lr=0.4, schedule="cosine").lr_at(_env(5)) == pytest.approx(0.2)
    assert LocalSGD(lr=1.0, schedule="exponential", decay=0.5).lr_at(_env(3)) == 0.125


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_rate_that_falls_over_a_visit_is_torchs_cosine_annealing(optimizer: str) -> None:
    local = LocalSGD(
        epochs=3, batch_size=10, lr=0.02, optimizer=optimizer, visit_schedule="cosine", clip=0.5
    )
    ours, theirs = _network(), _network()
    local.train(ours, DATA, cross_entropy, _env())
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    reference = kind(theirs.parameters(), lr=0.02)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=local.num_steps(37))
    for batch in local.batches(len(DATA), _env().generator("batches")):
        reference.zero_grad()
        nn.functional.cross_entropy(theirs(DATA.inputs[batch]), DATA.labels[batch]).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
        falling.step()
    constant = _network()
    LocalSGD(epochs=3, batch_size=10, lr=0.02, optimizer=optimizer, clip=0.5).train(
        constant, DATA, cross_entropy, _env()
    )
    for mine, other, held in zip(
        ours.parameters(), theirs.parameters(), constant.parameters(), strict=True
    ):
        assert torch.allclose(mine, other, atol=1e-6)
        assert not torch.allclose(mine, held, atol=1e-4)


def test_rates_of_a_visit_multiply_the_rounds() -> None:
    local = LocalSGD(steps=4, lr=0.4, schedule="cosine", visit_schedule="cosine")
    assert local.lr_at(_env(5)) == pytest.approx(0.2)
    assert local.rates(1) == pytest.approx([1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2])
    assert LocalSGD(steps=3).rates(1) == [1, 1, 1]
    assert local.rates(0) == []


def test_a_loss_that_is_not_finite_says_what_to_change() -> None:
    with pytest.raises(NumericalError, match=r"lower local.lr \(now 1e\+20\)"):
        LocalSGD(lr=1e20, epochs=5).train(_network(), DATA, cross_entropy, _env())


def test_an_augmentation_that_does_not_fit_the_data_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"local.augment = 'simclr' does not fit"):
        LocalSGD(augment="simclr").train(_network(), DATA, cross_entropy, _env())


def test_augmented_training_changes_the_result_and_repeats() -> None:
    values = {**federation.IMAGE, "models": ["logistic"]}
    task = federation.task(values)
    data = federation.examples(20, 1, values)

    def trained(augment: str) -> torch.Tensor:
        network = task.initial_network(torch.Generator().manual_seed(0))
        local = LocalSGD(augment=augment, clip=1.0)
        local.train(network, data, cross_entropy, Env(task, 0, client=0))
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    assert not torch.equal(trained("none"), trained("standard"))
    assert torch.equal(trained("standard"), trained("standard"))


def test_large_clients_are_prepared_batch_by_batch_with_equal_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def weights() -> list[torch.Tensor]:
        network = _network()
        LocalSGD(clip=1.0).train(network, DATA, cross_entropy, _env())
        return [p.detach().clone() for p in network.parameters()]

    at_once = weights()
    monkeypatch.setattr("fedcord.algorithms.kit.local_sgd.PREPARE_AT_ONCE_BYTES", 0)
    assert all(torch.equal(a, b) for a, b in zip(at_once, weights(), strict=True))


def test_reported_loss_is_the_mean_over_visited_examples() -> None:
    network = _network()
    with torch.no_grad():
        expected = float(nn.functional.cross_entropy(network(DATA.inputs), DATA.labels))
    metrics = LocalSGD(lr=1e-12, batch_size=10, clip=1.0).train(
        network, DATA, cross_entropy, _env()
    )
    assert math.isclose(metrics["train_loss"], expected, rel_tol=1e-5)
