"""Averaging methods with a round for their classifier: exact-head, ccvr, fed3r+ft."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from fedcord.algorithms.analytic.fed3r import normalised
from fedcord.algorithms.averaging.ccvr import CCVR, COUNT, SQUARE, SUM, draw, gaussians
from fedcord.algorithms.averaging.exact_head import FEATURES, UNSEEN, ExactHead
from fedcord.algorithms.averaging.fed3r_ft import Fed3RFineTuned
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import HasHeadRound
from fedcord.algorithms.contrastive.moon import MOON
from fedcord.algorithms.kit.linear_head import head_of
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Env, ServerState, Update
from fedcord.core.declaration import declaration_problems
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build, conformed, declared_spaces, plain
from fedcord.core.task import Task
from fedcord.core.tensors import check_tensors, hash_tensors, select
from fedcord.ops.symmetric import pack
from tests import federation

PEOPLE = federation.population()
CLIENTS = [PEOPLE.client(k) for k in PEOPLE.clients]
QUICK = LocalSGD(lr=0.1, schedule="cosine")  # the schedule sees how many rounds there are
HEAD = "linear_layers.1."


def after(
    method: Any, rounds: int, clients: list[ClientData] = CLIENTS, task: Task | None = None
) -> ServerState:
    """The state after so many rounds of so many."""
    at = Env(federation.task() if task is None else task, 0, num_rounds=rounds)
    state: ServerState = method.init(at)
    memories: list[Any] = [{} for _ in clients]
    for round_ in range(rounds):
        here, updates = replace(at, round=round_), {}
        for k, data in enumerate(clients):
            done = method.client_update(state.shared, memories[k], data, here.at(k))
            updates[k], memories[k] = done.update, done.memory
            wanted = method.expected_update(state.shared, here.at(k))
            check_tensors(done.update.tensors, wanted, f"client {k}")
        state = method.aggregate(state, iter(updates.items()), here)
    return state


def body(state: ServerState) -> str:
    """The bits of everything in the model but its classifier."""
    model = select(state.shared, "model")
    return hash_tensors({n: t for n, t in model.items() if not n.startswith(HEAD)})


def features(state: ServerState) -> tuple[Tensor, Tensor]:
    """Features and labels of everybody's samples by the model of a state."""
    here, pooled = federation.env(), [client.train for client in CLIENTS]
    rows = torch.cat([FEATURES.all(part, state.shared, here) for part in pooled])
    return rows, torch.cat([part.labels for part in pooled])


@pytest.mark.parametrize(
    ("name", "inner"), [("fedavg", FedAvg(QUICK)), ("moon", MOON(local=QUICK))]
)
@pytest.mark.parametrize("cls", [ExactHead, CCVR])
def test_all_but_the_classifier_is_the_inner_method_with_one_round_less(
    cls: type[Any], name: str, inner: Any
) -> None:
    ours, alone = after(cls(of=name, inner=inner), 4), after(inner, 3)
    assert body(ours) == body(alone)
    assert hash_tensors(ours.shared) != hash_tensors(alone.shared)
    assert ours.round == 4


AVERAGING = (
    *("fedavg", "fedprox", "moon", "fedrcl", "fedhpro", "fedproto+", "fedtgp+", "fedsa+"),
    *("fedgmkd+", "scaffold", "fednova", "feddyn", "fedlc", "feddisco", "fedavgm", "fedadam"),
    *("fedyogi", "fedadagrad", "ditto", "pfedme", "per-fedavg"),
)


@pytest.mark.parametrize("name", AVERAGING)
def test_every_averaging_method_can_have_an_exact_head(name: str) -> None:
    method = build(ExactHead, {"of": name})
    assert method.review(federation.task()).errors == ()
    assert declaration_problems(method) == []
    few = CLIENTS[:2]
    ours, alone = after(method, 2, few), after(method.inner, 1, few)
    assert body(ours) == body(alone)
    scores = method.predictor(ours.model, {}, federation.env(rounds=2)).scores(PEOPLE.test.inputs)
    assert float((scores.argmax(1) == PEOPLE.test.labels).float().mean()) > 0.8


def test_the_exact_head_is_the_ridge_regression_of_pooled_features() -> None:
    state = after(ExactHead(ridge=0.3, inner=FedAvg(QUICK)), 3)
    x, labels = features(state)
    targets = torch.nn.functional.one_hot(labels, 3).double()
    model = Ridge(alpha=0.3, fit_intercept=False, solver="svd").fit(x.numpy(), targets.numpy())
    head = head_of(state.shared, federation.env())
    found = torch.cat([head.weight, head.bias[:, None]], dim=1).double()
    assert torch.allclose(found, torch.from_numpy(model.coef_), atol=1e-6)


def test_the_exact_head_does_not_depend_on_who_holds_what() -> None:
    pooled = [client.train for client in CLIENTS]
    everything = Examples(
        torch.cat([part.inputs for part in pooled]), torch.cat([part.labels for part in pooled])
    )
    order = everything.labels.argsort()
    nothing = CLIENTS[0].validation
    dealt = [
        ClientData(Examples(everything.inputs[rows], everything.labels[rows]), nothing, nothing)
        for rows in order.tensor_split(3)
    ]
    one, other = (after(ExactHead(ridge=1.0), 1, people) for people in (CLIENTS, dealt))
    for name, tensor in one.shared.items():
        assert torch.allclose(tensor, other.shared[name], atol=1e-6)


