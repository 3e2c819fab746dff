import math

import torch

from fedcord.ops.vectors import nearest_gaps, nearest_scores

GENERATOR = torch.Generator().manual_seed(1)
FEATURES = torch.randn(40, 6, generator=GENERATOR)
PROTOTYPES = torch.randn(5, 6, generator=GENERATOR)


def test_scores_are_minus_mean_squared_distances() -> None:
    scores = nearest_scores(FEATURES, PROTOTYPES, torch.ones(5, dtype=torch.bool))
    for row in range(40):
        for label in range(5):
            wanted = -(math.dist(FEATURES[row].tolist(), PROTOTYPES[label].tolist()) ** 2) / 6
            assert abs(float(scores[row, label]) - wanted) < 1e-5


def test_a_class_without_a_prototype_never_wins_and_all_scores_are_finite() -> None:
    held = torch.tensor([True, False, True, False, False])
    far = PROTOTYPES.clone()
    far[0] += 1000  # farther than any constant that might stand for "no prototype"
    far[2] += 2000
    scores = nearest_scores(FEATURES, far, held)
    assert bool(scores.isfinite().all())
    assert set(scores.argmax(1).tolist()) == {0}
    assert bool((scores[:, ~held] < scores[:, held].amin(1, keepdim=True)).all())


def test_without_prototypes_no_class_is_preferred() -> None:
    scores = nearest_scores(FEATURES, PROTOTYPES, torch.zeros(5, dtype=torch.bool))
    assert torch.equal(scores, scores[:1, :1].expand_as(scores))


def test_an_example_does_not_depend_on_its_batch() -> None:
    held = torch.ones(5, dtype=torch.bool)
    whole = nearest_scores(FEATURES, PROTOTYPES, held)
    alone = torch.cat([nearest_scores(FEATURES[i : i + 1], PROTOTYPES, held) for i in range(40)])
    assert torch.equal(whole, alone)


def test_gaps_are_distances_to_the_nearest_other() -> None:
    gaps = nearest_gaps(PROTOTYPES)
    for i in range(5):
        others = [math.dist(PROTOTYPES[i].tolist(), PROTOTYPES[j].tolist()) for j in range(5)]
        others.pop(i)
        assert abs(float(gaps[i]) - min(others)) < 1e-5
    assert nearest_gaps(PROTOTYPES[:1]).tolist() == [math.inf]
