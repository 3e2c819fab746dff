"""What clients say of how many examples they have is checked for every method of sums alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.afl_aa import AFLByModels
from fedcord.algorithms.analytic.deepafl import DeepAFL
from fedcord.algorithms.analytic.fed3r import Fed3R
from fedcord.algorithms.analytic.fedhip import FedHiP
from fedcord.algorithms.analytic.fedncm import FedNCM
from fedcord.algorithms.analytic.privacy import Privacy
from fedcord.algorithms.analytic.safle import SAFLe
from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError
from fedcord.engine.visits import check_update
from tests.algorithms.analytic.samples import NARROW, client, env, samples

LOCAL = Privacy(epsilon=1.0, noise_at="local")
METHODS = {
    **{wire: AFL(features=NARROW, wire=wire) for wire in ("packed64", "packed32", "svec")},
    "fixed64": AFL(features=NARROW, wire="fixed64"),
    "rfactor": AFL(features=NARROW, wire="rfactor"),
    "class counts": AFL(features=NARROW, balanced=True),
    "noise": AFL(features=NARROW, privacy=LOCAL),
    "afl-aa": AFLByModels(features=NARROW),
    "deepafl": DeepAFL(features=NARROW, blocks=1, width=8),
    "fed3r": Fed3R(features=NARROW),
    "fedhip": FedHiP(features=NARROW),
    "fedncm": FedNCM(),
    "safle": SAFLe(thresholds="fixed", features=NARROW),
}


def sent_by(method: Any, count: int) -> tuple[Update, Any]:
    """A client's first message and what was agreed."""
    at = env(rounds=method.traits.rounds).at(1)
    state = method.init(at)
    data = client(samples(30), slice(count))
    return method.client_update(state.shared, {}, data, at).update, method.expected_update(
        state.shared, at
    )


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("count", [0, 1, 30])
def test_what_honest_clients_say_passes_also_of_no_examples(method: Any, count: int) -> None:
    update, agreed = sent_by(method, count)
    check_update(update, agreed, "client 1")
    counting = [name for name, spec in agreed.items() if spec.counts]
    assert [update.tensors[name].sum() for name in counting] == [count]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_class_with_fewer_examples_than_none_is_refused(method: Any) -> None:
    update, agreed = sent_by(method, 30)
    (name,) = (name for name, spec in agreed.items() if spec.counts)
    moved = update.tensors[name].clone()
    moved[0] -= 10**6
    moved[1] += 10**6  # as many in all as before
    spoiled = replace(update, tensors={**update.tensors, name: moved})
    with pytest.raises(ProtocolError, match=f"client 1 sent {name} with -.* counts nothing"):
        check_update(spoiled, agreed, "client 1")
    more = replace(update, weight=update.weight + 1)
    with pytest.raises(ProtocolError, match=f"client 1 sent {name} that adds up to 30, but weight"):
        check_update(more, agreed, "client 1")


@pytest.mark.parametrize("wire", ["packed64", "packed32", "svec", "fixed64"])
def test_a_sum_of_squares_below_zero_is_refused_however_it_travels(wire: str) -> None:
    update, agreed = sent_by(METHODS[wire], 30)
    name = "stats.target_square"
    below = {**update.tensors, name: -update.tensors[name]}
    with pytest.raises(ProtocolError, match=f"client 1 sent {name} with -.*; expected 0 or more"):
        check_update(replace(update, tensors=below), agreed, "client 1")
