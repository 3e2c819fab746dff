"""The model as it is asked: an algorithm's predictor, averaged over the task's test views.

What is averaged are the class scores themselves, whatever they measure. Everything that reads
scores reads them by their order or by softmax, and softmax of a mean of scores is the normalised
geometric mean of the views' probabilities. For scores that are logits or negative squared distances
this is the mean of log-likelihoods; for regressions on class indicators, which are linear in what
they average, it is the regression's answer to the mean of the views' features; for shares of votes
or probabilities it is the mean of shares.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedcord.core.contract import Algorithm, Env, Predictor, Scores
from fedcord.core.task import View
from fedcord.core.tensors import Tensors


def make_predictor(algorithm: Algorithm, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
    """The predictor that evaluations, predictions and exports ask; arguments as of its verb."""
    return over_views(algorithm.predictor(shared, memory, env), env.task.test_views)


def over_views(predictor: Predictor, views: tuple[View, ...]) -> Predictor:
    """A predictor whose scores are means over inputs as they are and their views.

    Features stay those of inputs as they are.
    """
    if not views:
        return predictor
    several = predictor.scores_by_rule

    def scores(inputs: Tensor) -> Tensor:
        return _mean_over(predictor.scores, inputs, views)

    def scores_by_rule(inputs: Tensor) -> Mapping[str, Tensor]:
        assert several is not None
        found = [several(inputs), *(several(view(inputs)) for view in views)]
        return {rule: _mean([answers[rule] for answers in found]) for rule in found[0]}

    return Predictor(scores, None if several is None else scores_by_rule, predictor.features)


def _mean_over(answer: Scores, inputs: Tensor, views: tuple[View, ...]) -> Tensor:
    return _mean([answer(inputs), *(answer(view(inputs)) for view in views)])


def _mean(scores: list[Tensor]) -> Tensor:
    """Added one by one: the order of views decides the last bits, on every engine the same."""
    total = scores[0]
    for own in scores[1:]:
        total = total + own
    return total / len(scores)
