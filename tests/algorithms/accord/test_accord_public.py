"""A public frozen encoder as one more block: the head, its bytes, and all that counts blocks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.accord.accord import Accord
from fedcord.checks import CHECKS, Expectations, check_algorithm
from fedcord.cli.main import main
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.tensors import select
from fedcord.models.registry import network_factory
from fedcord.ops.symmetric import unpack
from tests.algorithms.accord.encoders import (
    MIXED,
    at_round,
    at_sums,
    client,
    drawn_encoder,
    gap,
    method,
    run,
    solved,
    sums_of,
    with_encoders,
)
from tests.checks.registered import registered
from tests.federation import IMAGE, VECTOR, examples, population, task

CONVOLUTION = "random-conv,filters=6,seed=4"
FEW_FILTERS = "random-conv,filters=4"
SAMPLES = examples(90, seed=3)
CHOSEN = [0, 1, 3]


def unit(features: Any) -> Any:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.maximum(length, 1e-12)  # a sample may silence every unit


def by_hand(env: Env, inputs: Tensor, chosen: list[int], public: Any) -> Any:
    """[unit blocks of every encoder, unit public block] / √(M+1), 1; from the definition."""
    blocks = []
    for k in chosen:
        network = env.task.initial_network(torch.Generator(), k)
        network.load_state_dict({**network.state_dict(), **drawn_encoder(env.task, 5 + k, k)})
        filled = torch.cat([inputs, inputs.new_zeros(-len(inputs) % 64, *inputs.shape[1:])])
        with torch.no_grad():
            parts = [network.eval().features(part) for part in filled.split(64)]  # type: ignore[operator]
        blocks.append(unit(torch.cat(parts)[: len(inputs)].double().numpy()))
    joined = np.concatenate([*blocks, unit(public)], axis=1) / math.sqrt(len(chosen) + 1)
    return np.concatenate([joined, np.ones((len(inputs), 1))], axis=1)


@settings(max_examples=15)
@given(
    owners=st.lists(st.integers(0, 4), min_size=len(SAMPLES), max_size=len(SAMPLES)),
    chosen=st.sets(st.integers(0, 4), min_size=1),
)
def test_head_is_ridge_regression_on_all_blocks_and_the_public_one_for_any_partition(
    owners: Any, chosen: Any
) -> None:
    accord = method(ridge=0.5, joint={"public": "pixels"})
    env = at_sums(accord, MIXED)
    places = torch.tensor(owners)
    clients = [client(SAMPLES, (places == k).nonzero().flatten()) for k in range(5)]
    after = solved(accord, with_encoders(accord, env, sorted(chosen)), clients, env)
    inputs = env.task.prepare(SAMPLES.inputs)
    features = by_hand(env, inputs, sorted(chosen), inputs.double().numpy())
    targets = np.eye(3)[SAMPLES.labels]
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(features, targets)
    assert gap(after.result["head.weight"], torch.from_numpy(oracle.coef_.T)) <= 1e-8


def test_images_are_seen_through_the_named_encoder_as_it_is_built_elsewhere() -> None:
    accord = method(joint={"public": CONVOLUTION})
    env = at_sums(accord, IMAGE)
    state = with_encoders(accord, env, [0, 2])
    inputs = env.task.prepare(examples(50, 8, IMAGE).inputs)
    network: Any = network_factory(
        f"frozen:{CONVOLUTION}", kind="image", input_shape=(1, 16, 16), num_classes=3,
        mean=(0.5,), std=(0.5,),
    )(torch.Generator())  # fmt: skip
    filled = torch.cat([inputs, inputs.new_zeros(14, 1, 16, 16)])
    wanted = unit(network.features(filled)[:50].double().numpy()) / math.sqrt(3)
    *blocks, public = accord.joint.blocks(state.shared, env)(inputs)
    assert public.shape == (50, 24)
    assert np.allclose(public.numpy(), wanted, atol=1e-12)
    for block in (*blocks, public):
        assert np.allclose(block.norm(dim=1).numpy(), 1 / math.sqrt(3))
    joined = accord.joint.mapping(state.shared, env)(inputs)
    assert np.allclose(joined.norm(dim=1).numpy(), math.sqrt(2))
    assert joined.shape[1] == accord.joint.num_features([0, 2], env.task) == 2 * 32 + 24 + 1


@pytest.mark.parametrize("secure", [None, 0.6])
def test_the_public_encoder_never_travels_and_only_widens_the_sums(secure: float | None) -> None:
    _, plain = run(method(), secure=secure)
    states, public = run(method(joint={"public": "pixels"}), secure=secure)
    assert [r.bytes_down for r in public] == [r.bytes_down for r in plain]
    assert [r.bytes_up for r in public[:-1]] == [r.bytes_up for r in plain[:-1]]

    def sums(width: int) -> int:
        return 4 * (8 * width * (width + 1) // 2 + 8 * width * 3)

    before, after = 4 * 16 + 1, 4 * 16 + 8 + 1
    assert public[-1].bytes_up - plain[-1].bytes_up == sums(after) - sums(before)
    assert all(name.split(".")[1] in "0123" for name in states[-1].shared if "encoder" in name)
    assert all(record.refused == () for record in public)


@pytest.mark.parametrize(
    ("joint", "width"),
    [({"projection": 7}, 7), ({"projection": 500}, 23), ({"expansion": "relu", "width": 30}, 30)],
)
def test_it_is_narrowed_and_expanded_with_the_rest(joint: Any, width: int) -> None:
    accord = method(ridge=0.5, joint={"public": "pixels", **joint})
    env = at_sums(accord, MIXED)
    state = with_encoders(accord, env, [0, 1])
    features = accord.joint.mapping(state.shared, env)(env.task.prepare(SAMPLES.inputs))
    assert features.shape[1] == accord.joint.num_features([0, 1], env.task) == width + 1
    assert solved(accord, state, [client(SAMPLES)], env).result["head.weight"].shape[0] == width + 1
    bare = method(joint=joint)
    without = bare.joint.mapping(state.shared, env)(env.task.prepare(SAMPLES.inputs))
    assert without.shape != features.shape or gap(without, features) > 1e-3


@pytest.mark.parametrize("gone", CHOSEN)
def test_dropping_an_encoder_leaves_the_public_one_and_is_solving_from_scratch(gone: int) -> None:
    accord = method(ridge=0.5, personal=True, joint={"public": "pixels"})
    env = at_sums(accord, MIXED)
    everyone = population(MIXED, sizes=(40, 25, 12, 60))
    clients = [everyone.client(k) for k in range(4)]
    full = solved(accord, with_encoders(accord, env, CHOSEN), clients, env)
    found = accord.drop_encoder(full, gone, env)
    fresh = with_encoders(accord, env, [k for k in CHOSEN if k != gone])
    wanted = solved(accord, fresh, clients, env)
    for name in ("head.weight", "head.gram"):
        assert gap(found.result[name], wanted.result[name]) <= 1e-8
    assert accord.stats_of(found.private).tag == accord.agreed_tag(fresh.shared, env)


def test_refinement_moves_the_clients_own_block_against_the_whole_head() -> None:
    def refined(**values: Any) -> tuple[float, float, float]:
        """Reported loss, and the head's own loss on the client before and after."""
        accord = method(refinements=1, refine=values, joint={"public": "pixels"})
        env = Env(task(MIXED), 0, 2, accord.traits.rounds or 0)
        everyone = population(MIXED, sizes=(40, 25, 12, 60))
        clients = [everyone.client(k) for k in range(4)]
        state = solved(accord, with_encoders(accord, env, CHOSEN), clients, env)
        env, data = at_round(env, 3), clients[1].train
        result = accord.client_update(state.shared, {}, clients[1], env.at(1)).update
        after = accord.aggregate(state, iter([(1, result)]), env)
        moved = {n for n, t in after.shared.items() if not torch.equal(t, state.shared[n])}
        assert moved <= {f"encoder.1.{name}" for name in select(result.tensors, "model")}
        losses = []
        for shared in (state.shared, after.shared):
            features = accord.joint.mapping(shared, env)(env.task.prepare(data.inputs))
            targets = F.one_hot(data.labels, 3).double()
            rest = targets - features @ state.result["head.weight"]
            losses.append(float(rest.square().sum(1).mean()))
        return result.metrics["train_loss"], losses[0], losses[1]

    reported, before, _ = refined(epochs=1, lr=1e-30, batch_size=1000)
    assert reported == pytest.approx(before, rel=1e-5)
    _, before, after = refined(epochs=8, lr=0.1)
    assert after < 0.97 * before


