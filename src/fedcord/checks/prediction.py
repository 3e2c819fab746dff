"""Answers belong to an example and to the model, not to the batch or to what happened since."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.subject import Subject
from fedcord.core.contract import Algorithm, Env, Predictor
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, is_finite

Answer = Callable[[Tensor], Tensor]


def predictor(subject: Subject) -> Iterator[str]:
    """Answers are well formed, depend on the example alone, and leave no mode behind."""
    algorithm = subject.fresh()
    walked = subject.walk(algorithm)
    last = walked.steps[-1]
    yield from _problems(subject, algorithm, last.after.model, {}, last.env, "the server")
    for client, memory in walked.memories.items():
        who = f"client {client}"
        at = last.env.at(client)
        yield from _problems(subject, algorithm, last.after.model, memory, at, who)


def _problems(
    subject: Subject, algorithm: Algorithm, shared: Tensors, memory: Tensors, env: Env, who: str
) -> Iterator[str]:
    task = env.task
    inputs = task.prepare(subject.tiny.population.test.inputs)[:12]
    task.scratch_network(env.client).eval()
    made = algorithm.predictor(shared, memory, env)
    wrong = list(_score_problems(made.scores(inputs), inputs, task, f"scores at {who}"))
    yield from wrong
    if wrong:
        return
    yield from _rule_problems(made, inputs, task, who)
    yield from _view_problems(made, inputs, task, who)
    answers = {"scores": made.scores}
    if made.features is not None:
        look = made.features
        answers["features"] = lambda batch: look(batch).features
    for what, answer in answers.items():
        yield from _dependence(answer, inputs, task, f"{what} at {who}", subject)
    if any(module.training for module in task.scratch_network(env.client).modules()):
        yield f"scores at {who} left the task's network in training mode."


def _score_problems(scores: Tensor, inputs: Tensor, task: Task, what: str) -> Iterator[str]:
    wanted = (len(inputs), task.num_classes)
    if tuple(scores.shape) != wanted or not scores.is_floating_point():
        yield (
            f"{what} are {scores.dtype} {list(scores.shape)}, expected floating point "
            f"{list(wanted)}."
        )
    elif not is_finite(scores):
        yield f"{what} are not finite."
    elif scores.requires_grad:
        yield f"{what} have a gradient graph; use env.task.held_network, which records none."


def _rule_problems(made: Predictor, inputs: Tensor, task: Task, who: str) -> Iterator[str]:
    if made.scores_by_rule is None:
        return
    by_rule = made.scores_by_rule(inputs)
    if not by_rule:
        yield f"scores_by_rule at {who} names no rule; leave it out where there is one way."
        return
    for rule, scores in by_rule.items():
        yield from _score_problems(scores, inputs, task, f"scores by {rule!r} at {who}")
    first, counted = next(iter(by_rule.items()))
    if not torch.equal(counted, made.scores(inputs)):
        yield f"scores at {who} are not those of the first rule, {first!r}."


def _view_problems(made: Predictor, inputs: Tensor, task: Task, who: str) -> Iterator[str]:
    if made.features is None:
        return
    view = made.features(inputs)
    shape, held = tuple(view.features.shape), view.prototypes
    if len(shape) != 2 or shape[0] != len(inputs) or not is_finite(view.features):
        yield f"features at {who} are {list(shape)}, expected finite [{len(inputs)}, D]."
    elif held is not None and (held.shape[::2] != (task.num_classes, shape[1]) or held.ndim != 3):
        yield (
            f"prototypes at {who} are {list(held.shape)}, expected "
            f"[{task.num_classes}, M, {shape[1]}]."
        )


def _dependence(
    answer: Answer, inputs: Tensor, task: Task, what: str, subject: Subject
) -> Iterator[str]:
    """What an answer depends on beside the example and the model."""
    tolerance = subject.expectations.batch_tolerance
    whole = answer(inputs)
    for name, other in _other_batches(inputs, answer):
        gap = difference({"answer": other}, {"answer": whole}, tolerance)
        if gap is not None:
            yield f"{what} depend on the batch: {name}, {gap}; use evaluation mode."
            break
    _overwrite_networks(task)
    gap = difference({"answer": answer(inputs)}, {"answer": whole}, tolerance)
    if gap is not None:
        yield (
            f"{what} depend on what the task's network was last used for: {gap}; use "
            "env.task.held_network, which is one to keep."
        )


def _overwrite_networks(task: Task) -> None:
    """What anybody does who uses the task's networks next."""
    for place in range(len(task.networks)):
        for tensor in task.scratch_network(place).state_dict().values():
            tensor.zero_()


def _other_batches(inputs: Tensor, answer: Answer) -> Iterator[tuple[str, Tensor]]:
    """The same examples in other company, with their answers in the first order."""
    size = len(inputs)
    yield "one by one", torch.cat([answer(inputs[i : i + 1]) for i in range(size)])
    order = torch.arange(size - 1, -1, -1)
    yield "in reversed order", answer(inputs[order])[order]
    padded = torch.cat([inputs, 5 * inputs.flip(-1)])
    yield "among other examples", answer(padded)[:size]
    yield "once more", answer(inputs)
