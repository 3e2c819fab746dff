"""FedHPro's forms and switches (specification prototype, sections 2.6 to 2.8, 2.11)."""

import dataclasses

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.hyperprototype.extraction import Extraction
from fedcord.algorithms.hyperprototype.fedhpro import HYPER, META
from fedcord.algorithms.hyperprototype.matching import Matching
from fedcord.algorithms.hyperprototype.retraining import Retraining
from fedcord.algorithms.kit.class_means import class_means
from fedcord.algorithms.kit.linear_head import head_of
from fedcord.core.tensors import hash_tensors, select
from tests import federation
from tests.algorithms.hyperprototype.small_runs import (
    CLASSES,
    DIM,
    FEW,
    Run,
    client,
    fedhpro,
    visit,
)


def test_metrics_tell_where_hyper_prototypes_went() -> None:
    run = Run(fedhpro())
    named = run.records[-1].server_metrics
    assert set(named) == {
        "displacement",
        "class_cosine",
        "class_cosine_max",
        "matching_start",
        "matching_end",
        "cosine_distance_start",
        "cosine_distance_end",
        "consistency",
    }
    first, last = run.states[0].shared[HYPER], run.states[-1].shared[HYPER]
    moved = float((last - first).norm(dim=2).mean())
    assert named["displacement"] == pytest.approx(moved, rel=1e-5)
    assert named["matching_end"] < named["matching_start"]
    centres = [own.mean(0) for own in last]
    cosines = [
        float(torch.nn.functional.cosine_similarity(a, b, dim=0))
        for i, a in enumerate(centres)
        for b in centres[i + 1 :]
    ]
    assert named["class_cosine"] == pytest.approx(sum(cosines) / 3, rel=1e-5)
    assert named["class_cosine_max"] == pytest.approx(max(cosines), rel=1e-5)


def test_the_averaged_form_differs_in_nothing_but_hyper_prototypes() -> None:
    """The first round trains on the same first hyper-prototypes, so models agree bit for bit."""
    one, two = fedhpro(), fedhpro("fedhpro-averaged")
    assert dataclasses.replace(two, source="gradients") == one
    runs = Run(one, rounds=1), Run(two, rounds=1)
    for run in runs:
        assert run.states[0].shared[HYPER].shape == (CLASSES, 5, DIM)
    assert hash_tensors(runs[0].model) == hash_tensors(runs[1].model)
    assert torch.equal(runs[0].states[-1].private[META], runs[1].states[-1].private[META])
    assert not torch.equal(runs[0].states[-1].shared[HYPER], runs[1].states[-1].shared[HYPER])
    assert runs[0].records[0].bytes_up == runs[1].records[0].bytes_up
    assert runs[0].records[0].bytes_down == runs[1].records[0].bytes_down
    assert "consistency" in runs[1].records[0].server_metrics
    assert "matching_start" not in runs[1].records[0].server_metrics


def test_the_averaged_form_sets_every_vector_to_the_mean_of_class_means() -> None:
    method = fedhpro("fedhpro-averaged", extraction=Extraction(examples=1000, augment=False))
    env, people = federation.env(), federation.population()
    state, found = method.init(env), dict[int, list[Tensor]]()
    updates = {}
    for k in (0, 1, 2):
        data = people.client(k)
        network = env.task.network_with(select(state.shared, "model"))
        means, counts = class_means(network, data.train, env)
        for label in range(CLASSES):
            if counts[label] > 0:
                found.setdefault(label, []).append(means[label])
        updates[k] = method.client_update(state.shared, {}, data, env.at(k)).update
    hyper = method.aggregate(state, iter(updates.items()), env).shared[HYPER]
    for label, own in found.items():
        wanted = torch.stack(own).mean(0)
        for vector in hyper[label]:
            torch.testing.assert_close(vector, wanted, atol=1e-5, rtol=1e-5)


def test_2_6_updated_and_broadcast_classifiers_differ() -> None:
    runs = [
        Run(fedhpro(matching=Matching(classifier=which)), rounds=1)
        for which in ("updated", "broadcast")
    ]
    assert hash_tensors(runs[0].model) == hash_tensors(runs[1].model)
    hypers = [run.states[-1].shared[HYPER] for run in runs]
    assert not torch.equal(hypers[0], hypers[1])
    distances = [run.records[0].server_metrics["cosine_distance_start"] for run in runs]
    assert distances[1] < distances[0]  # 2.6: the received one makes zero reachable


def test_2_8_presets_are_the_columns_of_the_table() -> None:
    paper, code = fedhpro(), fedhpro("fedhpro-reference")
    for both in (paper, code):
        assert both.num_prototypes == 5
        assert both.matching.steps == 30
        assert both.objective.temperature == 0.05
        assert both.objective.alignment_reduction == "mean"
        assert (both.extraction.examples, both.extraction.repeats) == (100, 1)
        assert both.extraction.augment
        assert (both.objective.contrast_weight, both.objective.alignment_weight) == (1, 1)
    chosen = [
        (
            each.matching.lr,
            each.matching.metric,
            each.matching.classifier,
            each.extraction.scale,
            each.objective.margin,
            each.objective.contrast_reduction,
        )
        for each in (paper, code)
    ]
    assert chosen == [
        (10.0, "cosine", "broadcast", "per_sample", "paper", "mean"),
        (0.1, "coordinate", "updated", "reference", "off", "reference"),
    ]
    full = Retraining()
    assert (full.enabled, full.vectors, full.matching_steps, full.matching_lr) == (
        True,
        50,
        100,
        0.1,
    )
    assert (full.epochs, full.lr, full.batch_size) == (100, 0.01, 50)


@pytest.mark.parametrize("num_prototypes", [1, 3])
def test_2_11_any_number_of_hyper_prototypes(num_prototypes: int) -> None:
    run = Run(fedhpro(num_prototypes=num_prototypes))
    assert run.states[-1].shared[HYPER].shape == (CLASSES, num_prototypes, DIM)
    assert bool(torch.isfinite(run.states[-1].shared[HYPER]).all())


def test_2_7_b_meta_features_are_fitted_with_the_classifier_clients_used() -> None:
    method = fedhpro(retraining=dataclasses.replace(FEW, matching_lr=5.0))
    state, update, env = visit(method, client([0, 1, 2, 2, 1]))
    after = method.aggregate(state, iter([(0, update)]), env)
    rows = {n: update.tensors[f"signal.head_{n}"] for n in ("weight", "bias")}
    everyone = torch.ones(CLASSES, dtype=torch.bool)
    fitted = {
        which: method.retraining.fit_vectors(
            state.private[META], rows["weight"], rows["bias"], everyone, head_of(shared, env)
        )
        for which, shared in (("received", state.shared), ("averaged", update.tensors))
    }
    assert torch.equal(after.private[META], fitted["received"])
    assert not torch.equal(after.private[META], fitted["averaged"])
