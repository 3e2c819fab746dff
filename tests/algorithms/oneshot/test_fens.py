"""FENS against written-out sums: scores of rounded models, aggregators, both servers, bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.ensemble import Ensemble
from fedcord.algorithms.oneshot.baselines.fens import FENS
from fedcord.algorithms.oneshot.baselines.score_aggregator import ScoreAggregator
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.rng import torch_generator
from fedcord.core.tensors import num_bytes, select, spec_of
from fedcord.engine.rounds import Schedule, run_rounds
from tests import federation
from tests.federation import IMAGE, VECTOR, population, task

SHORT = LocalSGD(epochs=2, batch_size=16, lr=0.1)
SIZES = (40, 25, 12, 60)
K, C = len(SIZES), 3


def run(fens: Any, values: Any = VECTOR, visited: Any = lambda round_: range(K)) -> Any:
    here = task(values)
    env = Env(here, 0, num_rounds=fens.traits.rounds)
    states, records = [fens.init(env)], []
    reached = federation.sequential(fens, here, population(values, SIZES))

    def note(state: Any, record: Any) -> None:
        states.append(state)
        records.append(record)

    run_rounds(fens, reached, env, states[0], Schedule(fens.traits.rounds, visited), note)
    return states, records, reached, env


def by_hand(state: Any, inputs: Any, values: Any = VECTOR) -> Any:
    """Every model's scores [B, K, C], each network built and loaded for itself."""
    here, outputs = task(values), []
    stacked = select(state.model, "ensemble.0.model")
    for member in range(K):
        network = here.networks[0](None)
        tensors = {}
        for name in network.state_dict():
            tensors[name] = stacked[name][member]
            if tensors[name].dtype == torch.int8:
                scale = stacked[f"{name}.row_scale"][member]
                rows = zip(tensors[name], scale.tolist(), strict=True)
                tensors[name] = torch.stack([step * row.float() for row, step in rows])
        network.load_state_dict(tensors)
        with torch.no_grad():
            outputs.append(network.eval()(inputs))
    return torch.stack(outputs, dim=1)


def joined_by_hand(kind: Any, weights: Any, scores: Any) -> Any:
    """The aggregator's sums written out."""
    if kind == "weights":
        return sum(weights["weight"][m] * scores[:, m] for m in range(K))
    flat = torch.cat([scores[:, m] for m in range(K)], dim=1)
    if kind == "mlp":
        flat = (flat @ weights["hidden.weight"].T + weights["hidden.bias"]).clamp(min=0)
    return flat @ weights["out.weight"].T + weights["out.bias"]


@pytest.mark.parametrize(
    ("kind", "values"), [("weights", VECTOR), ("linear", VECTOR), ("mlp", VECTOR), ("mlp", IMAGE)]
)
def test_predictions_are_the_aggregator_on_all_models_scores(kind: Any, values: Any) -> None:
    fens = FENS(aggregator=kind, aggregator_rounds=2, local=SHORT, training=SHORT)
    states, _, _, env = run(fens, values)
    inputs = env.task.prepare(population(values).test.inputs[:20])
    weights = select(states[-1].shared, "agg")
    wanted = joined_by_hand(kind, weights, by_hand(states[-1], inputs, values))
    found = fens.predictor(states[-1].model, {}, env).scores(inputs)
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["weights", "linear"])
def test_without_aggregator_rounds_it_is_the_uniform_ensemble(kind: Any) -> None:
    fens = FENS(
        aggregator=kind, aggregator_rounds=0, holdout=0.0, model_format="float32", local=SHORT
    )
    states, _, _, env = run(fens)
    ensemble = Ensemble(weighting="uniform", local=SHORT)
    start = ensemble.init(env)
    people = population(sizes=SIZES)
    updates = [
        (k, ensemble.client_update(start.shared, {}, people.client(k), env.at(k)).update)
        for k in range(K)
    ]
    wanted = ensemble.aggregate(start, iter(updates), env)
    inputs = env.task.prepare(people.test.inputs[:20])
    scores = [
        method.predictor(end.model, {}, env).scores(inputs)
        for method, end in ((fens, states[-1]), (ensemble, wanted))
    ]
    assert torch.allclose(scores[0], scores[1], atol=1e-5)


