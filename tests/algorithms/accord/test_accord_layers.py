"""Heads that see pooled maps, against loops, scikit-learn and solving from scratch; widths."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.analytic.membership import forget, join
from fedcord.algorithms.kit.seen_layers import SeenLayers
from fedcord.cli.main import main
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.params import plain
from fedcord.core.tensors import select
from fedcord.experiment.invariance import check_invariance
from fedcord.ops.symmetric import unpack
from tests.algorithms.accord.encoders import (
    at_round,
    at_sums,
    client,
    drawn_encoder,
    gap,
    method,
    pooled_features,
    run,
    solved,
    sums_of,
    with_encoders,
)
from tests.federation import IMAGE, VECTOR, examples, task

DEEP: dict[str, object] = {
    **IMAGE,
    "input_shape": [1, 12, 10],
    "models": ["cnn:3-4,fc=6", "mlp:12-8", "resnet10,width=4,norm=group,groups=2"],
}
"""Maps of 6×5 and 3×2 places, hidden layers of 12 and 8 units, five maps down to 2×2."""
SAMPLES = examples(60, seed=3, values=DEEP)
CHOSEN = [0, 1, 2]
SCALINGS = ["unit", "piecewise", "none"]


def deep(scaling: str = "unit", maps: str = "all", **values: Any) -> Accord:
    joint = {"layers": {"maps": maps, **values.pop("layers", {})}, "scaling": scaling}
    return method(ridge=0.5, joint={**joint, **values.pop("joint", {})}, **values)


def by_loops(map_: np.ndarray[Any, Any], pooling: str, grid: int) -> np.ndarray[Any, Any]:
    """[B, C, H, W] to [B, C·g·g]; cell i of g covers places ⌊iH/g⌋ to ⌈(i+1)H/g⌉."""
    count, channels, height, width = map_.shape
    rows, columns = min(grid, height), min(grid, width)
    out = np.zeros((count, channels, rows, columns))
    for sample in range(count):
        for channel in range(channels):
            for i in range(rows):
                for j in range(columns):
                    top, bottom = i * height // rows, -(-(i + 1) * height // rows)
                    left, right = j * width // columns, -(-(j + 1) * width // columns)
                    cell = map_[sample, channel, top:bottom, left:right]
                    out[sample, channel, i, j] = cell.mean() if pooling == "mean" else cell.max()
    return out.reshape(count, -1)


def network(env: Env, k: int) -> Any:
    found = env.task.initial_network(torch.Generator(), k)
    found.load_state_dict({**found.state_dict(), **drawn_encoder(env.task, 5 + k, k)})
    return found.eval()


@torch.no_grad()
def shown(env: Env, k: int, inputs: Tensor) -> tuple[Any, list[Any]]:
    """Features and maps of a client's drawn encoder, from its weights."""
    here = network(env, k)
    x = torch.cat([inputs, inputs.new_zeros(64 - len(inputs), *inputs.shape[1:])])
    maps: list[Tensor] = []
    if k == 0:
        for layer in here.convolutions:
            x = torch.max_pool2d(layer(x).clamp(min=0), 2)
            maps.append(x)
        features = here.hidden(x.flatten(1)).clamp(min=0)
    elif k == 1:
        first, second, _ = here.linear_layers
        maps.append(first(x.flatten(1)).clamp(min=0))
        features = second(maps[0]).clamp(min=0)
    else:
        maps = [stage.clamp(min=0) for stage in here.stages(x)]
        features = maps[-1].mean((2, 3))
    count = len(inputs)
    return features[:count].double().numpy(), [map_[:count].double().numpy() for map_ in maps]


