"""What an attacker computes of candidates by a model: numbers in which members may differ.

All are of the form name to [N], and higher where a sample looks more like a member. None uses
membership; where a signal needs a head or class means, they are made of all candidates alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.audit.candidates import Candidates
from fedcord.core.rng import torch_generator
from fedcord.core.task import Task

BATCH = 256
VIEWS = 2
VIEW = "standard"
"""The kind of random view, where inputs have any: shifted and mirrored images."""
HEAD_RIDGE = 1e-2
"""Of heads that the attacker fits, relative to the features' mean square."""

Signals = dict[str, Tensor]


def prepared_views(candidates: Candidates, task: Task, seed: int) -> list[Tensor]:
    """Candidates as networks read them, and random views of them, the same for every model."""
    stored = candidates.examples.inputs
    views = [task.prepare(stored)]
    if VIEW in task.augmentations:
        generator = torch_generator(seed, "audit-views", client=candidates.client)
        views += [task.augmentations[VIEW](stored, generator) for _ in range(VIEWS)]
    return views


def in_batches(function: Callable[[Tensor], Tensor], inputs: Tensor, task: Task) -> Tensor:
    """The function of prepared inputs, in doubles."""
    with torch.no_grad():
        parts = [function(part.to(task.device)).cpu().double() for part in inputs.split(BATCH)]
    return torch.cat(parts)


def score_signals(scores: Sequence[Tensor], labels: Tensor, regression: bool) -> Signals:
    """Of a classifier's answers.

    Args:
        scores: [N, C] each: of the samples, and of views of them.
        labels: [N].
        regression: whether scores are regressions of the one-hot code; else softmax makes them
            probabilities.
    """
    loss = residual if regression else _cross_entropy
    found = {"loss": -loss(scores[0], labels), "confidence": confidence(scores[0], labels)}
    if len(scores) > 1:
        over_views = [confidence(view, labels) for view in scores[1:]]
        found["confidence of views"] = torch.stack(over_views).mean(0)
    return found


def encoder_signals(
    features: Sequence[Tensor], labels: Tensor, prototypes: Tensor | None
) -> Signals:
    """Of an encoder that has no classifier of its own.

    Args:
        features: [N, D] each: of the samples, and of views of them.
        labels: [N].
        prototypes: [C, D] where the client's vectors for classes are known, too.
    """
    x = F.normalize(features[0], dim=1)
    found = {
        "loss": -left_out_residual(x, labels),
        "length": features[0].norm(dim=1),
        "class mean": _nearer_to_own_class(x, labels),
    }
    if len(features) > 1:
        views = [F.normalize(view, dim=1) for view in features[1:]]
        alike = [(a * b).sum(1) for i, a in enumerate([x, *views]) for b in views[i:]]
        found["views agree"] = torch.stack(alike).mean(0)
    if prototypes is not None:
        near = x @ F.normalize(prototypes.double(), dim=1).T
        found["loss"] = confidence(near, labels)
    return found


def confidence(scores: Tensor, labels: Tensor) -> Tensor:
    """[N] log-odds of the right class if softmax makes probabilities of scores [N, C]."""
    own = scores.gather(1, labels[:, None]).squeeze(1)
    others = scores.scatter(1, labels[:, None], -torch.inf)
    return own - others.logsumexp(dim=1)


def residual(scores: Tensor, labels: Tensor) -> Tensor:
    """[N] squared distance of scores [N, C] from the one-hot code."""
    return (scores - F.one_hot(labels, scores.shape[1])).square().sum(1)


def left_out_residual(rows: Tensor, labels: Tensor) -> Tensor:
    """[N] squared residual of a ridge regression of all other samples, exactly.

    Args:
        rows: [N, D].
        labels: [N].
    """
    x = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
    targets = F.one_hot(labels).to(x.dtype)
    gram = x.T @ x
    ridge = HEAD_RIDGE * gram.diagonal().mean()
    inverse = torch.linalg.inv(gram + ridge * torch.eye(len(gram), dtype=x.dtype))
    leverage = ((x @ inverse) * x).sum(1)
    gap = targets - x @ (inverse @ (x.T @ targets))
    left_out: Tensor = gap / (1 - leverage)[:, None]
    return left_out.square().sum(1)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels, reduction="none")


def _nearer_to_own_class(x: Tensor, labels: Tensor) -> Tensor:
    """[N] cosine to the mean of the others of its class, less that to the nearest other class."""
    classes = labels.unique()
    same = labels[:, None] == classes
    sums = same.T.to(x.dtype) @ x
    to_means = x @ F.normalize(sums, dim=1).T
    own = (x * F.normalize(sums[same.to(torch.int64).argmax(1)] - x, dim=1)).sum(1)
    if len(classes) == 1:
        return own
    return own - to_means.masked_fill(same, -torch.inf).max(1).values