def mean_of_steps_by_hand(before: Any, kept: Any, labels: Any) -> Any:
    """Σ n_k (λ − 0.1 ∇_k) / Σ n_k with one full-batch step per client, by autograd."""
    total, size = {n: torch.zeros_like(t) for n, t in before.items()}, 0
    for scores, own in zip(kept, labels, strict=True):
        weights = {n: t.clone().requires_grad_() for n, t in before.items()}
        F.cross_entropy(joined_by_hand("linear", weights, scores), own).backward()
        for name, tensor in weights.items():
            assert tensor.grad is not None
            total[name] += len(own) * (before[name] - 0.1 * tensor.grad)
        size += len(own)
    return {n: t / size for n, t in total.items()}


@pytest.mark.parametrize("server", ["fedavg", "fedadam"])
@pytest.mark.parametrize("form", ["int8", "float32"])
def test_rounds_of_the_aggregator_against_steps_on_held_out_scores(form: str, server: str) -> None:
    """FedAvg takes the weighted mean; FedAdam moves by m / (√v + τ) of the way to it."""
    one_step = LocalSGD(steps=1, batch_size=1000, lr=0.1)
    fens = FENS(
        aggregator="linear",
        aggregator_rounds=3,
        server_optimizer=server,
        server_lr=0.05,
        model_format=form,
        holdout=0.3,
        local=SHORT,
        training=one_step,
    )
    states, _, reached, env = run(fens)
    kept, labels = [], []
    for k in range(K):
        train = population(sizes=SIZES).client(k).train
        held = int(0.3 * SIZES[k] + 0.5)
        order = torch.randperm(SIZES[k], generator=torch_generator(0, "holdout", 0, k))
        kept.append(by_hand(states[1], env.task.prepare(train.inputs[order[:held]])))
        labels.append(train.labels[order[:held]])
        assert torch.allclose(reached.gather_memory()[k]["scores"], kept[k].flatten(1), atol=1e-5)
    now = {n: t.clone() for n, t in select(states[1].shared, "agg").items()}
    first, second = ({n: torch.zeros_like(t) for n, t in now.items()} for _ in range(2))
    for state in states[2:]:
        mean = mean_of_steps_by_hand(now, kept, labels)
        for name, tensor in now.items():
            change = mean[name] - tensor
            first[name] = 0.9 * first[name] + 0.1 * change
            second[name] = 0.99 * second[name] + 0.01 * change * change
            adam = tensor + 0.05 * first[name] / (second[name] ** 0.5 + 1e-3)
            now[name] = adam if server == "fedadam" else mean[name]
        after = select(state.shared, "agg")
        for name, tensor in after.items():
            assert torch.allclose(tensor, now[name], atol=1e-4)
    assert not torch.allclose(now["out.weight"], select(states[1].shared, "agg")["out.weight"])


def test_the_authors_settings_are_the_defaults() -> None:
    fens = FENS()
    assert (fens.server_optimizer, fens.server_lr, fens.traits.rounds) == ("fedadam", 1e-3, 501)
    assert (fens.training.steps, fens.training.lr, fens.training.batch_size) == (1, 1.0, 128)
    assert (fens.model_format, fens.holdout) == ("int8", 0.1)


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
def test_a_model_travels_as_rows_of_whole_numbers(values: Any) -> None:
    """Each row is within half a step of what was trained; vectors and counters are as they were."""
    env = Env(task(values), 0).at(3)
    data = population(values, SIZES).client(3)
    models = []
    for form in ("float32", "int8"):
        fens = FENS(holdout=0.0, model_format=form, local=SHORT)
        update = fens.client_update(fens.init(env).shared, {}, data, env).update
        assert spec_of(update.tensors) == fens.expected_update(fens.init(env).shared, env)
        models.append(select(update.tensors, "model"))
    trained, sent = models
    for name, tensor in trained.items():
        if tensor.dtype != torch.float32 or tensor.ndim < 2:
            assert torch.equal(sent[name], tensor)
            continue
        assert sent[name].dtype == torch.int8
        for row, whole, step in zip(tensor, sent[name], sent[f"{name}.row_scale"], strict=True):
            assert float(step) == pytest.approx(float(row.abs().max()) / 127, rel=1e-5)
            assert float((row - step * whole.float()).abs().max()) <= 0.5001 * float(step)