def test_sums_of_another_public_encoder_are_refused() -> None:
    accord = method(joint={"public": "random-conv,filters=6,seed=4"})
    env = at_sums(accord, IMAGE)
    state = with_encoders(accord, env, [0])
    clients = [client(examples(12, k, IMAGE)) for k in range(2)]
    tags = set()
    for public in ("random-conv,filters=6,seed=5", "random-conv,filters=6,seed=4,size=8"):
        other = method(joint={"public": public})
        updates = [sums_of(accord, state, clients, env)[0], sums_of(other, state, clients, env)[1]]
        with pytest.raises(ProtocolError, match="client 1 used other features than agreed"):
            accord.aggregate(state, iter(updates), env)
        tags.add(other.agreed_tag(state.shared, env))
    fresh = at_sums(accord, IMAGE)  # another process would build it anew
    assert (
        accord.agreed_tag(state.shared, env) == accord.agreed_tag(state.shared, fresh) not in tags
    )
    named = [
        method(joint={"public": f"pixels,of={name}"}).agreed_tag(state.shared, env)
        for name in ("a", "b")
    ]
    assert named[0] != named[1]  # what data are features of shows in the name only


def test_it_takes_its_columns_from_the_width_that_encoders_may_fill() -> None:
    bare, public = (
        run(method(selection={"rule": "all"}, joint={"width_limit": 50, "public": name}))[0][-1]
        for name in ("", "pixels")
    )
    assert len(bare.shared["chosen"]) == 3  # 16 features each
    assert len(public.shared["chosen"]) == 2  # 8 columns are taken
    assert public.result["head.weight"].shape == (2 * 16 + 8 + 1, 3)
    narrow = method(joint={"width_limit": 20, "public": "pixels"})
    (error,) = narrow.review(task()).errors
    assert "of width 16 and the public one of width 8 make a head of 24" in error
    assert not method(joint={"width_limit": 24, "public": "pixels"}).review(task()).errors
    many = method(joint={"width_limit": 50, "public": "pixels"}, selection={"max_encoders": 3})
    assert not many.review(task()).errors
    (note,) = (note for note in many.review(task()).notes if "max_encoders" in note)
    assert "3 encoder(s) of width 16 and the public one" in note


