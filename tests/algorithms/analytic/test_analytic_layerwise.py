"""FedACnnL and pFedACnnL: T22 to T26."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.fedacnnl import FedACnnL
from fedcord.algorithms.analytic.layerwise import Layers, collected, label_codes, layer_stats
from fedcord.algorithms.analytic.pfedacnnl import PFedACnnL
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError
from tests.algorithms.analytic.samples import (
    client,
    dealt,
    env,
    gap,
    one_hot,
    samples,
    trained,
    weight,
)

DATA = samples(90, images=True)
SMALL = Layers(channels=(4, 6), kernel=3)
PARTS = DATA.labels.argsort(stable=True).tensor_split(6)
HERE = env(images=True)


def layers_of(state: ServerState) -> list[Tensor]:
    return collected(state.shared)


@pytest.mark.parametrize("activation", ["relu", "tanh", "leaky"])
def test_t22_the_whole_network_is_the_same_for_another_partition(activation: str) -> None:
    method = FedACnnL(replace(SMALL, activation=activation))
    one = layers_of(trained(method, [client(DATA)], HERE))
    many = layers_of(trained(method, dealt(DATA, PARTS), HERE))
    assert [tuple(w.shape) for w in one] == [(10, 4), (37, 6), (6 * 4 + 1, 3)]
    for a, b in zip(many, one, strict=True):
        assert gap(a, b) < 1e-7


def test_forward_pass_is_that_of_a_convolutional_network() -> None:
    state = trained(FedACnnL(SMALL), [client(DATA)], HERE)
    first, second, last = layers_of(state)
    x = HERE.task.prepare(DATA.inputs[:7]).double()
    for w, before in ((first, 1), (second, 4)):
        kernels = w[:-1].T.reshape(-1, before, 3, 3)
        x = F.max_pool2d(F.conv2d(x, kernels, w[-1], padding=1).relu(), 2)
    wanted = x.flatten(1) @ last[:-1] + last[-1]
    found = SMALL.scores(HERE.task.prepare(DATA.inputs[:7]), [first, second, last], HERE.task)
    assert torch.allclose(found, wanted)


def test_t23_the_moment_trick_equals_repeated_targets() -> None:
    inputs = HERE.task.prepare(DATA.inputs)
    rows = torch.cat(list(SMALL.design(inputs, [], HERE.task)))  # [N, P, D]
    codes = label_codes(SMALL, 0, 3, seed=0)
    targets = (one_hot(DATA.labels) @ codes)[:, None].expand(-1, rows.shape[1], -1)
    flat = rows.reshape(-1, rows.shape[2])
    stats = layer_stats(SMALL, [], DATA, HERE.task, 1, [slice(0, 90)])
    assert torch.allclose(stats.gram_matrix(), flat.T @ flat)
    assert gap(stats.moment @ codes, flat.T @ targets.reshape(-1, codes.shape[1])) < 1e-10


def test_t23_coded_channels_lie_in_as_many_directions_as_there_are_classes() -> None:
    wide = Layers(channels=(9,), kernel=3)
    coded = layers_of(trained(FedACnnL(wide, random_channels=0.0), [client(DATA)], HERE))[0]
    mixed = layers_of(trained(FedACnnL(wide, random_channels=0.5), [client(DATA)], HERE))[0]
    assert int(torch.linalg.matrix_rank(coded)) <= 3
    assert int(torch.linalg.matrix_rank(mixed)) > 3


def test_channels_have_mean_square_one() -> None:
    first = layers_of(trained(FedACnnL(SMALL), dealt(DATA, PARTS), HERE))[0]
    rows = torch.cat(list(SMALL.design(HERE.task.prepare(DATA.inputs), [], HERE.task)))
    assert torch.allclose(((rows @ first) ** 2).mean((0, 1)), torch.ones(4, dtype=torch.float64))


def test_t24_without_hidden_layers_it_is_afl() -> None:
    method = FedACnnL(Layers(channels=()), last_ridge=0.02)
    features = FeatureMap(source="pixels", expansion="none", unit=False)
    afl = trained(AFL(ridge=0.02 * 90, features=features), dealt(DATA, PARTS), HERE)
    assert gap(layers_of(trained(method, dealt(DATA, PARTS), HERE))[0], weight(afl)) < 1e-10


def test_vectors_go_through_dense_layers() -> None:
    data = samples(80)
    method = FedACnnL(Layers(channels=(12,)))
    state = trained(method, [client(data)])
    assert [tuple(w.shape) for w in layers_of(state)] == [(9, 12), (13, 3)]
    scores = method.predictor(state.model, {}, env()).scores(data.inputs)
    assert float((scores.argmax(1) == data.labels).double().mean()) > 0.8


def test_every_second_position_changes_the_sums_but_not_the_shapes() -> None:
    sparse = replace(SMALL, stride=2)
    a, b = (layer_stats(s, [], DATA, HERE.task, 1, [slice(0, 90)]) for s in (SMALL, sparse))
    assert a.gram.shape == b.gram.shape
    assert sparse.num_positions(0, HERE.task) * 4 == SMALL.num_positions(0, HERE.task)
    assert float(b.gram_matrix()[-1, -1]) == 90 * 16


PERSONAL = PFedACnnL(SMALL, most_groups=1)


def own_layer(method: PFedACnnL, state: ServerState, number: int) -> Tensor:
    data = dealt(DATA, PARTS)[number]
    return method.personalize(state.model, {}, data, HERE.at(number))["head.weight"]


def test_t25_an_infinite_pull_in_one_group_is_fedacnnl() -> None:
    method = replace(PERSONAL, pull=1e12)
    state = trained(method, dealt(DATA, PARTS), HERE)
    wanted = layers_of(trained(method.shared_network, dealt(DATA, PARTS), HERE))
    assert state.result["group.weight"].shape[0] == 1
    for found, layer in zip(layers_of(state), wanted, strict=True):
        assert torch.equal(found, layer)
    # one group's sums and everybody's differ by the factor 1 + borrow, ridge included
    assert gap(own_layer(method, state, 2), wanted[-1]) < 1e-6


def test_t25_without_pull_it_is_the_clients_least_squares() -> None:
    method = PFedACnnL(Layers(channels=(2,), kernel=3, activation="tanh", grid=2), pull=1e-9)
    half = list(torch.arange(90).tensor_split(2))
    state = trained(method, dealt(DATA, half), HERE)
    inputs = HERE.task.prepare(DATA.inputs[half[0]])
    rows = torch.cat(
        [r[:, 0] for r in method.layers.design(inputs, layers_of(state)[:-1], HERE.task)]
    )
    wanted = torch.linalg.lstsq(rows, one_hot(DATA.labels[half[0]])).solution
    data = client(DATA, half[0])
    found = method.personalize(state.model, {}, data, HERE.at(0))["head.weight"]
    assert gap(found, wanted) < 1e-6


def test_t26_other_members_of_the_group_can_be_dealt_anew() -> None:
    others = torch.cat(PARTS[1:])
    g = torch.Generator().manual_seed(0)
    again = others[torch.randperm(len(others), generator=g)].tensor_split(5)
    found = [
        own_layer(PERSONAL, trained(PERSONAL, dealt(DATA, [PARTS[0], *rest]), HERE), 0)
        for rest in (PARTS[1:], again)
    ]
    assert gap(found[1], found[0]) < 1e-8


def test_clients_with_the_same_classes_are_grouped_and_get_their_groups_model() -> None:
    by_class = [(DATA.labels == c).nonzero()[:, 0] for c in range(3)]
    clients = dealt(DATA, [part for c in (0, 1, 2) for part in by_class[c].tensor_split(3)])
    method = replace(PERSONAL, most_groups=8, pull=1e12)
    state = trained(method, clients, HERE)
    assert state.result["group.of"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    memory = method.personalize(state.model, {}, clients[4], HERE.at(4))
    assert gap(memory["head.weight"], state.result["group.weight"][1]) < 1e-6
    unheard = method.personalize(state.model, {}, client(DATA, slice(0, 0)), HERE.at(50))
    assert torch.equal(unheard["head.weight"], state.shared["layer2.weight"])


def test_layers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="kernel = 4: must be odd"):
        Layers(kernel=4)
    with pytest.raises(ConfigError, match="channels = 0: must be at least 1"):
        Layers(channels=(8, 0))
