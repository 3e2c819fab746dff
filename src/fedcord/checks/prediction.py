"""Scores belong to an example, not to the batch it came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.subject import Subject
from fedcord.core.contract import Algorithm, Env
from fedcord.core.tensors import Tensors, is_finite


def predict(subject: Subject) -> Iterator[str]:
    """Scores [B, C] are finite, do not depend on the batch, and leave no mode behind."""
    algorithm = subject.fresh()
    walked = subject.walk(algorithm)
    last = walked.steps[-1]
    yield from _scores_problems(subject, algorithm, last.after.model, {}, last.env, "the server")
    for client, memory in walked.memories.items():
        who = f"client {client}"
        at = last.env.at(client)
        yield from _scores_problems(subject, algorithm, last.after.model, memory, at, who)


def _scores_problems(
    subject: Subject, algorithm: Algorithm, shared: Tensors, memory: Tensors, env: Env, who: str
) -> Iterator[str]:
    task = env.task
    inputs = task.prepare(subject.tiny.population.test.inputs)[:12]
    task.scratch_network(env.client).eval()

    def scores_of(batch: Tensor) -> Tensor:
        return algorithm.predict(shared, memory, batch, env)

    whole = scores_of(inputs)
    wanted = (len(inputs), task.num_classes)
    if tuple(whole.shape) != wanted or not whole.is_floating_point():
        yield (
            f"predict at {who} returned {whole.dtype} {list(whole.shape)}, expected floating "
            f"point {list(wanted)}."
        )
        return
    if not is_finite(whole):
        yield f"predict at {who} returned scores that are not finite."
        return
    if whole.requires_grad:
        yield f"predict at {who} returned a gradient graph; use torch.inference_mode()."
    for name, other in _other_batches(inputs, scores_of):
        gap = difference({"scores": other}, {"scores": whole}, subject.expectations.batch_tolerance)
        if gap is not None:
            yield (f"predict at {who} depends on the batch: {name}, {gap}; use evaluation mode.")
            break
    if any(module.training for module in task.scratch_network(env.client).modules()):
        yield f"predict at {who} left the task's network in training mode."


def _other_batches(
    inputs: Tensor, scores_of: Callable[[Tensor], Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """The same examples in other company, with their scores in the first order."""
    size = len(inputs)
    yield "one by one", torch.cat([scores_of(inputs[i : i + 1]) for i in range(size)])
    order = torch.arange(size - 1, -1, -1)
    yield "in reversed order", scores_of(inputs[order])[order]
    padded = torch.cat([inputs, 5 * inputs.flip(-1)])
    yield "among other examples", scores_of(padded)[:size]
    yield "once more", scores_of(inputs)
