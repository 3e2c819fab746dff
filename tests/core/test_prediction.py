"""Predictions averaged over views, on answers that can be counted by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.core.contract import FeatureView, Predictor
from fedcord.core.prediction import over_views

INPUTS = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
SWAPPED = INPUTS.flip(1)


def swapped(inputs: Tensor) -> Tensor:
    return inputs.flip(1)


def doubled(inputs: Tensor) -> Tensor:
    return inputs * 2


def squares(inputs: Tensor) -> Tensor:
    return inputs**2


def test_without_views_the_predictor_is_the_methods_own() -> None:
    made = Predictor(squares)
    assert over_views(made, ()) is made


def test_scores_are_the_mean_over_the_input_and_its_views() -> None:
    scores = over_views(Predictor(squares), (swapped, doubled)).scores(INPUTS)
    by_hand = (squares(INPUTS) + squares(SWAPPED) + squares(2 * INPUTS)) / 3
    assert torch.equal(scores, by_hand)


def test_every_rule_has_its_own_mean_and_the_first_is_what_scores_give() -> None:
    made = Predictor(squares, lambda inputs: {"squares": squares(inputs), "plain": inputs})
    found = over_views(made, (swapped,))
    assert found.scores_by_rule is not None
    by_rule = found.scores_by_rule(INPUTS)
    assert list(by_rule) == ["squares", "plain"]
    assert torch.equal(by_rule["plain"], (INPUTS + SWAPPED) / 2)
    assert torch.equal(by_rule["squares"], found.scores(INPUTS))


def test_a_class_that_no_view_can_have_stays_impossible() -> None:
    scores = torch.tensor([[0.0, -torch.inf]])
    found = over_views(Predictor(lambda inputs: scores), (swapped,)).scores(INPUTS[:1])
    assert torch.equal(found, scores)


def test_features_are_of_the_input_as_it_is() -> None:
    made = Predictor(squares, features=lambda inputs: FeatureView(inputs, None))
    found = over_views(made, (swapped,)).features
    assert found is not None
    assert torch.equal(found(INPUTS).features, INPUTS)
