"""Rounds for accord: the averaged network and what clients make of it, under the same head."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from fedcord.algorithms.accord.rounds import AVERAGED, TRAINED_ON, AccordRounds
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.encoder import encoder_tensors, head_prefix
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.core.tensors import Tensors, hash_tensors, num_bytes, select
from fedcord.experiment.invariance import check_invariance
from fedcord.ops.number_format import grow
from tests.algorithms.accord.encoders import SHORT, method
from tests.algorithms.accord.test_accord_student import SIZES, trained
from tests.federation import IMAGE, VECTOR, population, task

LOCAL: dict[str, Any] = {"lr": 0.1, "batch_size": 16, "schedule": "cosine"}
TUNING: dict[str, Any] = {"epochs": 2, "batch_size": 16, "lr": 0.05}
ROUNDS = 2


def rounds(encoders: dict[str, Any] | None = None, **values: Any) -> AccordRounds:
    parts = {"inner": {"local": LOCAL}, "tuning": TUNING, "rounds": ROUNDS}
    return build(AccordRounds, {**parts, "encoders": {**SHORT, **(encoders or {})}, **values})


def last_encoders(
    algorithm: AccordRounds, values: dict[str, object] = VECTOR
) -> dict[int, Tensors]:
    """By place, all encoders that the finished head sees."""
    end = trained(algorithm, algorithm.traits.rounds or 0, values)[0][-1]
    return {
        place: select(end.shared, f"encoder.{place}") for place in end.shared["chosen"].tolist()
    }


def averaged_model(values: dict[str, object] = VECTOR) -> Tensors:
    """What FedAvg alone ends with."""
    return select(trained(build(FedAvg, {"local": LOCAL}), ROUNDS, values)[0][-1].shared, "model")


def test_it_has_an_averaged_block_one_trained_on_and_one_alone_of_every_client() -> None:
    places = [TRAINED_ON - k for k in reversed(range(len(SIZES)))] + [AVERAGED, *range(len(SIZES))]
    assert list(last_encoders(rounds())) == places
    assert list(last_encoders(rounds(tuned=False))) == [AVERAGED, *range(len(SIZES))]
    few = {"selection": {"max_encoders": 2}}
    assert list(last_encoders(rounds(few))) == [TRAINED_ON - 3, TRAINED_ON, AVERAGED, 0, 3]


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["vectors", "images"])
def test_limits_the_averaged_block_has_fedavgs_bits_and_own_ones_have_accords(
    values: dict[str, object],
) -> None:
    found, here = last_encoders(rounds(), values), task(values)
    head = head_prefix(here.scratch_network())
    alone = {n: t for n, t in averaged_model(values).items() if not n.startswith(head)}
    assert hash_tensors(found[AVERAGED]) == hash_tensors(alone)
    accord = trained(method(), 3, values)[0][-1].shared
    for client in range(len(SIZES)):
        own = select(accord, f"encoder.{client}")
        assert own
        assert hash_tensors(found[client]) == hash_tensors(own)


def test_what_a_client_makes_of_the_network_is_training_from_it_alone() -> None:
    found, here = last_encoders(rounds()), task()
    start, data = averaged_model(), population(VECTOR, SIZES).client(1)
    place = Env(here, 0, round=ROUNDS + 2, num_rounds=ROUNDS + 4, client=1)
    network = here.initial_network(torch.Generator(), 1)
    network.load_state_dict(dict(start))
    rounds().tuning.train(network, data.train, cross_entropy, place)
    assert hash_tensors(found[TRAINED_ON - 1]) == hash_tensors(encoder_tensors(network))
    assert hash_tensors(found[TRAINED_ON - 1]) != hash_tensors(found[AVERAGED])


def test_the_head_is_the_ridge_regression_of_everybodys_samples_on_all_blocks() -> None:
    algorithm = rounds({"ridge": 0.3})
    end = trained(algorithm, algorithm.traits.rounds or 0)[0][-1]
    here, people = task(), population(VECTOR, SIZES)
    data = [people.client(k).train for k in range(len(SIZES))]
    inputs = here.prepare(torch.cat([part.inputs for part in data]))
    labels = torch.cat([part.labels for part in data])
    blocks = []
    for encoder in last_encoders(algorithm).values():
        network = here.initial_network(torch.Generator())
        network.load_state_dict(dict(encoder), strict=False)
        with torch.no_grad():
            block = network.features(inputs).double()  # type: ignore[operator]
        blocks.append(block / block.norm(dim=1, keepdim=True).clamp(min=1e-12) / 3)  # of nine
    rows = torch.cat([*blocks, torch.ones(len(labels), 1)], 1).numpy()
    assert len(blocks) == 9
    model = Ridge(alpha=0.3, fit_intercept=False).fit(rows, np.eye(here.num_classes)[labels])
    scores = algorithm.predictor(end.model, {}, Env(here, 0)).scores(inputs)
    assert np.allclose(scores.numpy(), model.predict(rows), atol=1e-5)


def test_given_the_encoders_the_head_does_not_depend_on_who_holds_what() -> None:
    algorithm, people = rounds({"ridge": 0.3}), population(VECTOR, SIZES)
    clients = [people.client(k) for k in range(len(SIZES))]
    found = check_invariance(algorithm, clients, Env(task(), 0))
    assert found.given == "the encoders"
    assert found.difference < 1e-9


def test_until_there_is_a_head_the_averaged_network_answers() -> None:
    algorithm = rounds()
    states, _ = trained(algorithm, algorithm.traits.rounds or 0)
    inputs = task().prepare(population(VECTOR, SIZES).client(0).train.inputs)
    env = Env(task(), 0, num_rounds=algorithm.traits.rounds or 0)
    network = task().network_with(averaged_model())
    with torch.no_grad():
        wanted = network(inputs)
    for done in range(ROUNDS, ROUNDS + 4):  # counts, encoders, training on
        place = dataclasses.replace(env, round=done)
        scores = algorithm.predictor(states[done].model, {}, place).scores(inputs)
        assert torch.allclose(scores.float(), wanted, atol=1e-6)
    final = algorithm.predictor(states[-1].model, {}, env).scores(inputs)
    assert not torch.allclose(final.float(), wanted, atol=1e-2)
    assert not select(states[-1].model, "model")


def test_the_network_travels_only_to_be_trained_on_and_encoders_only_with_the_sums() -> None:
    algorithm = rounds()
    _, records = trained(algorithm, algorithm.traits.rounds or 0)
    clients = len(SIZES)
    model, encoder = num_bytes(averaged_model()), num_bytes(last_encoders(algorithm)[0])
    names = 8 * clients
    down = [record.bytes_down for record in records]
    assert down == [
        *(clients * model,) * ROUNDS,
        0,  # class counts
        clients * names,
        clients * (names + model),
        clients * (8 * 9 + 9 * encoder),
    ]


@pytest.mark.parametrize("form", ["float16", "int8"])
def test_encoders_of_rounds_travel_in_the_form_of_the_others(form: str) -> None:
    full, small = last_encoders(rounds()), last_encoders(rounds({"encoder_format": form}))
    assert full.keys() == small.keys()
    for place in full:
        assert num_bytes(small[place]) < num_bytes(full[place])
    grown = grow(small[AVERAGED])
    for name, tensor in full[AVERAGED].items():
        assert torch.allclose(grown[name], tensor, atol=0.02)


def test_without_room_for_all_fewer_clients_are_chosen() -> None:
    width = int(task().scratch_network().feature_dim)  # type: ignore[arg-type]
    found = last_encoders(rounds({"joint": {"width_limit": 5 * width}}))
    assert list(found) == [TRAINED_ON - 3, TRAINED_ON, AVERAGED, 0, 3]
    narrowed = last_encoders(rounds({"joint": {"width_limit": 5 * width, "projection": width}}))
    assert len(narrowed) == 9


def test_all_encoders_count_against_the_byte_budget() -> None:
    each = num_bytes(last_encoders(rounds())[0])
    for times, clients in ((3, 1), (4, 1), (5, 2), (8, 3)):
        found = last_encoders(rounds({"selection": {"byte_budget": times * each}}))
        assert len(found) == 2 * clients + 1
    alone = {"selection": {"byte_budget": 3 * each}}
    assert len(last_encoders(rounds(alone, tuned=False))) == 3


def test_a_public_encoder_takes_its_own_columns_once() -> None:
    here, public = {**IMAGE, "models": ["cnn"]}, {"public": "random-conv,filters=16"}
    joint = rounds({"joint": public}).encoders.joint
    block, width = joint.block_width(task(here), 0), joint.public_width(task(here))
    assert width > 0
    for limit, blocks in ((3 * block + width, 3), (5 * block + width - 1, 3)):
        algorithm = rounds({"joint": {**public, "width_limit": limit}})
        assert not algorithm.review(task(here)).errors
        assert len(last_encoders(algorithm, here)) == blocks


@pytest.mark.parametrize("tuned", [True, False])
def test_what_has_no_room_for_one_client_is_refused_before_a_run_with_what_was_set(
    tuned: bool,
) -> None:
    needs, here = 2 + tuned, task()
    width = int(here.scratch_network().feature_dim)  # type: ignore[arg-type]
    each = num_bytes(encoder_tensors(here.scratch_network()))

    def errors(columns: int, budget: int) -> tuple[str, ...]:
        encoders = {"joint": {"width_limit": columns}, "selection": {"byte_budget": budget}}
        return rounds(encoders, tuned=tuned).review(here).errors

    assert errors(needs * width, needs * each) == ()
    wide, heavy = errors(needs * width - 1, needs * each - 1)
    assert f"encoders.joint.width_limit = {needs * width - 1} has no room for the {needs}" in wide
    assert f"make a head of {needs * width} features" in wide
    assert f"encoders.selection.byte_budget = {needs * each - 1} does not hold {needs}" in heavy
    assert f"raise it to {needs * each} or more" in heavy
    assert ("tuned=false" in wide) == ("tuned=false" in heavy) == tuned
    unasked = rounds({"selection": {"byte_budget": needs * each - 1}}, tuned=tuned)
    with pytest.raises(ConfigError, match=f"byte_budget = {needs * each - 1} does not hold"):
        last_encoders(unasked)


def test_conjugate_gradients_find_the_same_head() -> None:
    solve = {"by": "gradients", "exchanges": 30, "residual": 1e-9}
    exact, found = rounds({"ridge": 0.3}), rounds({"ridge": 0.3, "solve": solve})
    inputs = task().prepare(population(VECTOR, SIZES).client(0).train.inputs)
    scores = []
    for algorithm in (exact, found):
        end = trained(algorithm, algorithm.traits.rounds or 0)[0][-1]
        scores.append(algorithm.predictor(end.model, {}, Env(task(), 0)).scores(inputs))
    assert torch.allclose(scores[0], scores[1], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"encoders": {"refinements": 1}}, "nobody's to refine"),
        ({"encoders": {"personal": True}}, "heads of clients' own"),
        ({"encoders": {"privacy": {"epsilon": 1.0}}}, "rounds of averaging have no noise"),
        ({"encoders": {"joint": {"combine": "mean"}}}, "of different origin have no mean"),
        ({"of": "afl", "inner": {}}, "must be a method that averages models"),
        ({"inner": {"finetune_epochs": 1}}, "every client has a model of its own"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(AccordRounds, values)


def test_networks_that_differ_are_refused() -> None:
    mixed = task({**VECTOR, "models": ["mlp:6", "mlp:9"]})
    assert any("give --model once" in error for error in rounds().review(mixed).errors)
    assert not rounds().review(task()).errors


def test_other_averaging_methods_will_do() -> None:
    values = {"of": "scaffold", "inner": {"local": {"lr": 0.1, "batch_size": 16}}}
    algorithm = build(AccordRounds, {**values, "rounds": 2, "tuning": TUNING, "encoders": SHORT})
    found = last_encoders(algorithm)
    assert hash_tensors(found[AVERAGED]) != hash_tensors(last_encoders(rounds())[AVERAGED])
    assert len(found) == 9
