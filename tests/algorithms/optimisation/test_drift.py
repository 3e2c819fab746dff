"""Where methods end on quadratics of different curvature: closed forms, to a millionth."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.optimisation.feddyn import FedDyn
from fedcord.algorithms.optimisation.fednova import FedNova
from fedcord.algorithms.optimisation.fedopt import FedOpt
from fedcord.algorithms.optimisation.scaffold import SCAFFOLD
from tests.algorithms.optimisation.quadratics import (
    CLIENTS,
    POSITION,
    Client,
    after,
    fixed_point,
    optimum,
    steps,
    weighted,
)

EQUAL = LocalSGD(steps=5, lr=0.2)
UNEQUAL = LocalSGD(epochs=1, batch_size=5, lr=0.2)  # 2, 4 and 6 steps


def assert_near(found: Tensor, wanted: Tensor, within: float = 1e-6) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=within)


def of_fedavg(local: LocalSGD, per_step: bool = False) -> Tensor:
    """The fixed point of averaging, derived by hand: Σ w b / Σ w with w = n (1 − (1 − η a)^K).

    FedNova's has w / K.
    """
    weights = []
    for client, count in zip(CLIENTS, steps(local), strict=True):
        shrunk = 1 - (1 - local.lr * torch.tensor(client.curvature).double()) ** count
        weights.append(client.examples * shrunk / (count if per_step else 1))
    return weighted(weights)


def test_one_visit_is_gradient_descent_on_the_quadratic() -> None:
    """The network does what it says: nothing below would mean anything otherwise."""
    client = CLIENTS[1]
    found = after(FedAvg(EQUAL), 1, [client]).shared[POSITION]
    assert_near(found, client.reached(torch.zeros(2).double(), EQUAL.lr, 5), 1e-12)


@pytest.mark.parametrize("local", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_fedavg_ends_at_its_closed_form_which_is_not_the_optimum(local: LocalSGD) -> None:
    wanted = of_fedavg(local)
    assert_near(after(FedAvg(local), 40).shared[POSITION], wanted)
    assert_near(fixed_point(FedAvg(local)), wanted)
    assert float((wanted - optimum()).abs().max()) > 0.05


@pytest.mark.parametrize("local", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("variate", ["gradient", "steps"])
def test_scaffold_reaches_the_optimum(variate: str, local: LocalSGD) -> None:
    state = after(SCAFFOLD(variate, local=local), 60)
    assert_near(state.shared[POSITION], optimum())
    assert_near(state.shared[f"control.{POSITION}"], torch.zeros(2).double())


def test_scaffold_reaches_it_also_with_momentum_and_with_some_clients_at_a_time() -> None:
    """Both need their deviation: the weight of gradients, and the mean over who was heard."""
    momentum = LocalSGD(steps=4, lr=0.05, momentum=0.5)
    assert_near(after(SCAFFOLD(local=momentum), 80).shared[POSITION], optimum())
    turns = [[0, 1], [1, 2], [0, 2]]
    gentle = LocalSGD(steps=3, lr=0.1)
    assert_near(after(SCAFFOLD(local=gentle), 150, who=turns).shared[POSITION], optimum())


@pytest.mark.parametrize("local", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_feddyn_reaches_the_optimum(local: LocalSGD) -> None:
    state = after(FedDyn(1.0, local), 60)
    assert_near(state.shared[POSITION], optimum())
    assert_near(state.private[f"drift.{POSITION}"], torch.zeros(2).double())


def test_feddyn_reaches_it_also_with_some_clients_at_a_time() -> None:
    turns = [[0, 1], [1, 2], [0, 2]]
    assert_near(after(FedDyn(1.0, EQUAL), 200, who=turns).shared[POSITION], optimum())


def test_fednova_ends_at_its_closed_form() -> None:
    assert_near(fixed_point(FedNova(UNEQUAL)), of_fedavg(UNEQUAL, per_step=True))
    assert_near(fixed_point(FedNova(EQUAL)), of_fedavg(EQUAL))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_removes_the_bias_of_unequal_steps(momentum: float) -> None:
    """With small steps nothing but their number is left to bias, and FedAvg keeps that."""
    small = LocalSGD(epochs=1, batch_size=5, lr=1e-8, momentum=momentum)
    assert_near(fixed_point(FedNova(small)), optimum())
    assert float((fixed_point(FedAvg(small)) - optimum()).abs().max()) > 0.05


def test_server_optimisers_end_where_fedavg_does() -> None:
    """They change how fast one gets there: the mean change is zero where FedAvg stays."""
    wanted = of_fedavg(EQUAL)
    assert_near(after(FedOpt("momentum", 1.0, 0.3, local=EQUAL), 60).shared[POSITION], wanted)
    calm = FedOpt("adagrad", 0.5, 0.0, local=EQUAL)
    assert_near(after(calm, 100).shared[POSITION], wanted)


def test_equal_curvatures_and_steps_leave_no_bias() -> None:
    alike = tuple(Client(c.examples, (1.0, 1.0), c.centre) for c in CLIENTS)
    assert_near(fixed_point(FedAvg(EQUAL), alike), optimum(alike), 1e-9)
