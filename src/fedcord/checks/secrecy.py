"""What must stay, stays: the server's private tensors and the clients' memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import cast

import torch
from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.subject import Subject
from fedcord.core.contract import Probes
from fedcord.core.tensors import Tensors, encode, raw_bytes


def nothing_leaks(subject: Subject) -> Iterator[str]:
    """No private tensor is in a message to clients, no memory in an update, no news in a probe."""
    algorithm = subject.fresh()
    expected, steps = subject.expectations, subject.walk(algorithm).steps
    for step in steps:
        if algorithm.traits.probes and cast(Probes, algorithm).is_probe(step.env):
            gap = difference(step.after.shared, step.before.shared)
            if gap is not None:
                yield f"the probe in round {step.env.round} changes what clients are sent: {gap}."
    states = [steps[0].before, *(step.after for step in steps)]
    for sent_at, sender in enumerate(states):
        message = encode(sender.model)  # the result is sent too, once the rounds are over
        leaked = {  # what was private by then; a copy kept of an older message is no secret
            name
            for state in states[: sent_at + 1]
            for name in _contained(_without(state.private, expected.private_may_be_sent), message)
        }
        for name in sorted(leaked):
            yield (
                f"the private tensor {name} is in what clients are sent after {sent_at} rounds; "
                "keep it back, or list it in private_may_be_sent."
            )
    for step in steps:
        for client, result in step.results.items():
            message = encode(result.update.tensors)
            leaked = {
                name
                for memory in (step.memories[client], result.memory)
                for name in _contained(_without(memory, expected.memory_may_be_sent), message)
            }
            for name in sorted(leaked):
                yield (
                    f"the memory tensor {name} of client {client} is in its update of round "
                    f"{step.env.round}; keep it back, or list it in memory_may_be_sent."
                )


def _without(tensors: Tensors, patterns: Sequence[str]) -> Tensors:
    return {
        name: tensor
        for name, tensor in tensors.items()
        if not any(fnmatch(name, pattern) for pattern in patterns)
    }


def _contained(secrets: Tensors, message: bytes) -> list[str]:
    """Names of tensors whose values are found in `message`, alone or within another tensor."""
    return [
        name
        for name, tensor in sorted(secrets.items())
        if _tells_something(tensor) and any(values in message for values in _as_bytes(tensor))
    ]


def _tells_something(tensor: Tensor) -> bool:
    """Constants, such as zeros or a single number, are found anywhere by chance."""
    return tensor.numel() > 1 and bool((tensor != tensor.reshape(-1)[0]).any())


def _as_bytes(tensor: Tensor) -> Iterator[bytes]:
    """The values as they are and, for real numbers, in both precisions."""
    types = {tensor.dtype}
    if tensor.is_floating_point():
        types |= {torch.float32, torch.float64}
    for dtype in types:
        yield raw_bytes(tensor.to(dtype)).tobytes()
