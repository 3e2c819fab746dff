"""What bad clients send, and that it is the same on every engine."""

import pytest
import torch

from fedcord.core.contract import Update
from fedcord.core.tensors import hash_tensors
from fedcord.engine.attack import Attack, with_flipped_labels
from tests import federation

RECEIVED = {"model.w": torch.tensor([1.0, 2.0]), "sums": torch.zeros(5)}
HONEST = Update(
    {
        "model.w": torch.tensor([1.5, 1.0]),
        "sums": torch.tensor([3.0]),  # of another shape than what was received under that name
        "model.n": torch.tensor(7),
    },
    weight=9.0,
)


def _sent(attack: Attack, client: int = 1) -> Update:
    return attack.on(HONEST, RECEIVED, federation.env().at(client))


@pytest.mark.parametrize(
    ("kind", "strength", "model", "sums"),
    [
        ("sign-flip", 1.0, [0.5, 3.0], [-3.0]),
        ("sign-flip", 2.0, [0.0, 4.0], [-6.0]),
        ("scaled", 10.0, [6.0, -8.0], [30.0]),
    ],
)
def test_the_change_is_attacked_not_the_model(
    kind: str, strength: float, model: list[float], sums: list[float]
) -> None:
    sent = _sent(Attack(kind, (1, 4), strength))
    assert sent.tensors["model.w"].tolist() == model
    assert sent.tensors["sums"].tolist() == sums
    assert sent.tensors["model.n"] is HONEST.tensors["model.n"]
    assert sent.weight == HONEST.weight
    assert sent.tensors["model.w"].dtype == torch.float32


def test_noise_takes_the_place_of_the_change_and_is_drawn_by_seed_round_and_client() -> None:
    attack = Attack("gaussian", (1, 2), 0.5)
    assert hash_tensors(_sent(attack).tensors) == hash_tensors(_sent(attack).tensors)
    assert not torch.equal(
        _sent(attack).tensors["model.w"], _sent(attack, client=2).tensors["model.w"]
    )
    start = {"model.w": torch.full((20_000,), 3.0)}
    big = Update({"model.w": torch.zeros(20_000)}, 1.0)
    noise = attack.on(big, start, federation.env().at(1)).tensors["model.w"] - 3
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.std()) == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("kind", ["sign-flip", "scaled", "gaussian"])
def test_others_are_left_alone(kind: str) -> None:
    assert _sent(Attack(kind, (1,), 1.0), client=0) is HONEST


def test_what_is_checked_on_arrival_stays_and_the_rest_is_attacked_as_before() -> None:
    attack, env = Attack("gaussian", (1,), 1.0), federation.env().at(1)
    plain = attack.on(HONEST, RECEIVED, env).tensors
    kept = attack.on(HONEST, RECEIVED, env, checked=["model.w"]).tensors
    assert kept["model.w"] is HONEST.tensors["model.w"]
    assert not torch.equal(plain["model.w"], kept["model.w"])
    assert torch.equal(plain["sums"], kept["sums"])


def test_flipped_labels_are_those_of_attackers_training_parts() -> None:
    people = federation.population()
    flipped = with_flipped_labels(people, (1, 3), num_classes=3)
    for k in people.clients:
        before, after = people.client(k), flipped.client(k)
        expected = 2 - before.train.labels if k in (1, 3) else before.train.labels
        assert torch.equal(after.train.labels, expected)
        assert torch.equal(after.test.labels, before.test.labels)
        assert torch.equal(after.validation.labels, before.validation.labels)


def test_an_attack_travels_as_plain_values() -> None:
    attack = Attack("scaled", (0, 3), 4.0)
    assert Attack.from_plain(attack.plain()) == attack