def unit(rows: Any) -> Any:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def by_hand(env: Env, inputs: Tensor, accord: Accord) -> Any:
    """Joint features of the drawn encoders, from the definition."""
    layers, blocks = accord.joint.layers, []
    for k in CHOSEN:
        features, maps = shown(env, k, inputs)
        pieces = [features]
        for map_ in maps if layers.maps == "all" else maps[-1:]:
            if map_.ndim == 2 or max(map_.shape[2:]) <= layers.grid:
                pieces.append(map_.reshape(len(map_), -1))
                continue
            kinds = ("mean", "max") if layers.pooling == "both" else (layers.pooling,)
            pieces += [by_loops(map_, kind, layers.grid) for kind in kinds]
        if accord.joint.scaling == "piecewise":
            pieces = [unit(piece) / math.sqrt(len(pieces)) for piece in pieces]
        block = np.concatenate(pieces, axis=1)
        blocks.append(block if accord.joint.scaling == "none" else unit(block))
    root = 1 if accord.joint.scaling == "none" else math.sqrt(len(CHOSEN))
    return np.concatenate([*(b / root for b in blocks), np.ones((len(inputs), 1))], axis=1)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    ("maps", "layers"),
    [
        ("all", {}),
        ("all", {"pooling": "both", "grid": 3}),
        ("last", {"pooling": "max", "grid": 1}),
        ("last", {"grid": 50}),
    ],
)
def test_joint_features_are_features_and_maps_pooled_by_loops(
    scaling: str, maps: str, layers: Any
) -> None:
    accord = deep(scaling, maps, layers=layers)
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    inputs = env.task.prepare(SAMPLES.inputs)
    found = accord.joint.mapping(state.shared, env)(inputs)
    wanted = by_hand(env, inputs, accord)
    assert found.shape == wanted.shape
    assert found.shape[1] == accord.joint.num_features(CHOSEN, env.task)
    assert gap(found, torch.from_numpy(wanted)) <= 1e-5  # a network's float32
    if scaling != "none":
        assert torch.allclose(found.norm(dim=1), torch.full((60,), math.sqrt(2)).double())


def test_pieces_are_named_by_stage_and_pooling_and_counted() -> None:
    pieces = SeenLayers(maps="all", pooling="both", grid=2).pieces
    assert pieces(task(DEEP), 0) == {
        "features": 6, "map1.mean": 12, "map1.max": 12, "map2.mean": 16, "map2.max": 16,
    }  # fmt: skip
    assert pieces(task(DEEP), 1) == {"features": 8, "hidden1": 12}
    last = SeenLayers(maps="last", pooling="both").pieces(task(DEEP), 2)
    assert last == {"features": 32, "stage4": 128}  # 2×2 places: nothing to pool
    assert SeenLayers().pieces(task(DEEP), 0) == {"features": 6}
    usual = task(
        {
            **IMAGE,
            "input_shape": [3, 32, 32],
            "mean": [0.5] * 3,
            "std": [0.5] * 3,
            "models": ["cnn"],
        }
    )
    tries = [("last", "mean", 1), ("last", "mean", 2), ("all", "mean", 2), ("last", "both", 2)]
    widths = [sum(SeenLayers(*chosen).pieces(usual, 0).values()) for chosen in tries]
    assert widths == [192, 384, 512, 640]  # as the page's table has them
    columns = JointFeatures(layers=SeenLayers(maps="all")).block_columns
    assert columns([0, 1, 3], task(DEEP), 1) == slice(34, 54)
    assert columns([0, 1, 3], task(DEEP), 3) == slice(54, 88)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("more", [{}, {"projection": 20}, {"expansion": "relu", "width": 30}])
def test_head_is_the_ridge_regression_of_pooled_samples_for_any_partition(
    scaling: str, more: Any
) -> None:
    accord = deep(scaling, joint=more)
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    features, targets = pooled_features(accord, state, SAMPLES, env)
    assert features.shape[1] == 1 + more.get("projection", more.get("width", 34 + 20 + 288))
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(features, targets)
    wanted = torch.from_numpy(oracle.coef_.T)
    for parts in ([slice(0, 60)], [slice(0, 13), slice(13, 60)]):
        after = solved(accord, state, [client(SAMPLES, rows) for rows in parts], env)
        assert gap(after.result["head.weight"], wanted) <= 1e-8


