"""Invariants of FedTGP (specification prototype, section 8)."""

import math

import pytest
import torch

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.fedtgp import (
    SERVER,
    FedTGP,
    adaptive_margin,
    first_generator,
    generated,
)
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.core.tensors import select
from tests import federation
from tests.algorithms.prototype import parties

LOCAL = LocalSGD(lr=0.1, batch_size=8)
HELD = torch.ones(3, dtype=torch.bool)


def test_8_4_the_margin_is_the_largest_of_the_smallest_distances() -> None:
    values = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 10.0], [99.0, 99.0]])
    means = Prototypes(values, torch.tensor([True, True, True, False]))
    assert adaptive_margin(means, 100.0) == pytest.approx(10.0)
    assert adaptive_margin(means, 4.0) == 4.0


def test_8_9_equal_means_have_no_margin_and_one_class_has_the_limit() -> None:
    assert adaptive_margin(Prototypes(torch.ones(3, 4), HELD), 100.0) == 0
    alone = Prototypes(torch.ones(3, 4), torch.tensor([False, True, False]))
    assert adaptive_margin(alone, 100.0) == 100.0


def test_8_2_the_network_is_an_embedding_and_two_layers() -> None:
    drawn = first_generator(4, 6, federation.env())
    found = generated(drawn)
    for label in range(4):
        hidden = [
            max(
                0.0,
                sum(
                    float(w) * float(x) for w, x in zip(row, drawn["embedding"][label], strict=True)
                )
                + float(b),
            )
            for row, b in zip(drawn["hidden.weight"], drawn["hidden.bias"], strict=True)
        ]
        for place in range(6):
            weights = drawn["output.weight"][place]
            wanted = sum(float(w) * h for w, h in zip(weights, hidden, strict=True))
            wanted += float(drawn["output.bias"][place])
            assert abs(float(found[label, place]) - wanted) < 1e-5


def _server_loss(epochs: int) -> float:
    algorithm = FedTGP(local=LOCAL, server_epochs=epochs, server_lr=0.05)
    return float(parties.run(algorithm, rounds=1).state.private["metric.server_loss"])


def test_8_9_the_servers_loss_falls_with_its_epochs() -> None:
    losses = [_server_loss(epochs) for epochs in (1, 20, 200)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2


def test_8_4_one_step_against_autograd_on_the_written_loss() -> None:
    """One batch, one epoch: T ← T − η ∇ mean_i [ D_iy + m + log Σ_c e^{−D_ic − m·1[c=y]} ]."""
    algorithm = FedTGP(local=LOCAL, server_epochs=1, server_batch=100, server_lr=0.3)
    people, env = parties.population(), federation.env()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, people, range(4))
    after = algorithm.aggregate(state, iter(sent.items()), env)
    weights = {
        n: t.clone().double().requires_grad_() for n, t in select(state.private, SERVER).items()
    }
    centres, losses = generated(weights), []
    margin = float(after.private["metric.margin"])
    for update in sent.values():
        for label, point in zip(
            update.tensors["proto.present"].nonzero()[:, 0].tolist(),
            update.tensors["proto.mean"].double(),
            strict=True,
        ):
            apart = [
                (point - centres[c]).norm() + (margin if c == label else 0.0) for c in range(3)
            ]
            losses.append(apart[label] + torch.logsumexp(-torch.stack(apart), 0))
    loss = torch.stack(losses).mean()
    assert float(after.private["metric.server_loss"]) == pytest.approx(loss.item(), abs=1e-4)
    gradients = torch.autograd.grad(loss, list(weights.values()))
    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
        wanted = weight - 0.3 * gradient
        assert torch.allclose(after.private[f"{SERVER}.{name}"].double(), wanted, atol=1e-5)


def test_8_2_the_network_persists_over_rounds_and_nothing_of_it_is_sent() -> None:
    states = parties.run(FedTGP(local=LOCAL, server_epochs=3), rounds=2).states
    kept = [select(state.private, SERVER) for state in states]
    assert all(not torch.equal(kept[i]["embedding"], kept[i + 1]["embedding"]) for i in (0, 1))
    assert not any(tensor.requires_grad for tensor in kept[2].values())
    assert set(states[2].shared) == {"proto.present", "proto.mean"}
    known = Prototypes.of(states[2].shared)
    assert torch.allclose(known.values, generated(kept[2]))


@pytest.mark.parametrize(("mask", "sent"), [(True, [1, 1, 0]), (False, [1, 1, 1])])
def test_8_7_a_class_nobody_has_held_is_masked_or_not(mask: bool, sent: list[int]) -> None:
    people = parties.population([(5, 5, 0), (9, 1, 0)])
    algorithm = FedTGP(local=LOCAL, server_epochs=3, mask_unseen=mask)
    done = parties.run(algorithm, people, rounds=1)
    assert done.state.shared["proto.present"].tolist() == [bool(c) for c in sent]
    moved = (
        done.state.private[f"{SERVER}.embedding"] - done.states[0].private[f"{SERVER}.embedding"]
    )
    assert bool((moved[2] != 0).any()) == (not mask)


def test_8_7_without_uploads_nothing_changes() -> None:
    algorithm, env = FedTGP(local=LOCAL, server_epochs=3), federation.env()
    people = parties.population([(0, 0, 0), (3, 3, 3)])
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, people, [0])
    after = algorithm.aggregate(state, iter(sent.items()), env)
    assert after.round == 1
    assert torch.equal(after.private[f"{SERVER}.embedding"], state.private[f"{SERVER}.embedding"])
    assert not bool(after.shared["proto.present"].any())


def test_the_margin_keeps_the_prototypes_apart() -> None:
    """Classes stand farther from each other than the clients' means do."""
    algorithm = FedTGP(local=LOCAL, server_epochs=200, server_lr=0.05)
    private = parties.run(algorithm, rounds=1).state.private
    plain = parties.run(parties.method("fedproto"), rounds=1).state.private
    names = "metric.prototype.inter_class"
    assert math.isfinite(float(private[names]))
    assert float(private[names]) > float(plain[names])