def test_models_are_trained_on_all_but_the_holdout_which_is_the_same_in_every_round() -> None:
    fens = FENS(holdout=0.25)
    data = population(sizes=SIZES).client(0)
    env = Env(task(), 0, num_rounds=3, client=0)
    kept, held = fens._part(data, env)
    again = fens._part(data, replace(env, round=2))[1]
    assert (len(kept.train), len(held)) == (30, 10)
    assert torch.equal(held.inputs, again.inputs)
    both = torch.cat([kept.train.inputs, held.inputs])
    assert torch.equal(both.sort(dim=0).values, data.train.inputs.sort(dim=0).values)
    whole = FENS(holdout=0.0)._part(data, env)
    assert whole[0] is data
    assert whole[1] is data.train


@pytest.mark.parametrize("form", ["float32", "int8"])
@pytest.mark.parametrize("kind", ["weights", "linear", "mlp"])
def test_bytes_models_travel_once_and_then_the_aggregator_alone(kind: Any, form: str) -> None:
    fens = FENS(aggregator=kind, hidden=4, aggregator_rounds=3, model_format=form, local=SHORT)
    states, records, _, _ = run(fens)
    first = num_bytes(select(states[0].shared, "model"))
    assert first == 4 * (16 * 8 + 16 + 3 * 16 + 3)
    # rows: 16 of 8 and 3 of 16 numbers of a byte, each row with a scale and a bias
    model = first if form == "float32" else 16 * 8 + 3 * 16 + 4 * 2 * (16 + 3)
    hidden = K * 4
    numbers = {
        "weights": K,
        "linear": K * C * C + C,
        "mlp": hidden * (K * C + 1) + C * (hidden + 1),
    }[kind]
    up = [K * (model + 8)] + [K * (4 * numbers + 8)] * 3
    down = [K * first, K * (K * model + 8 * K + 4 * numbers)] + [K * 4 * numbers] * 2
    assert [record.bytes_up for record in records] == up
    assert [record.bytes_down for record in records] == down


def test_models_of_usual_width_take_about_a_quarter_of_their_bytes() -> None:
    wide = {**VECTOR, "models": ["mlp:128-128"]}
    sizes = [
        run(FENS(aggregator_rounds=0, model_format=form, local=SHORT), wide)[1][0].bytes_up
        for form in ("int8", "float32")
    ]
    assert 0.25 < sizes[0] / sizes[1] < 0.28


def test_a_client_that_was_absent_when_models_were_handed_out_is_told_so() -> None:
    fens = FENS(aggregator_rounds=3, local=SHORT)
    with pytest.raises(ProtocolError, match="client 3 was not there in round 2, when the models"):
        run(fens, visited=lambda round_: range(3) if round_ == 1 else range(K))
    states, _, _, _ = run(fens, visited=lambda round_: range(3) if round_ == 0 else range(K))
    assert states[-1].result["ensemble.0.clients"].tolist() == [0, 1, 2]  # it may come after that


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="the aggregator sees scores, not inputs"):
        FENS(training=LocalSGD(augment="flip"))
    with pytest.raises(ConfigError, match="holdout"):
        FENS(holdout=1.0)
    fens = FENS(local=SHORT)
    env = Env(task(), 0)
    with pytest.raises(ProtocolError, match="no client trained on an example"):
        fens.aggregate(fens.init(env), iter([]), env)
    with pytest.raises(ProtocolError, match="there are no models yet"):
        fens.predictor(fens.init(env).model, {}, env).scores(torch.zeros(2, 8))


def test_first_weights_of_the_mlp_follow_the_seed() -> Any:
    def drawn(seed: int) -> Any:
        network = ScoreAggregator("mlp", 2, 3, 4)
        return network.start(torch_generator(seed, "aggregator"))["hidden.weight"]

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
