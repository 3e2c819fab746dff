"""The composed method: one exchange, nothing back, parts that reduce to each other bit for bit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.member import Member, received, upload, upload_spec
from fedcord.algorithms.oneshot.policy import Policy, Sigma
from fedcord.core.contract import ClientResult, Env
from fedcord.core.errors import ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import hash_tensors, select, spec_of
from tests.algorithms.oneshot.small_runs import (
    QUICK,
    method,
    policy,
    preset,
    run,
    same_bits,
    train,
)
from tests.federation import IMAGE, VECTOR, population, task

# --- what is sent ------------------------------------------------------------------------------


def test_upload_and_received_are_inverse() -> None:
    member = Member(
        {"layer.weight": torch.ones(2, 3)},
        torch.randn(3, 2),
        torch.tensor([1.0, 0.0, 4.0]),
        5.0,
        {"factor": torch.eye(2)},
    )
    sent = upload(member)
    assert set(sent) == {"model.layer.weight", "proto.weight", "proto.count", "extra.factor"}
    assert spec_of(sent) == upload_spec(member.model, 3, 2, spec_of(member.extra))
    back = received(sent, 5.0)
    assert hash_tensors(upload(back)) == hash_tensors(sent)
    assert back.size == 5.0


@pytest.mark.parametrize("values", [VECTOR, IMAGE])
def test_head_is_not_sent_and_updates_have_the_agreed_form(values: dict[str, object]) -> None:
    algorithm, here = preset("flare"), task(values)
    env = Env(here, 0, num_rounds=1)
    shared = algorithm.init(env).shared
    assert not [name for name in shared if "head" in name or "linear_layers.1" in name]
    result = algorithm.client_update(shared, {}, population(values).client(0), env.at(0))
    assert spec_of(result.update.tensors) == algorithm.expected_update(shared, env)
    assert result.update.weight == 40
    assert float(result.update.tensors["proto.count"].sum()) == 40


def test_all_clients_start_alike_from_normal_prototypes() -> None:
    shared = preset("fafi").init(Env(task(), 0)).shared
    assert shared["proto.weight"].shape == (3, 16)
    assert 0.7 < float(shared["proto.weight"].std()) < 1.3


# --- prototypes that are sent back -----------------------------------------------------------


def test_fed_back_prototypes_are_the_next_target_and_every_checkpoint_is_an_exchange() -> None:
    twice = {"checkpoints": 2}
    state, records, _ = run(preset("v9b-feedback", twice))
    plain, looks, _ = run(preset("v9b", twice))
    learned = state.result["fused.fused.prototypes"]
    assert torch.equal(state.shared["target"], learned)  # what would be sent next
    assert [record.is_probe for record in records] == [False, False]
    assert [record.is_probe for record in looks] == [True, False]
    assert "target" not in plain.shared
    assert not torch.equal(learned, plain.result["fused.fused.prototypes"])


def test_fed_back_prototypes_go_on_from_where_they_were() -> None:
    """Without steps the server returns what it had: the simplex, so that nothing is fed back."""
    idle = {"kind": "trainable_protos", "training": {"feedback": True, "epochs": 0}}
    still = method(QUICK, PRESETS["v7"].values, {"server": idle}, {"checkpoints": 2})
    state, _, _ = run(still)
    assert torch.equal(state.shared["target"], still.init(Env(task(), 0)).shared["target"])
    unfed = method(QUICK, PRESETS["v7"].values, {"checkpoints": 2})
    assert same_bits(train(still), train(unfed))


# --- one exchange ------------------------------------------------------------------------------


def test_invariant_32_nothing_flows_back() -> None:
    algorithm = preset("flare", {"checkpoints": 4})
    state, records, _ = run(algorithm)
    started = algorithm.init(Env(task(), 0, num_rounds=4))
    assert hash_tensors(state.shared) == hash_tensors(started.shared)
    assert len(records) == 4
    assert algorithm.traits.probes
    assert [record.bytes_down > 0 for record in records] == [False, False, False, True]
    assert [record.bytes_up > 0 for record in records] == [False, False, False, True]


def test_invariant_32_clients_go_on_from_what_they_kept_not_from_what_arrives() -> None:
    algorithm = preset("flare", {"checkpoints": 2})
    env = Env(task(), 0, num_rounds=2)
    shared, data = algorithm.init(env).shared, population().client(0)
    kept = algorithm.client_update(shared, {}, data, env.at(0)).memory
    later = dataclasses.replace(env, round=1, client=0)
    honest = algorithm.client_update(shared, kept, data, later)
    spoiled = {n: t if n == "proto.weight" else torch.zeros_like(t) for n, t in shared.items()}
    assert same_bits(honest, algorithm.client_update(spoiled, kept, data, later))


@pytest.mark.parametrize("name", ["fafi", "flare", "v12", "memory-bank", "plan-c", "two-stage"])
@pytest.mark.parametrize("chunks", [2, 4])
def test_invariant_33_checkpoints_change_no_bit(name: str, chunks: int) -> None:
    once, often = preset(name), preset(name, {"checkpoints": chunks})
    assert often.traits.rounds == chunks
    assert same_bits(train(once), train(often))


def test_invariant_33_needs_the_optimiser_and_a_global_schedule() -> None:
    once = train(preset("flare"))
    forgets = preset("flare", {"checkpoints": 2, "local": {"reset_optimizer_each_chunk": True}})
    assert not same_bits(once, train(forgets))
    local = preset("flare", {"checkpoints": 2, "policy": {"progress": "chunk"}})
    assert not same_bits(once, train(local))


@pytest.mark.parametrize("forgets", [True, False])
def test_an_optimiser_made_anew_forgets_the_momentum_of_weights_and_of_sigma(forgets: bool) -> None:
    choice = {"checkpoints": 2, "local": {"reset_optimizer_each_chunk": forgets}}
    algorithm, env = preset("flare", choice), Env(task(), 0, num_rounds=2)
    data = population().client(0)
    kept = algorithm.client_update(algorithm.init(env).shared, {}, data, env.at(0)).memory
    assert bool(select(kept, "momentum")) is not forgets
    sigma = Sigma.of(kept["sigma"])
    assert sigma.log_local != 0
    assert (sigma.velocity_local == sigma.velocity_align == 0) is forgets


def test_a_falling_rate_runs_over_all_of_training_however_it_is_cut() -> None:
    falling = {"local": {"schedule": "cosine"}}
    once = train(preset("flare", falling))
    assert not same_bits(once, train(preset("flare")))
    assert same_bits(once, train(preset("flare", falling, {"checkpoints": 4})))


def test_a_falling_rate_is_half_of_it_in_the_middle() -> None:
    def after(epochs: int, schedule: str) -> dict[str, torch.Tensor]:
        local = {"epochs": epochs, "batch_size": 1000, "momentum": 0.0, "schedule": schedule}
        return dict(train(preset("fafi", {"local": local})).update.tensors)

    first, falling, constant = after(1, "cosine"), after(2, "cosine"), after(2, "constant")
    for name in ("proto.weight", "model.linear_layers.0.weight"):
        whole = constant[name] - first[name]
        assert whole.abs().max() > 1e-3
        torch.testing.assert_close(falling[name] - first[name], whole / 2, atol=1e-6, rtol=1e-4)


def test_checkpoints_are_at_most_one_per_epoch() -> None:
    assert preset("fafi", {"checkpoints": 100}).traits.rounds == 4


def test_a_client_keeps_nothing_after_the_exchange() -> None:
    assert train(preset("flare", {"checkpoints": 2})).memory == {}


def test_predict_needs_a_fused_model() -> None:
    algorithm = preset("fafi")
    env = Env(task(), 0)
    with pytest.raises(ProtocolError, match="no fused model yet"):
        algorithm.predictor(algorithm.init(env).shared, {}, env).scores(torch.zeros(2, 8))


# --- parts that reduce to others ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (policy("fixed", weight=0.0), {}),
        (policy("anneal", weight=0.0), {}),
        (policy("none"), {}),
        (policy("anneal", weight=3.0, schedule="constant"), policy("fixed", weight=3.0)),
        (policy("entropy", entropy_min=5.0, entropy_max=5.0), policy("anneal", weight=5.0)),
        (policy("uw_meta_data", schedule="constant"), policy("uw")),
        (policy("uw_meta_log", schedule="constant"), policy("uw")),
        (policy("uw_ext", schedule="constant"), policy("uw")),
    ],
    ids=str,
)
def test_invariant_22_limits_bit_for_bit(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert same_bits(train(method(QUICK, left)), train(method(QUICK, right)))


def test_invariant_22_away_from_the_limits_something_changes() -> None:
    plain = train(method(QUICK))
    for kind in ("fixed", "anneal", "entropy", "uw", "uw_meta_log", "kendall_coupled"):
        assert not same_bits(train(method(QUICK, policy(kind))), plain)
    assert not same_bits(train(preset("v6")), train(preset("v7")))
    assert not same_bits(train(preset("v7")), train(preset("v8")))


def test_invariant_19_v14_is_v12_below_the_threshold_bit_for_bit() -> None:
    valve = {"policy": {"lambda_max": 50.0}}
    without, with_valve = train(preset("v12")), train(preset("v12", valve))
    assert with_valve.update.metrics["lambda_raw"] < 50
    assert same_bits(without, with_valve)
    low = train(preset("v12", {"policy": {"lambda_max": 2.0, "hinge_weight": 0.25}}))
    assert not same_bits(without, low)


def one_step(*parts: Mapping[str, Any]) -> ClientResult:
    step = {"local": {"epochs": 1, "batch_size": 64, "clip": 1e9}}
    return train(method(QUICK, step, *parts))


def test_invariant_8_alignment_never_reaches_the_encoder() -> None:
    plain, pulled = one_step(), one_step(policy("fixed", weight=100.0))
    a, b = plain.update.tensors, pulled.update.tensors
    for name in select(a, "model"):
        assert torch.equal(a[f"model.{name}"], b[f"model.{name}"])
    assert not torch.equal(a["proto.weight"], b["proto.weight"])


def test_alignment_of_features_does_reach_the_encoder() -> None:
    plain = one_step()
    pulled = one_step(policy("fixed", weight=100.0), {"alignment": {"on": "feature"}})
    name = "model.linear_layers.0.weight"
    assert not torch.equal(plain.update.tensors[name], pulled.update.tensors[name])
    own, other = plain.update.tensors["proto.weight"], pulled.update.tensors["proto.weight"]
    assert torch.equal(own, other)


def test_invariant_16_sigma_and_weights_do_not_touch_unless_clipped_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = method(QUICK, {"local": {"epochs": 1, "batch_size": 64}}, policy("uw"))
    joint = method(
        QUICK, {"local": {"epochs": 1, "batch_size": 64, "joint_clip": True}}, policy("uw")
    )
    before = train(apart), train(joint)
    original = Policy.gradient

    def tenfold(self: Policy, *values: Any) -> tuple[float, float]:
        local, towards = original(self, *values)
        return 10 * local, 10 * towards

    monkeypatch.setattr(Policy, "gradient", tenfold)
    after = train(apart), train(joint)
    assert same_bits(before[0], after[0])
    assert not same_bits(before[1], after[1])


def test_invariant_23_projection_changes_prototypes_only() -> None:
    strong = policy("fixed", weight=3.0)
    plain, freed = one_step(strong), one_step(strong, {"conflict": {"kind": "pcgrad_local"}})
    name = "model.linear_layers.0.weight"
    assert torch.equal(plain.update.tensors[name], freed.update.tensors[name])


def test_invariant_30_before_any_step_clients_agree() -> None:
    here = task()
    algorithm = preset("flare")
    env = Env(here, 0)
    state = algorithm.init(env)
    empty = Examples(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64))
    untrained = algorithm.client_update(
        state.shared, {}, ClientData(empty, empty, empty), env.at(0)
    )
    assert untrained.update.weight == 0
    update = dataclasses.replace(untrained.update, weight=1.0)
    after = algorithm.aggregate(state, iter([(0, update), (1, update)]), env)
    found = {name: float(value) for name, value in select(after.private, "metric").items()}
    assert found["inter_client_proto_std"] == 0
    assert found["model_std_mean"] == 0
    expected = float(state.shared["proto.weight"].double().std())
    assert found["g_protos_std"] == pytest.approx(expected, rel=1e-5)


# --- training ----------------------------------------------------------------------------------


def test_one_step_agrees_with_a_hand_written_one() -> None:
    algorithm = one_step_method = method(
        {"local": {"epochs": 1, "batch_size": 64, "lr": 0.1, "clip": 0.5}, "checkpoints": 1},
        policy("fixed", weight=2.0),
    )
    env = Env(task(), 0)
    shared, data = algorithm.init(env).shared, population().client(0)
    found = one_step_method.client_update(shared, {}, data, env.at(0)).update.tensors
    w, b = (
        shared[f"model.linear_layers.0.{n}"].clone().requires_grad_() for n in ("weight", "bias")
    )
    p = shared["proto.weight"].clone().requires_grad_()
    raw = torch.relu(data.train.inputs @ w.T + b)
    z = raw / raw.norm(dim=1, keepdim=True).clamp(min=1e-12)
    points = algorithm.anchors.points(shared["proto.weight"], env)
    assert points is not None
    loss = algorithm.objective.loss(z, p, data.train.labels) + 2.0 * ((p - points) ** 2).mean()
    gradients = torch.autograd.grad(loss, [w, b, p])
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
    assert norm > 0.5
    for name, value, gradient in zip(
        ("model.linear_layers.0.weight", "model.linear_layers.0.bias", "proto.weight"),
        (w, b, p),
        gradients,
        strict=True,
    ):
        torch.testing.assert_close(found[name], (value - 0.1 * 0.5 / norm * gradient).detach())


def test_traces_tell_what_the_policy_did() -> None:
    metrics = train(preset("flare")).update.metrics
    assert set(metrics) == {
        "train_loss",
        "loss_base",
        "loss_align",
        "lambda_raw",
        "lambda_effective",
        "schedule",
        "sigma_sq_local",
        "sigma_sq_align",
        "skipped_steps",
    }
    ratio = metrics["sigma_sq_local"] / metrics["sigma_sq_align"]
    assert metrics["lambda_raw"] == pytest.approx(ratio)
    assert metrics["schedule"] == 0.25  # the fourth of four epochs
    assert metrics["skipped_steps"] == 0
    annealed = train(preset("v7")).update.metrics
    assert annealed["lambda_raw"] == pytest.approx(5)
    assert annealed["lambda_effective"] == pytest.approx(1.25)
    assert "lambda_raw" not in train(preset("fafi")).update.metrics


def test_losses_fall_and_the_model_learns() -> None:
    longer = {"local": {"epochs": 12}, "checkpoints": 3}
    _, records, _ = run(preset("flare", longer))
    losses = [record.train_loss for record in records]
    assert losses[0] is not None
    assert losses[-1] is not None
    assert losses[-1] < losses[0]
    last = records[-1].evaluation
    assert last is not None
    assert last.accuracy > 0.9


def test_batches_cover_an_epoch_and_drop_only_what_is_asked() -> None:
    def sizes(drop: bool, count: int) -> list[int]:
        local = LocalTraining(batch_size=4, drop_last=drop)
        return [len(b) for b in local.batches(count, torch.Generator().manual_seed(0))]

    assert sizes(False, 10) == [4, 4, 2]
    assert sizes(True, 10) == [4, 4]
    assert sizes(True, 8) == [4, 4]
    assert sizes(True, 3) == [3]  # the only batch is kept
    assert sizes(False, 0) == []
    order = torch.cat(list(LocalTraining(batch_size=4).batches(10, torch.Generator())))
    assert sorted(order.tolist()) == list(range(10))
