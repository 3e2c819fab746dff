"""Every client alone: its ridge, how it is chosen, and what the server knows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.local_ridge import LocalRidge
from fedcord.algorithms.analytic.own_ridge import GRID
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.core.tensors import Tensors
from tests.algorithms.analytic.samples import (
    CLASSES,
    LINEAR,
    client,
    dealt,
    env,
    gap,
    one_hot,
    samples,
    trained,
    weight,
)

DATA = samples(40)
OWN = torch.arange(12)


def own_model(method: LocalRidge, rows: Tensor) -> Tensors:
    start = method.init(env())
    return method.client_update(start.shared, {}, client(DATA, rows), env().at(0)).memory


def test_model_is_the_clients_ridge_and_others_do_not_matter() -> None:
    method = LocalRidge(ridge=0.7, features=LINEAR)
    x, y = DATA.inputs[OWN].double(), one_hot(DATA.labels[OWN])
    wanted = torch.linalg.solve(x.T @ x + 0.7 * torch.eye(8, dtype=torch.float64), x.T @ y)
    for others in ([torch.arange(12, 40)], [torch.arange(12, 20), torch.arange(20, 30)]):
        state = trained(method, dealt(DATA, [OWN, *others]))
        memory = own_model(method, OWN)
        assert gap(memory["head.weight"], wanted) < 1e-10
        scores = method.predictor(state.model, memory, env().at(0)).scores(DATA.inputs)
        assert gap(scores, DATA.inputs.double() @ wanted) < 1e-10


def test_ridge_makes_the_fewest_mistakes_when_each_sample_is_left_out_in_turn() -> None:
    """Against refitting without each sample, ridge by ridge."""
    x, y = DATA.inputs[OWN].double(), one_hot(DATA.labels[OWN])
    mean = float((x**2).sum()) / x.shape[1]
    judged = []
    for step in GRID:
        mistakes, error = 0, 0.0
        for left_out in range(len(x)):
            rest = [i for i in range(len(x)) if i != left_out]
            a, b = x[rest], y[rest]
            w = torch.linalg.solve(
                a.T @ a + mean * step * torch.eye(8, dtype=torch.float64), a.T @ b
            )
            score = x[left_out] @ w
            mistakes += int(score.argmax() != y[left_out].argmax())
            error += float(((y[left_out] - score) ** 2).sum())
        judged.append((mistakes, error, mean * step))
    method = LocalRidge(features=LINEAR)
    memory = own_model(method, OWN)
    assert float(memory["head.ridge"]) == pytest.approx(min(judged)[2])
    assert min(judged)[2] not in (judged[0][2], judged[-1][2])  # the grid reaches far enough


def test_one_client_with_everything_is_afl() -> None:
    alone = LocalRidge(ridge=2.0, features=LINEAR)
    memory = own_model(alone, torch.arange(40))
    wanted = weight(trained(AFL(ridge=2.0, features=LINEAR), [client(DATA)]))
    assert gap(memory["head.weight"], wanted) < 1e-10


def test_only_counts_travel_and_the_server_guesses_the_most_frequent_class() -> None:
    method = LocalRidge(features=LINEAR)
    start = method.init(env())
    sent = method.client_update(start.shared, {}, client(DATA, OWN), env().at(0)).update
    counted = torch.bincount(DATA.labels[OWN], minlength=CLASSES)
    assert {name: t.tolist() for name, t in sent.tensors.items()} == {
        "class_count": counted.tolist()
    }
    state = trained(method, dealt(DATA, [OWN, torch.arange(12, 40)]))
    scores = method.predictor(state.model, {}, env()).scores(DATA.inputs[:2])
    shares = torch.bincount(DATA.labels, minlength=CLASSES) / len(DATA)
    torch.testing.assert_close(scores, shares.double().expand(2, -1), check_dtype=False)


def test_t16_t17_no_samples_and_one_class() -> None:
    method = LocalRidge(features=LINEAR)
    state = trained(method, dealt(DATA, [OWN, torch.arange(12, 40)]))
    assert own_model(method, OWN[:0]) == {}
    same = torch.nonzero(DATA.labels == 1)[:, 0]
    memory = own_model(method, same)
    # a class the client has never seen has score 0, which must not beat negative scores
    far = -100 * DATA.inputs[same][:1]
    assert method.predictor(state.model, memory, env().at(0)).scores(far).argmax(1).tolist() == [1]


def test_ridge_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="ridge = 0"):
        build(LocalRidge, {"ridge": 0})