def test_a_class_that_nobody_has_cannot_win() -> None:
    kept = CLIENTS[0].train.labels != 2
    train = Examples(CLIENTS[0].train.inputs[kept], CLIENTS[0].train.labels[kept])
    only = ClientData(train, CLIENTS[0].validation, CLIENTS[0].test)
    state = after(ExactHead(inner=FedAvg(QUICK)), 2, [only])
    assert float(head_of(state.shared, federation.env()).bias[2]) == UNSEEN
    scores = ExactHead().predictor(state.model, {}, federation.env()).scores(PEOPLE.test.inputs)
    assert 2 not in scores.argmax(1)


def test_what_comes_out_is_a_plain_network() -> None:
    method, here = ExactHead(inner=FedAvg(QUICK)), federation.env()
    state = after(method, 2)
    network = here.task.held_network(select(state.shared, "model"))
    scores = method.predictor(state.model, {}, here).scores(PEOPLE.test.inputs)
    assert scores.equal(network(PEOPLE.test.inputs))
    assert float((scores.argmax(1) == PEOPLE.test.labels).float().mean()) > 0.9


def test_memory_survives_the_round_of_sums() -> None:
    method = ExactHead(of="moon", inner=MOON())
    at = replace(federation.env(rounds=2), round=1).at(0)
    memory = {"previous.x": torch.ones(2)}
    done = method.client_update(method.init(at).shared, memory, CLIENTS[0], at)
    assert done.memory.keys() == memory.keys()


def test_gaussians_are_sample_means_and_covariances() -> None:
    rows, labels = features(after(FedAvg(QUICK), 1))
    z = rows[:, :-1]
    method, here = CCVR(), federation.env(rounds=1)
    shared = after(FedAvg(QUICK), 1).shared
    total: dict[str, Tensor] = {}
    for client in CLIENTS:
        for name, tensor in method.client_sums(shared, client, here).tensors.items():
            total[name] = total.get(name, torch.zeros_like(tensor)) + tensor
    means, covariances = gaussians(total)
    for c in range(3):
        own = z[labels == c]
        assert torch.allclose(means[c], own.mean(0), atol=1e-12)
        assert torch.allclose(covariances[c], torch.cov(own.T), atol=1e-10)


def test_classes_with_one_sample_or_none_have_no_spread() -> None:
    row = torch.tensor([1.0, 2.0], dtype=torch.float64)
    total = {
        COUNT: torch.tensor([1, 0]),
        SUM: torch.stack([row, 0 * row]),
        SQUARE: torch.stack([pack(torch.outer(row, row)), torch.zeros(3, dtype=torch.float64)]),
    }
    means, covariances = gaussians(total)
    assert means[0].equal(row)
    assert bool((covariances == 0).all())
    assert draw(means[0], covariances[0], 2, torch.Generator()).equal(row.expand(2, 2))


def test_drawn_features_have_the_mean_and_covariance_they_are_drawn_with() -> None:
    mean = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    root = torch.tensor([[1.0, 0, 0], [0.5, 0.3, 0], [2.0, 0, 0]], dtype=torch.float64)  # rank 2
    drawn = draw(mean, root @ root.T, 200_000, torch.Generator().manual_seed(1))
    assert torch.allclose(drawn.mean(0), mean, atol=0.02)
    assert torch.allclose(torch.cov(drawn.T), root @ root.T, atol=0.05)


def test_with_many_virtual_features_it_tends_to_its_gaussian_classifier() -> None:
    """Classes of one covariance: softmax regression is linear discriminant analysis."""
    generator = torch.Generator().manual_seed(2)
    means = 0.5 * torch.randn(3, 16, generator=generator, dtype=torch.float64)
    covariance = torch.diag(torch.linspace(0.5, 2.0, 16, dtype=torch.float64))
    count = 50
    squares = [(count - 1) * covariance + count * torch.outer(m, m) for m in means]
    sums = {
        COUNT: torch.full((3,), count),
        SUM: count * means,
        SQUARE: torch.stack([pack(square) for square in squares]),
    }

    here = replace(federation.env(rounds=1), round=0)
    shared = FedAvg().init(here).shared
    precision = torch.linalg.inv(covariance)
    wanted = means @ precision
    offset = -0.5 * (wanted * means).sum(1)

    def miss(virtual: int) -> float:
        method = CCVR(virtual=virtual, epochs=round(200_000 / virtual), lr=0.5, batch_size=600)
        after_it = method.solved(ServerState(shared), iter([(0, Update(sums, 150.0))]), here)
        head = head_of(after_it.shared, here)
        weights = torch.cat([head.weight.double(), head.bias[:, None].double()], dim=1)
        exact = torch.cat([wanted, offset[:, None]], dim=1)
        found, exact = (w - w.mean(0) for w in (weights, exact))  # softmax ignores what is common
        return float((found - exact).norm() / exact.norm())

    few, many = miss(200), miss(20_000)
    assert many < 0.1 < few


