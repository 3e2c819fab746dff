"""AFL: T1 to T5, T7, T14 to T17, T32, T33, membership and bad input."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from dataclasses import replace
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from torch import Tensor

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.afl_aa import AFLByModels, join, without_ridge
from fedcord.algorithms.analytic.features import FeatureMap, random_map
from fedcord.algorithms.analytic.membership import forget, model_difference
from fedcord.algorithms.analytic.membership import join as join_late
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.wire import gram_rounding
from fedcord.algorithms.kit.seen_layers import SeenLayers
from fedcord.core.contract import Env, ServerState, Update
from fedcord.core.errors import ConfigError, DataError, NumericalError, ProtocolError
from fedcord.core.params import build
from fedcord.core.tensors import prefixed, select
from fedcord.experiment.invariance import check_invariance
from fedcord.models.staged import StagedNetwork
from fedcord.ops.fixed_point import to_fixed
from fedcord.ops.symmetric import pack, svec
from tests import federation
from tests.algorithms.analytic.samples import (
    LINEAR,
    NARROW,
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

DATA = samples(100)


def central(ridge: float) -> Tensor:
    x = DATA.inputs.double().numpy()
    model = Ridge(alpha=ridge, fit_intercept=False, solver="svd")
    return torch.from_numpy(model.fit(x, one_hot(DATA.labels).numpy()).coef_.T.copy())


def parts(kind: str, clients: int) -> list[Tensor]:
    g = torch.Generator().manual_seed(5)
    order = torch.randperm(100, generator=g)
    if kind == "sorted":
        order = DATA.labels.argsort(stable=True)
    elif kind == "skewed":
        cuts = (torch.rand(clients - 1, generator=g) ** 6 * 100).long().sort().values
        return list(order.tensor_split(cuts))
    return list(order.tensor_split(clients))


@pytest.mark.parametrize("clients", [1, 2, 10, 100])
@pytest.mark.parametrize("kind", ["iid", "sorted", "skewed"])
def test_t1_any_partition_gives_the_central_ridge_solution(kind: str, clients: int) -> None:
    method = AFL(ridge=0.7, features=LINEAR)
    state = trained(method, dealt(DATA, parts(kind, clients)))
    assert gap(weight(state), central(0.7)) < 1e-8


@settings(max_examples=25)
@given(st.lists(st.integers(0, 9), min_size=100, max_size=100))
def test_t1_any_dealing_gives_the_central_ridge_solution(owner: list[int]) -> None:
    owners = torch.tensor(owner)
    clients = dealt(DATA, [(owners == k).nonzero()[:, 0] for k in range(10)])
    assert gap(weight(trained(AFL(ridge=1.5, features=LINEAR), clients)), central(1.5)) < 1e-8


@pytest.mark.parametrize("client_ridge", [0.1, 1.0, 10.0, 100.0])
def test_t2_the_published_form_without_its_ridges_is_least_squares(client_ridge: float) -> None:
    clients = dealt(DATA, parts("sorted", 12))
    published = AFLByModels(client_ridge=client_ridge, features=LINEAR)
    sums = AFL(ridge=0.0, features=LINEAR)
    assert gap(weight(trained(published, clients)), weight(trained(sums, clients))) < 1e-8


def test_t3_the_published_form_with_its_ridges_is_their_sum() -> None:
    clients = dealt(DATA, parts("iid", 12))
    kept = AFLByModels(client_ridge=0.5, remove_ridge=False, features=LINEAR)
    assert gap(weight(trained(kept, clients)), central(6.0)) < 1e-8


def test_t4_the_simplified_law_equals_the_published_products() -> None:
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(20, 6, generator=g, dtype=torch.float64) for _ in range(2))
    eye = torch.eye(6, dtype=torch.float64)
    a, b = x.T @ x + eye, y.T @ y + eye
    w, v = (torch.randn(6, 3, generator=g, dtype=torch.float64) for _ in range(2))
    inv = torch.linalg.inv
    left = eye - inv(a) @ b @ (eye - inv(a + b) @ b)
    right = eye - inv(b) @ a @ (eye - inv(a + b) @ a)
    total, found = join(a, w, b, v)
    assert torch.equal(total, a + b)
    assert gap(found, left @ w + right @ v) < 1e-8
    wanted = found + 2.0 * inv(a + b - 2 * eye) @ found
    assert gap(without_ridge(a + b, found, 2.0)[0], wanted) < 1e-8


def test_t5_order_of_clients_does_not_matter_and_fixed_point_not_in_a_bit() -> None:
    for wire, exact in (("packed64", False), ("fixed64", True)):
        method = AFL(ridge=1.0, features=LINEAR, wire=wire)
        state = method.init(env())
        sent = updates(method, state, dealt(DATA, parts("iid", 7)), env())
        first = method.aggregate(state, iter(sent), env())
        second = method.aggregate(state, iter(sent[::-1]), env())
        for name, tensor in first.private.items():
            assert torch.equal(second.private[name], tensor) or not exact
            assert torch.allclose(second.private[name].double(), tensor.double(), rtol=1e-12)
        assert gap(weight(second), weight(first)) < 1e-12


def test_t7_one_client_is_central() -> None:
    state = trained(AFL(ridge=2.0, features=LINEAR), [client(DATA)])
    assert gap(weight(state), central(2.0)) < 1e-10


@pytest.mark.parametrize("wire", ["packed64", "fixed64", "svec"])
def test_t14_forgetting_equals_training_without_the_client(wire: str) -> None:
    method = AFL(features=NARROW, wire=wire)
    clients = dealt(DATA, parts("sorted", 5))
    state = trained(method, clients)
    leaving = updates(method, state, clients, env())[2][1]
    found = forget(method, state, 2, leaving, env())
    others = [u for u in updates(method, state, clients, env()) if u[0] != 2]
    wanted = method.aggregate(method.init(env()), iter(others), env())
    assert model_difference(found, wanted) < 1e-8
    assert model_difference(state, wanted) > 1e-3  # it did matter
    assert found.private["ledger.client"].tolist() == [0, 1, 3, 4]
    if wire == "fixed64":
        assert torch.equal(found.private["sum.gram"], wanted.private["sum.gram"])


def test_t15_late_joining_and_partial_arrival_equal_training_from_the_start() -> None:
    method = AFL(features=NARROW)
    clients = dealt(DATA, parts("sorted", 5))
    everyone = updates(method, method.init(env()), clients, env())
    wanted = trained(method, clients)
    early = method.aggregate(method.init(env()), iter(everyone[:3]), env())
    assert model_difference(join_late(method, early, everyone[3:], env()), wanted) < 1e-8
    halves = [client(DATA, part) for part in parts("sorted", 5)[4].tensor_split(2)]
    four = method.aggregate(method.init(env()), iter(everyone[:4]), env())
    for half in halves:
        sent = method.client_update({}, {}, half, env().at(4)).update
        four = join_late(method, four, [(4, sent)], env())
    assert model_difference(four, wanted) < 1e-8
    assert four.private["ledger.count"].tolist() == wanted.private["ledger.count"].tolist()
    back = forget(method, four, 4, everyone[4][1], env())
    assert back.private["ledger.client"].tolist() == [0, 1, 2, 3]


WIRES = ["packed64", "packed32", "svec", "fixed64"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("width", [20, 300])
def test_who_leaves_more_features_than_samples_behind_may_leave_however_sums_travelled(
    wire: str, width: int
) -> None:
    method = AFL(ridge=1.0, features=FeatureMap(width=width), wire=wire)
    clients = [client(DATA, slice(start, start + 4)) for start in range(0, 20, 4)]
    state = trained(method, clients)
    leaving = updates(method, state, clients, env())
    for gone in range(4):  # down to four samples, of which most eigenvalues are rounding
        state = forget(method, state, gone, leaving[gone][1], env())
    wanted = trained(method, clients[4:])
    assert model_difference(state, wanted) < {"packed32": 1e-5, "fixed64": 1e-7}.get(wire, 1e-10)


def test_the_rounding_that_is_allowed_covers_that_of_many_additions() -> None:
    """Against exact sums, of messages that differ much in size."""
    generator = torch.Generator().manual_seed(0)
    sizes = 10 ** (6 * torch.rand(5000, 1, 1, generator=generator, dtype=torch.float64))
    rows = sizes * torch.randn(5000, 1, 2, generator=generator, dtype=torch.float64)
    messages = rows.mT @ rows  # [5000, 2, 2]
    exact = [[math.fsum(messages[:, i, j].tolist()) for j in range(2)] for i in range(2)]
    total = torch.zeros(2, 2, dtype=torch.float64)
    for message in messages:
        total += message
    apart = float(torch.linalg.matrix_norm(total - torch.tensor(exact, dtype=torch.float64), 2))
    whole = replace(SufficientStats.zero(2, 1), gram=pack(total))
    assert 0 < apart < gram_rounding(whole, "packed64", len(messages))


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_further_from_samples_than_any_rounding_is_refused(wire: str) -> None:
    method = AFL(ridge=1.0, features=NARROW, wire=wire)
    clients = [client(DATA, slice(start, start + 4)) for start in range(0, 12, 4)]
    state = trained(method, clients)
    leaving = updates(method, state, clients, env())[1][1]
    after = method.stats_of(forget(method, state, 1, leaving, env()).private).gram_matrix()
    values, vectors = torch.linalg.eigh(after)
    rounded = method.rounding(state.private) + 1e-10 * float(values.mean())
    assert rounded < 1e-4 * float(values[-1])  # nothing that matters could hide in it

    def forged(share: float) -> ServerState:
        """Sums that lack a direction that nobody had."""
        lost = pack(share * rounded * torch.outer(vectors[:, 0], vectors[:, 0]))
        name = "sum.gram"
        sent = {"svec": svec(lost), "fixed64": to_fixed(lost)}.get(wire, lost)
        return replace(state, private={**state.private, name: state.private[name] - sent})

    found = forget(method, forged(0.9), 1, leaving, env())
    assert found.private["ledger.client"].tolist() == [0, 2]
    with pytest.raises(ProtocolError, match="without client 1 the sums have eigenvalue -"):
        forget(method, forged(1.1), 1, leaving, env())


def test_removal_that_was_never_added_is_refused_and_nothing_is_lost() -> None:
    method = AFL(features=NARROW)
    clients = dealt(DATA, parts("iid", 3))
    state = trained(method, clients)
    before = {name: tensor.clone() for name, tensor in state.private.items()}
    sent = updates(method, state, clients, env())
    with pytest.raises(ProtocolError, match=r"client 9 is not in the sums \(in them: 0, 1, 2\)"):
        forget(method, state, 9, sent[0][1], env())
    with pytest.raises(ProtocolError, match=r"client 0 had added .* with other sums than"):
        forget(method, state, 0, sent[1][1], env())
    for name, tensor in before.items():
        assert torch.equal(state.private[name], tensor)
    alone = trained(method, clients[:1])
    with pytest.raises(ProtocolError, match="client 0 is the only one in the sums"):
        forget(method, alone, 0, sent[0][1], env())


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (AFL(balanced=True), "class weights were made with that client"),
        (build(AFL, {"privacy": {"epsilon": 1.0}}), "sums carry privacy noise"),
        (AFLByModels(), "updates are not sums over samples"),
    ],
)
def test_methods_that_cannot_forget_exactly_say_why(method: AFL, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        forget(method, method.init(env()), 0, Update({}, 0), env())


def test_t16_empty_client_changes_nothing() -> None:
    clients = dealt(DATA, parts("iid", 3))
    nothing = client(DATA, slice(0, 0))
    method = AFL(features=NARROW)
    sent = method.client_update({}, {}, nothing, env().at(3)).update
    assert sent.weight == 0
    assert all(not bool(t.any()) for t in sent.tensors.values())
    without, with_it = trained(method, clients), trained(method, [*clients, nothing])
    assert torch.equal(weight(with_it), weight(without))


def test_t17_a_class_nobody_has_has_no_weights_and_cannot_win() -> None:
    rows = (DATA.labels != 2).nonzero()[:, 0]
    method = AFL(ridge=1.0, features=LINEAR)
    state = trained(method, [client(DATA, rows[:30]), client(DATA, rows[30:])])
    assert torch.equal(weight(state)[:, 2], torch.zeros(8, dtype=torch.float64))
    scores = method.predictor(state.model, {}, env()).scores(-5 * DATA.inputs)
    assert bool((scores[:, :2] < 0).all(1).any())  # where the mask is needed
    assert 2 not in scores.argmax(1).tolist()


def test_t32_balanced_is_invariant_and_weighs_rare_classes_more() -> None:
    rare = torch.cat([(DATA.labels == 0).nonzero()[:4, 0], (DATA.labels != 0).nonzero()[:, 0]])
    method = AFL(ridge=1.0, features=LINEAR, balanced=True)
    one = trained(method, [client(DATA, rare)])
    two = trained(method, dealt(DATA, list(rare.tensor_split(4))))
    assert gap(weight(two), weight(one)) < 1e-8
    plain = trained(replace(method, balanced=False), [client(DATA, rare)])
    assert float(weight(one)[:, 0].norm()) > 1.5 * float(weight(plain)[:, 0].norm())


def test_t33_random_maps_have_the_same_bytes_in_another_process() -> None:
    code = (
        "from fedcord.algorithms.analytic.features import random_map; import hashlib; "
        "print(hashlib.sha256(random_map(3, 'rff', 5, 7)[0].numpy().tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = hashlib.sha256(random_map(3, "rff", 5, 7)[0].numpy().tobytes()).hexdigest()
    assert other.stdout.strip() == own
    assert not torch.equal(random_map(4, "rff", 5, 7)[0], random_map(3, "rff", 5, 7)[0])


def test_certificate_of_invariance_passes_for_sums_and_fails_for_kept_ridges() -> None:
    clients = dealt(DATA, parts("sorted", 6))
    found = check_invariance(AFL(features=NARROW), clients, env())
    assert found.difference < 1e-8
    assert [d.num_clients for d in found.dealings] == [6, 6, 3, 11, 2]
    assert "largest relative difference" in str(found)
    kept = AFLByModels(remove_ridge=False, features=NARROW)
    assert check_invariance(kept, clients, env()).difference > 1e-3
    with pytest.raises(DataError, match="1 client cannot be redistributed"):
        check_invariance(AFL(), clients[:1], env())


def test_network_features_do_not_depend_on_the_batch_in_any_bit() -> None:
    features = FeatureMap(source="model", expansion="none", unit=False)
    method = AFL(ridge=1.0, features=features)
    shared = method.init(env()).shared
    assert any(name.startswith("model.") for name in shared)
    whole = features.mapping(shared, env())(DATA.inputs)
    for rows in (slice(0, 1), slice(13, 50), slice(40, 100)):
        assert torch.equal(features.mapping(shared, env())(DATA.inputs[rows]), whole[rows])
    found = check_invariance(method, dealt(DATA, parts("sorted", 4)), env())
    assert found.difference < 1e-8


def test_pooled_maps_stand_beside_features_and_change_the_tag() -> None:
    values: dict[str, object] = {**federation.IMAGE, "models": ["cnn:3-4,fc=6"]}
    at = Env(federation.task(values), 0)
    flat = FeatureMap(source="model", expansion="none", unit=False, bias=False)
    deep = replace(flat, layers=SeenLayers(maps="all", grid=3))
    shared = deep.shared(at)
    inputs = at.task.prepare(federation.population(values, (70,)).client(0).train.inputs)
    network = cast(StagedNetwork, at.task.initial_network(at.generator("init")).eval())
    with torch.no_grad():
        features, maps = network.features_and_maps(inputs)
    means = [[cell.mean((-2, -1)) for cell in cells(map_, 3)] for map_ in maps]
    pooled = [torch.stack(own, -1).flatten(1) for own in means]
    found = deep.mapping(shared, at)(inputs)
    torch.testing.assert_close(found, torch.cat([features, *pooled], 1).double())
    assert found.shape[1] == deep.num_features(at.task) == 6 + 9 * (3 + 4)
    assert deep.tag(shared, at) != flat.tag(shared, at)
    assert deep.tag(shared, at) != replace(deep, layers=SeenLayers("last")).tag(shared, at)


def test_several_networks_stand_side_by_side_each_with_its_own_draw() -> None:
    one = FeatureMap(source="model", expansion="none", unit=False, bias=False)
    three = replace(one, networks=3)
    shared = three.shared(env())
    inputs = DATA.inputs[:70]
    found = three.mapping(shared, env())(inputs)
    width = one.num_features(env().task)
    assert found.shape == (70, 3 * width) == (70, three.num_features(env().task))
    # the first is that of a single one; every other is what its tensors alone give
    alone = [prefixed("model", select(shared, name)) for name in ("model", "model-1", "model-2")]
    for block, own in zip(found.split(width, 1), alone, strict=True):
        assert torch.equal(block, one.mapping(own, env())(inputs))
    assert torch.equal(found[:, :width], one.mapping(one.shared(env()), env())(inputs))
    assert not torch.equal(found[:, width : 2 * width], found[:, 2 * width :])
    swapped = {**shared, **prefixed("model-1", select(shared, "model-2"))}
    assert len({one.tag(shared, env()), three.tag(shared, env()), three.tag(swapped, env())}) == 3
    check = check_invariance(AFL(ridge=1.0, features=three), dealt(DATA, parts("sorted", 4)), env())
    assert check.difference < 1e-8


@pytest.mark.parametrize(
    ("source", "model", "said"),
    [
        ("pixels", "mlp:5", "features are made from pixels; use features.source=model"),
        ("model", "frozen:random-conv,filters=4", "the network is frozen"),
    ],
)
def test_several_networks_need_ones_that_are_drawn(source: str, model: str, said: str) -> None:
    task = federation.task({**federation.IMAGE, "models": [model]})
    found = AFL(features=FeatureMap(source=source, networks=2)).review(task)
    assert said in found.errors[0]


def cells(map_: torch.Tensor, grid: int) -> list[torch.Tensor]:
    """The parts [B, C, h, w] of a map, row by row; neighbours share what does not divide."""
    sides = [
        [(n * size // grid, math.ceil((n + 1) * size / grid)) for n in range(grid)]
        for size in map_.shape[2:]
    ]
    return [map_[:, :, a:b, c:d] for a, b in sides[0] for c, d in sides[1]]


def test_maps_need_a_network_that_has_some() -> None:
    maps = SeenLayers(maps="all")
    pixels = AFL(features=FeatureMap(layers=maps)).review(federation.task(federation.IMAGE))
    assert "pixels have no stages; use features.source=model" in pixels.errors[0]
    plain = federation.task({**federation.IMAGE, "models": ["mlp:5"]})
    said = AFL(features=FeatureMap(source="model", layers=maps)).review(plain)
    assert not said.errors
    assert "features.layers.maps = 'all': MLP has no stages under its features" in said.notes[0]


def test_rff_approximates_the_gaussian_kernel() -> None:
    features = FeatureMap(expansion="rff", width=8192, bias=False, bandwidth=0.7)
    z = features.mapping({}, env())(DATA.inputs[:30])
    x = DATA.inputs[:30].double()
    x = x / x.norm(dim=1, keepdim=True)
    kernel = torch.exp(-(torch.cdist(x, x) ** 2) / (2 * 0.7**2))
    assert float((z @ z.T - kernel).abs().max()) < 0.06


def test_other_features_from_a_client_are_refused_by_name() -> None:
    method, state = AFL(features=NARROW), AFL(features=NARROW).init(env())
    other = AFL(features=replace(NARROW, unit=False))
    sent = other.client_update({}, {}, client(DATA), env().at(7)).update
    with pytest.raises(ProtocolError, match="client 7 used other features than agreed"):
        method.aggregate(state, iter([(7, sent)]), env())


def test_features_that_are_not_finite_are_refused_at_the_client() -> None:
    spoiled = replace(DATA, inputs=DATA.inputs.clone())
    spoiled.inputs[3, 3] = float("nan")
    with pytest.raises(NumericalError, match="features are not finite"):
        AFL(features=NARROW).client_update({}, {}, client(spoiled), env().at(0))


def test_float32_messages_are_refused_for_an_ill_conditioned_solve() -> None:
    near = replace(DATA, inputs=DATA.inputs.clone())
    near.inputs[:, 0] = near.inputs[:, 1] + 3e-3 * near.inputs[:, 0]
    with pytest.raises(NumericalError, match="travelled in float32"):
        trained(AFL(ridge=1e-9, features=LINEAR, wire="packed32"), [client(near)])
    bearable = trained(AFL(ridge=1.0, features=LINEAR, wire="packed32"), [client(DATA)])
    assert 0 < gap(weight(bearable), central(1.0)) < 1e-5


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ridge = -1\.0: must be"):
        AFL(ridge=-1.0)
    with pytest.raises(ConfigError, match="ridge = 'best': must be a number >= 0, or gcv"):
        AFL(ridge="best")
    with pytest.raises(ConfigError, match="epsilon = 0: must be > 0"):
        build(AFL, {"privacy": {"epsilon": 0}})
    with pytest.raises(ConfigError, match="balanced and privacy"):
        build(AFL, {"balanced": True, "privacy": {"epsilon": 1.0}})
