"""Answers counted in batches at fixed places: the loop that makes the sums of `metrics.sums`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedcord.core.contract import Algorithm, Env
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.prediction import make_predictor
from fedcord.core.tensors import Tensors
from fedcord.metrics.counting import Tally
from fedcord.metrics.sums import Detail, Evaluation

BATCH = 250
"""Examples per prediction: large enough to amortise calls, small enough to stay in cache."""


def evaluate(
    algorithm: Algorithm,
    shared: Tensors,
    memory: Tensors,
    examples: Examples,
    env: Env,
    groups: Mapping[str, Tensor] | None = None,
    first: int = 0,
    last: int | None = None,
    detail: Detail = Detail(),  # noqa: B008 - frozen
) -> Evaluation:
    """Predict examples `first` to `last` in batches and count, as far as `detail` asks.

    The batches are cut at fixed places, so that any division of the range into whole batches gives
    the same sums.
    """
    tally = Tally(env.task.num_classes, detail)
    stop = len(examples) if last is None else last
    predictor = make_predictor(algorithm, shared, memory, env)
    several = predictor.scores_by_rule
    for start in range(first, stop, BATCH):
        chosen = slice(start, min(start + BATCH, stop))
        inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
        labels = examples.labels[chosen]
        with torch.inference_mode():
            found = {"": predictor.scores(inputs)} if several is None else several(inputs)
        answers = {rule: scores.cpu() for rule, scores in found.items()}
        for scores in answers.values():
            _check_scores(scores, len(labels), env)
        scores = next(iter(answers.values()))
        tally.add(scores, labels, answers if several else {})
    return tally.sums({name: group[first:stop] for name, group in (groups or {}).items()})


def _check_scores(scores: Tensor, num_examples: int, env: Env) -> None:
    expected = (num_examples, env.task.num_classes)
    if tuple(scores.shape) != expected:
        raise ProtocolError(
            f"the predictor returned shape {list(scores.shape)}, expected {list(expected)} "
            "(one score per example and class)."
        )
    if bool(torch.isnan(scores).any()):
        raise NumericalError(
            f"the predictor returned NaN in round {env.round}; lower the learning rate."
        )