def test_no_calibration_leaves_the_averaged_classifier() -> None:
    ours = after(CCVR(epochs=0, inner=FedAvg(QUICK)), 3)
    assert hash_tensors(ours.shared) == hash_tensors(after(FedAvg(QUICK), 2).shared)


def test_fine_tuning_starts_from_fed3rs_classifier_over_the_temperature() -> None:
    state = after(Fed3RFineTuned(ridge=0.3, temperature=0.2), 1)
    x, labels = features(state)
    targets = torch.nn.functional.one_hot(labels, 3).double()
    gram = x.T @ x + 0.3 * torch.eye(x.shape[1], dtype=torch.float64)
    wanted = normalised(torch.linalg.solve(gram, x.T @ targets), has_bias=True) / 0.2
    head = head_of(state.shared, federation.env())
    assert torch.allclose(head.weight.double(), wanted[:-1].T, atol=1e-5)
    assert torch.allclose(head.bias.double(), wanted[-1], atol=1e-5)
    lengths = head.weight.norm(dim=1)
    assert torch.allclose(lengths, torch.full((3,), 5.0))


@pytest.mark.parametrize(
    ("part", "head_moves", "body_moves"),
    [("all", True, True), ("features", False, True), ("classifier", True, False)],
)
def test_only_the_chosen_part_is_fine_tuned(part: str, head_moves: bool, body_moves: bool) -> None:
    method = Fed3RFineTuned(train=part, inner=FedAvg(QUICK))
    task = federation.task()
    before, tuned = after(method, 1), after(method, 3, task=task)
    one, two = (head_of(state.shared, federation.env()) for state in (before, tuned))
    assert one.weight.equal(two.weight) != head_moves
    assert (body(before) == body(tuned)) != body_moves
    assert all(p.requires_grad for p in task.scratch_network().parameters())


def test_fine_tuning_all_is_fedavg_from_that_classifier() -> None:
    method = Fed3RFineTuned(train="all", inner=FedAvg(QUICK))
    start, tuned = after(method, 1), after(method, 2)
    at = Env(federation.task(), 0, num_rounds=1)
    updates = {
        k: FedAvg(QUICK).client_update(start.shared, {}, data, at.at(k)).update
        for k, data in enumerate(CLIENTS)
    }
    wanted = FedAvg(QUICK).aggregate(start, iter(updates.items()), at)
    assert hash_tensors(tuned.shared) == hash_tensors(wanted.shared)


def test_a_frozen_network_has_no_features_to_fine_tune() -> None:
    frozen = federation.task({**federation.VECTOR, "models": ["frozen:pixels"]})
    (error,) = Fed3RFineTuned().review(frozen).errors
    assert "nothing but the classifier of FrozenNetwork is ever trained" in error
    assert Fed3RFineTuned(train="classifier").review(frozen).errors == ()
    assert ExactHead().review(frozen).errors == ()


@pytest.mark.parametrize("cls", [ExactHead, CCVR, Fed3RFineTuned])
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"of": "fedvag"}, "of: unknown algorithm 'fedvag'; did you mean 'fedavg'"),
        ({"of": "afl"}, "of = 'afl': must be a method that averages models"),
        ({"of": "fedproto"}, "of = 'fedproto': must be a method that averages models"),
        ({"of": "exact-head"}, "of = 'exact-head': must be a method that averages models"),
        ({"inner": {"contrast_weight": 1.0}}, "unknown parameter 'inner.contrast_weight'"),
        ({"of": "moon", "inner": {"proximal_weight": 1}}, "unknown parameter 'inner.proximal"),
        ({"of": "moon", "inner": {"contrast_weight": -1}}, "inner.contrast_weight = -1: must be"),
        ({"inner": 3}, "inner = 3: must be a table of its parts"),
    ],
)
def test_wrong_inner_methods_are_refused(
    cls: type[HasHeadRound], values: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(cls, values)
    assert why in str(caught.value)


def test_an_inner_method_of_another_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"of = 'moon', but inner is a FedAvg; give inner=MOON"):
        ExactHead(of="moon")


def test_the_inner_methods_parameters_can_be_set_written_and_tuned() -> None:
    made = build(ExactHead, {"of": "moon", "inner": {"contrast_weight": 2, "local": {"lr": 0.3}}})
    assert made == ExactHead(of="moon", inner=MOON(2.0, local=LocalSGD(lr=0.3)))
    assert build(ExactHead, plain(made)) == made
    assert conformed(made) is made
    assert {"inner.contrast_weight", "inner.local.lr"} <= declared_spaces(made).keys()
    assert build(ExactHead, {"of": "moon"}).inner == MOON()


def test_a_method_whose_model_is_more_than_the_network_is_refused() -> None:
    method = ExactHead(of="moon", inner=MOON(head="projection"))
    (error,) = method.review(federation.task()).errors
    assert "its model is not the network itself" in error