def test_certificate_given_the_encoders_no_dealing_moves_the_deep_head() -> None:
    values = {**VECTOR, "models": ["mlp:8-6"]}
    samples = examples(40, 3)
    clients = [client(samples, slice(k, None, 4)) for k in range(4)]
    found = check_invariance(deep(), clients, Env(task(values), 0))
    assert found.difference <= 1e-8


@pytest.mark.parametrize("scaling", SCALINGS)
def test_joining_leaving_and_dropping_an_encoder_are_solving_from_scratch(scaling: str) -> None:
    accord = deep(scaling, personal=True)
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    clients = [client(SAMPLES, slice(k, None, 3)) for k in range(3)]
    full = solved(accord, state, clients, env)
    updates = dict(sums_of(accord, state, clients, env))
    early = accord.aggregate(state, iter([(0, updates[0]), (1, updates[1])]), env)
    joined = join(accord, early, [(2, updates[2])], env)
    assert gap(joined.result["head.weight"], full.result["head.weight"]) <= 1e-8
    left = forget(accord, full, 2, updates[2], env)
    assert gap(left.result["head.weight"], early.result["head.weight"]) <= 1e-8
    for gone in CHOSEN:
        found = accord.drop_encoder(full, gone, env)
        fresh = with_encoders(accord, env, [k for k in CHOSEN if k != gone])
        wanted = solved(accord, fresh, clients, env)
        for name in ("head.weight", "head.gram"):
            assert gap(found.result[name], wanted.result[name]) <= 1e-8
        assert accord.stats_of(found.private).tag == accord.agreed_tag(fresh.shared, env)


def test_deep_features_at_the_bytes_of_flat_ones_can_be_joined_and_left_but_not_dropped() -> None:
    narrow = deep(joint={"projection": 46})  # the features alone have 6 + 8 + 32 columns
    env = at_sums(narrow, DEEP)
    state = with_encoders(narrow, env, CHOSEN)
    clients = [client(SAMPLES, slice(k, None, 3)) for k in range(3)]
    updates = dict(sums_of(narrow, state, clients, env))
    flat = sums_of(deep(maps="none"), state, clients, env)[0][1]
    assert {n: t.shape for n, t in updates[0].tensors.items()} == {
        n: t.shape for n, t in flat.tensors.items()
    }
    full = solved(narrow, state, clients, env)
    early = narrow.aggregate(state, iter([(0, updates[0]), (1, updates[1])]), env)
    joined = join(narrow, early, [(2, updates[2])], env)
    assert gap(joined.result["head.weight"], full.result["head.weight"]) <= 1e-8
    left = forget(narrow, full, 2, updates[2], env)
    assert gap(left.result["head.weight"], early.result["head.weight"]) <= 1e-8
    with pytest.raises(ConfigError, match="only be dropped where it has columns of its own"):
        narrow.drop_encoder(full, 1, env)


def test_conjugate_gradients_find_the_deep_head_too() -> None:
    values = {**VECTOR, "models": ["mlp:8-6"]}
    gradients = deep(solve={"by": "gradients", "residual": 1e-10, "exchanges": 20})
    heads = [
        run(accord, values, (20, 12, 16))[0][-1].result["head.weight"]
        for accord in (deep(), gradients)
    ]
    assert heads[0].shape == (3 * 14 + 1, 3)
    assert gap(heads[1], heads[0]) <= 1e-7


