"""Algorithms that name the same client work send the same bits, so a study may do it once."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.joint_features import CHOSEN
from fedcord.algorithms.averaging.deep_head import DeepHead
from fedcord.algorithms.averaging.exact_head import ExactHead
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.private_training import ExamplePrivacy
from fedcord.algorithms.oneshot.baselines.coboosting import CoBoosting
from fedcord.algorithms.oneshot.baselines.dense import Dense
from fedcord.algorithms.oneshot.baselines.ensemble import Ensemble
from fedcord.algorithms.oneshot.baselines.fedavg_oneshot import FedAvgOneShot
from fedcord.algorithms.oneshot.baselines.feddf import FedDF
from fedcord.algorithms.oneshot.baselines.fedetf import FedETF
from fedcord.algorithms.oneshot.baselines.fedproto_oneshot import FedProtoOneShot
from fedcord.algorithms.oneshot.baselines.fens import FENS
from fedcord.algorithms.oneshot.baselines.one_exchange import SendsOnce, Uploads, fused_predictor
from fedcord.algorithms.oneshot.baselines.otfusion import OTFusion
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.contract import (
    Algorithm,
    ClientResult,
    Env,
    Predictor,
    ServerState,
    SharesWork,
    Work,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.tensors import Tensors, hash_tensors
from tests.checks.registered import registered
from tests.federation import IMAGE, VECTOR, env, population

SHORT = LocalSGD(epochs=2, batch_size=16, lr=0.1)
SENDERS: list[Algorithm] = [
    CoBoosting(local=SHORT),
    Dense(local=SHORT),
    Ensemble(local=SHORT),
    FedAvgOneShot(local=SHORT),
    FedDF(local=SHORT),
    FENS(local=SHORT, holdout=0.0, model_format="float32"),
    OTFusion(local=SHORT),
]


def first_work(algorithm: Algorithm, values: dict[str, object]) -> tuple[str, str] | None:
    """The address and the bits of a client's first work; None where it is not shared."""
    here = env(values, rounds=algorithm.traits.rounds or 1).at(1)
    shared = algorithm.init(here).shared
    assert algorithm.traits.shares_work
    work = cast(SharesWork, algorithm).work(shared, here)
    if work is None:
        return None
    address = json.dumps(work.settings, sort_keys=True) + hash_tensors(work.received)
    update = algorithm.client_update(shared, {}, population(values).client(1), here).update
    return address, hash_tensors(update.tensors) + str(update.weight)


def disagreeing(methods: Mapping[str, Algorithm], values: dict[str, object]) -> list[set[str]]:
    """Groups of methods that name the same work and do not do the same."""
    bits: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for name, algorithm in methods.items():
        found = first_work(algorithm, values)
        if found is not None:
            names[found[0]].add(name)
            bits[found[0]].add(found[1])
    assert any(len(group) > 1 for group in names.values())
    return [names[address] for address, found in bits.items() if len(found) > 1]


def test_all_registered_algorithms_that_name_the_same_work_do_the_same() -> None:
    every = {name: registered(name)[0] for name in ALGORITHMS}
    sharing = {name: own for name, own in every.items() if own.traits.shares_work}
    assert {"ensemble", "dense", "fens", "fedetf", "fafi", "accord"} <= sharing.keys()
    assert disagreeing(sharing, VECTOR) == []


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
def test_methods_that_send_models_share_one_training(values: dict[str, object]) -> None:
    found = {first_work(method, values) for method in SENDERS}
    assert len(found) == 1
    assert found != {None}


def test_other_work_has_another_address() -> None:
    every: list[Algorithm] = [
        FedAvgOneShot(local=SHORT),
        FedAvgOneShot(local=dataclasses.replace(SHORT, lr=0.2)),
        FENS(local=SHORT, holdout=0.0),
        FENS(local=SHORT, holdout=0.2),
        FENS(local=SHORT, holdout=0.4),
        OTFusion(local=SHORT, start="own"),
        FedETF(local=SHORT),
        FedETF(local=SHORT, loss="cross_entropy"),
        FedProtoOneShot(local=SHORT),
    ]
    found = [first_work(own, VECTOR) for own in every]
    assert len({own[0] for own in found if own is not None}) == len(every)


def test_methods_over_fedavg_share_its_rounds_but_not_those_of_the_head() -> None:
    inner = FedAvg(local=dataclasses.replace(SHORT, schedule="cosine"))
    over = [ExactHead(inner=inner), DeepHead(inner=inner)]
    alone, longer = env(rounds=3).at(1), env(rounds=4).at(1)
    shared, data = inner.init(alone).shared, population().client(1)
    for round_ in range(3):
        here, there = (dataclasses.replace(e, round=round_) for e in (alone, longer))
        work = inner.work(shared, here)
        assert work is not None
        bits = hash_tensors(inner.client_update(shared, {}, data, here).update.tensors)
        for method in over:
            assert method.work(shared, there) == work
            update = method.client_update(shared, {}, data, there).update
            assert hash_tensors(update.tensors) == bits
    last = dataclasses.replace(longer, round=3)
    assert [method.work(shared, last) for method in over] == [None, None]


def test_rounds_of_fedavg_are_told_apart_by_number_rate_and_noise() -> None:
    here = env(rounds=4).at(1)
    falling = FedAvg(local=dataclasses.replace(SHORT, schedule="cosine"))
    shared = falling.init(here).shared
    addresses = [
        json.dumps(cast(Work, method.work(shared, place)).settings, sort_keys=True)
        for method in (falling, FedAvg(local=SHORT))
        for place in (here, dataclasses.replace(here, round=1))
    ]
    assert addresses[0] == addresses[2]  # in the first round the rate has not fallen yet
    assert len(set(addresses)) == 3
    assert FedAvg(private=ExamplePrivacy(noise=1.0)).work(shared, here) is None


def test_encoders_that_travel_in_another_form_have_another_address() -> None:
    forms = [Accord(encoder_format=form) for form in ("float32", "float16", "int8")]
    here = dataclasses.replace(env(rounds=3).at(1), round=1)
    shared = {CHOSEN: torch.tensor([1])}
    works = [cast(Work, form.work(shared, here)) for form in forms]
    assert len({json.dumps(work.settings, sort_keys=True) for work in works}) == 3


def test_only_the_models_of_fens_are_shared() -> None:
    here = dataclasses.replace(env(rounds=3), round=1)
    assert FENS(local=SHORT).work({}, here) is None


@dataclass(frozen=True)
class Careless(SendsOnce):
    """Its clients do something else and it does not say so."""

    local: LocalSGD = param(SHORT, "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Training that ends elsewhere."""
        result = super().client_update(shared, memory, data, env)
        moved = {name: tensor + 1 for name, tensor in result.update.tensors.items()}
        return ClientResult(dataclasses.replace(result.update, tensors=moved))

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """Nothing."""
        return {"nothing": torch.zeros(1)}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores."""
        return fused_predictor(shared, env)


def test_a_method_that_does_not_say_what_it_does_is_found() -> None:
    methods = {"ensemble": Ensemble(local=SHORT), "careless": Careless()}
    assert disagreeing(methods, VECTOR) == [{"ensemble", "careless"}]