def test_a_mean_has_no_place_for_another_width() -> None:
    with pytest.raises(ConfigError, match="a public encoder has a width of its own"):
        method(joint={"public": "pixels", "combine": "mean"})


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ("resnet152", "Allowed: efficientnet-lite0, hf:MODEL, pixels, random-conv"),
        ("frozen:pixels", "Allowed: efficientnet-lite0, hf:MODEL, pixels, random-conv"),
        ("random-conv,depth=3", "depth"),
        ("random-conv,filters=0", "filters = 0"),
    ],
)
def test_unknown_encoders_end_with_2_and_the_names_there_are(
    public: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--model", "mlp:16", "--set", f"joint.public={public}"]
    assert main(["run", "accord", *flags, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"joint.public = '{public}'" in said
    assert words in said
    assert not out.exists()


def test_inputs_an_encoder_cannot_read_are_refused() -> None:
    (error,) = method(joint={"public": "random-conv"}).review(task(VECTOR)).errors
    assert re.search("joint.public = 'random-conv': .* reads images", error)


def test_noise_goes_with_it() -> None:
    clients = [client(SAMPLES, slice(k, None, 3)) for k in range(3)]
    private = method(joint={"public": "pixels"}, privacy={"epsilon": 1.0})
    env = at_sums(private)
    state = with_encoders(private, env, [0, 2])
    sent = private.client_update(state.shared, {}, clients[0], env.at(0)).update.tensors
    trace = float(unpack(sent["stats.gram"]).trace())
    assert trace == pytest.approx(len(clients[0].train))  # every sample was shortened to length 1


@pytest.mark.parametrize(
    ("tiny", "public"), [("vectors", "pixels"), ("images", "random-conv,filters=4")]
)
def test_the_contract_holds_with_a_public_encoder(tiny: str, public: str) -> None:
    accord, _ = registered("accord")
    assert isinstance(accord, Accord)
    seeing = replace(accord, joint=replace(accord.joint, public=public))
    report = check_algorithm(seeing, Expectations(is_random=True), tasks=[tiny], collect=True)
    assert f"0 of {len(CHECKS)} checks failed" in str(report)


def test_two_clients_that_train_badly_are_helped_by_what_everybody_can_see() -> None:
    """Encoders that nobody trained, narrow: the public block is what separates the classes."""
    values = {**VECTOR, "models": ["mlp:1"]}
    test = population(values).test
    accuracy = {}
    for public in ("", "pixels"):
        accord = method(ridge=0.01, joint={"public": public})
        env = at_sums(accord, values)
        pooled = Examples(SAMPLES.inputs, SAMPLES.labels)
        after = solved(accord, with_encoders(accord, env, [0, 1]), [client(pooled)], env)
        scores = accord.predictor(after.model, {}, env).scores(env.task.prepare(test.inputs))
        accuracy[public] = float((scores.argmax(1) == test.labels).double().mean())
    assert accuracy["pixels"] > 0.9 > 0.8 > accuracy[""]