@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_mean_of_deep_blocks_is_their_mean(scaling: str) -> None:
    values = {**DEEP, "models": ["cnn:3-4,fc=6"]}
    accord = deep(scaling, joint={"combine": "mean"})
    env = at_sums(accord, values)
    state = with_encoders(accord, env, [0, 1, 2])
    inputs = env.task.prepare(SAMPLES.inputs)
    found = accord.joint.mapping(state.shared, env)(inputs)[:, :-1]
    blocks = deep(scaling).joint.blocks(state.shared, env)(inputs)
    root = 1 if scaling == "none" else math.sqrt(3)
    assert gap(found, root * torch.stack(blocks).mean(0)) <= 1e-12
    (error,) = deep(joint={"combine": "mean"}).review(task(DEEP)).errors
    assert "but the networks have 20, 34, 288" in error


@pytest.mark.parametrize("scaling", SCALINGS)
def test_refinement_moves_the_whole_block_against_the_head(scaling: str) -> None:
    def refined(**values: Any) -> tuple[float, float, float, set[str]]:
        """Reported loss, the head's own loss on the client before and after, what moved."""
        accord = deep(scaling, refinements=1, refine=values)
        env = Env(task(DEEP), 0, 2, accord.traits.rounds or 0)
        clients = [client(SAMPLES, slice(k, None, 3)) for k in range(3)]
        state = solved(accord, with_encoders(accord, env, CHOSEN), clients, env)
        env, data = at_round(env, 3), clients[0].train
        result = accord.client_update(state.shared, {}, clients[0], env.at(0)).update
        after = accord.aggregate(state, iter([(0, result)]), env)
        losses = []
        for shared in (state.shared, after.shared):
            features = accord.joint.mapping(shared, env)(env.task.prepare(data.inputs))
            rest = F.one_hot(data.labels, 3).double() - features @ state.result["head.weight"]
            losses.append(float(rest.square().sum(1).mean()))
        moved = {n for n, t in after.shared.items() if not torch.equal(t, state.shared[n])}
        assert moved <= {f"encoder.0.{name}" for name in select(result.tensors, "model")}
        return result.metrics["train_loss"], losses[0], losses[1], moved

    reported, before, _, _ = refined(epochs=1, lr=1e-30, batch_size=1000)
    assert reported == pytest.approx(before, rel=1e-4)
    _, before, after, moved = refined(epochs=5, lr=0.02)
    assert after < before
    assert "encoder.0.convolutions.0.weight" in moved


def test_masked_sums_give_the_same_deep_head_in_every_bit() -> None:
    values = {**VECTOR, "models": ["mlp:6-5", "mlp:4"]}
    accord = deep(wire="fixed64", personal=True)
    open_, masked = (run(accord, values, (20, 12, 16), secure)[0][-1] for secure in (None, 0.6))
    assert open_.result["head.weight"].shape == (2 * 11 + 4 + 1, 3)
    for name, tensor in open_.model.items():
        assert torch.equal(masked.model[name], tensor)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_noise_covers_deep_features_shortened_to_the_clip(scaling: str) -> None:
    accord = deep(scaling, privacy={"epsilon": 1.0, "clip": 0.7})
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    for rows, _ in accord._head.batches(SAMPLES, state.shared, env):
        assert float(rows.norm(dim=1).max()) <= 0.7 + 1e-12
    sent = accord.client_update(state.shared, {}, client(SAMPLES), env.at(0)).update.tensors
    assert float(unpack(sent["stats.gram"]).trace()) <= 60 * 0.7**2 + 1e-9


def test_sums_of_other_layers_or_scaling_are_refused() -> None:
    accord = deep()
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    clients = [client(SAMPLES, slice(k, None, 2)) for k in range(2)]
    mine = sums_of(accord, state, clients, env)[0]
    for other in (deep("none"), deep("piecewise"), deep(layers={"pooling": "max"})):
        theirs = sums_of(other, state, clients, env)[1]
        with pytest.raises(ProtocolError, match="client 1 used other features than agreed"):
            accord.aggregate(state, iter([mine, theirs]), env)
    same = method(joint={"layers": {"pooling": "max", "grid": 5}})  # without maps: not used
    assert same.agreed_tag(state.shared, env) == method().agreed_tag(state.shared, env)


