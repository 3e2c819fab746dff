"""A bad update is refused by name and counted, and the round goes on without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.faulty_transport import Tampering
from fedcord.checks.subject import Outcome, Subject
from fedcord.core.contract import ClientId, Update
from fedcord.core.errors import NumericalError
from fedcord.core.tensors import Tensors
from fedcord.engine.requests import Reply, Request
from fedcord.store.checkpoint import Checkpoint

Corrupt = Callable[[Update], tuple[Update, str]]
"""An update to a bad one, and the word its refusal must mention (empty: it cannot be spoiled)."""

BAD_CLIENT = 1


def bad_updates_refused(subject: Subject) -> Iterator[str]:
    """Non-finite values, wrong shapes and types, missing and extra tensors, negative weights."""
    everyone = range(subject.tiny.population.num_clients)
    others = [client for client in everyone if client != BAD_CLIENT]
    wanted = subject.run(clients=others, num_rounds=subject.fewest_rounds)
    for name, corrupt in CORRUPTIONS.items():
        spoil = _Spoil({BAD_CLIENT}, corrupt)
        try:
            found = _run_spoiled(subject, spoil)
        except Exception as error:  # whatever happened, the bad update got as far as the algorithm
            yield f"{name} was not refused and led to {type(error).__name__}: {error}"
            continue
        if not spoil.mentioned:
            continue
        for with_it, without_it in zip(found.records, wanted.records, strict=True):
            word = spoil.mentioned.get(with_it.round - 1)
            if word is not None:  # a round's message may have nothing to spoil like this
                words = {f"client {BAD_CLIENT}", word}
                yield from _refusal_problems(name, with_it.refused, without_it.refused, words)
        states = [Checkpoint(run.checkpoint.state, {}).tensors() for run in (found, wanted)]
        gap = difference(states[0], states[1])
        if gap is not None:
            yield f"with {name} the run did not go on as if without that client: {gap}."
    yield from _all_refused(subject, set(everyone))


def _run_spoiled(subject: Subject, spoil: _Spoil) -> Outcome:
    return subject.run(
        transport=lambda method: Tampering(subject.sequential(method), spoil),
        num_rounds=subject.fewest_rounds,
    )


def _refusal_problems(
    name: str, refused: Sequence[str], usual: Sequence[str], words: set[str]
) -> Iterator[str]:
    if len(refused) != len(usual) + 1:
        yield (
            f"{name} from one client: {len(refused)} updates were refused, expected "
            f"{len(usual) + 1}."
        )
    elif not any(all(word in reason for word in words) for reason in refused):
        yield f"no refusal of {name} names {' and '.join(sorted(words))}: {refused[0]}"


def _all_refused(subject: Subject, everyone: set[ClientId]) -> Iterator[str]:
    try:
        _run_spoiled(subject, _Spoil(everyone, _negative_weight))
    except NumericalError:
        return
    except Exception as error:  # another error hides from the user what happened
        yield f"when all updates are refused, {type(error).__name__} is raised: {error}"
        return
    yield "when all updates are refused, the run goes on; let the NumericalError pass."


@dataclass(frozen=True)
class _Spoil:
    """Whose updates are spoiled and how; collects the word each round's refusal must mention."""

    clients: set[ClientId]
    corrupt: Corrupt
    mentioned: dict[int, str] = field(default_factory=dict)

    def __call__(self, request: Request, reply: Reply) -> Reply:
        """The reply as it arrives."""
        is_chosen = request.verb == "update" and reply.client in self.clients
        if not is_chosen or reply.refusal is not None:
            return reply
        update, word = self.corrupt(reply.update())
        if word:
            self.mentioned[request.round] = word
        values = {**reply.values, "weight": update.weight}
        return replace(reply, tensors=update.tensors, values=values)


def _not_a_number(update: Update) -> tuple[Update, str]:
    for name, tensor in sorted(update.tensors.items()):
        if tensor.is_floating_point() and tensor.numel():
            spoiled = tensor.clone()
            spoiled.reshape(-1)[-1] = float("nan")
            return _with(update, name, spoiled), name
    return update, ""


def _wrong_shape(update: Update) -> tuple[Update, str]:
    name = min(update.tensors, default="")
    if not name:
        return update, ""
    tensor = update.tensors[name]
    return _with(update, name, torch.cat([tensor.reshape(-1), tensor.reshape(-1)])), name


def _wrong_type(update: Update) -> tuple[Update, str]:
    name = min(update.tensors, default="")
    return (
        (_with(update, name, update.tensors[name].to(torch.float16)), name)
        if name
        else (update, "")
    )


def _missing(update: Update) -> tuple[Update, str]:
    name = min(update.tensors, default="")
    kept = {other: tensor for other, tensor in update.tensors.items() if other != name}
    return replace(update, tensors=kept), name


def _extra(update: Update) -> tuple[Update, str]:
    return _with(update, "not.agreed", torch.zeros(1)), "not.agreed"


def _negative_weight(update: Update) -> tuple[Update, str]:
    return replace(update, weight=-1.0), "weight"


def _with(update: Update, name: str, tensor: Tensor) -> Update:
    tensors: Tensors = {**update.tensors, name: tensor}
    return replace(update, tensors=tensors)


CORRUPTIONS: Mapping[str, Corrupt] = MappingProxyType(
    {
        "an update that is not finite": _not_a_number,
        "an update of wrong shape": _wrong_shape,
        "an update of wrong type": _wrong_type,
        "an update with a tensor missing": _missing,
        "an update with a tensor too many": _extra,
        "an update with a negative weight": _negative_weight,
    }
)