def test_defaults_are_not_written_so_that_runs_from_before_keep_their_identity() -> None:
    assert not {"layers", "scaling"} & set(plain(method())["joint"])
    assert plain(deep("none"))["joint"]["scaling"] == "none"


def test_encoders_with_maps_take_more_of_the_width_and_the_message_names_the_pieces() -> None:
    values = {**DEEP, "models": ["cnn:3-4,fc=6"]}
    limited = deep(joint={"width_limit": 70}, selection={"rule": "all"})
    states, _ = run(limited, values, (12, 8, 9))
    assert len(states[-1].shared["chosen"]) == 2  # 34 columns each
    assert states[-1].result["head.weight"].shape == (69, 3)
    (error,) = deep(joint={"width_limit": 33}).review(task(values)).errors
    assert "1 encoder(s) of width 34 (features 6, map1.mean 12, map2.mean 16) make" in error
    assert "joint.layers.maps=last, a smaller joint.layers.grid" in error
    many = deep(joint={"width_limit": 70}, selection={"max_encoders": 3})
    assert not many.review(task(values)).errors  # at most three, of clients who may be fewer
    (note,) = (note for note in many.review(task(values)).notes if "max_encoders" in note)
    assert "3 encoder(s) of width 34" in note


def test_networks_without_stages_are_named() -> None:
    (note,) = deep().review(task({**VECTOR, "models": ["mlp:6-5", "mlp:4"]})).notes
    assert "joint.layers.maps = 'all': MLP has no stages under its features" in note
    assert deep().review(task(DEEP)).notes == method().review(task(DEEP)).notes


def test_a_public_encoder_shows_its_features_only() -> None:
    accord = deep("piecewise", joint={"public": "random-conv,filters=6"})
    env = at_sums(accord, DEEP)
    state = with_encoders(accord, env, CHOSEN)
    *blocks, public = accord.joint.blocks(state.shared, env)(env.task.prepare(SAMPLES.inputs))
    assert public.shape == (60, 24)
    for block in (*blocks, public):
        assert torch.allclose(block.norm(dim=1), torch.full((60,), 0.5).double())


def test_texts_are_seen_by_their_mean_embedding_too() -> None:
    values: dict[str, object] = {
        "kind": "text", "input_shape": [6], "num_classes": 3, "mean": [], "std": [],
        "vocabulary": 20, "data_dirs": [], "models": ["text,width=5"],
    }  # fmt: skip
    accord = deep("none")
    env = at_sums(accord, values)
    state = with_encoders(accord, env, [0])
    tokens = torch.randint(20, (9, 6), generator=torch.Generator().manual_seed(0))
    found = accord.joint.mapping(state.shared, env)(env.task.prepare(tokens))
    table = drawn_encoder(env.task, 5, 0)
    means = [table["embedding.weight"][row[row > 0]].mean(0) for row in tokens]
    wanted = torch.stack(means)
    hidden = wanted @ table["hidden.weight"].T + table["hidden.bias"]
    assert gap(found, torch.cat([hidden, wanted, torch.ones(9, 1)], 1).double()) <= 1e-5


def test_from_the_command_line_to_a_forgotten_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--clients", "3", "--model", "cnn:2-3,fc=4", "--model", "mlp:8-6"]
    flags += ["--set", "local.epochs=1", "--set", "joint.layers.maps=all"]
    assert main(["run", "accord", *flags, "--out", str(out)]) == 0
    assert json.loads((out / "result.json").read_text())["accuracy"] > 0.5
    told = ["forget", str(out), "--in-place", "--client", "1", "--drop-encoder", "--json"]
    capsys.readouterr()
    assert main(told) == 0
    assert json.loads(capsys.readouterr().out)["difference"] <= 1e-8
    assert main(["run", "accord", "--set", "joint.layers.maps=some", "--out", str(out)]) == 2
    assert "one of none, last, all" in capsys.readouterr().err
