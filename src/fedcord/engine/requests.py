"""What passes between the server and where data lives: requests there, replies back.

    | 8 bytes: length of header | header (JSON) | tensors (safetensors) |

A request says what everybody is asked; a parcel says who is, and goes with it. Every byte that
arrives is checked before use, and nothing is ever pickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fedcord.core import errors
from fedcord.core.contract import ClientId, Env, Update
from fedcord.core.errors import FedcordError, ProtocolError, shown
from fedcord.core.params import LARGEST
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, decode, encode, prefixed, select, spec_of

Verb = Literal[
    "hello",
    "survey",
    "update",
    "personalize",
    "evaluate",
    "validate",
    "predict",
    "forget",
    "memory",
    "advertise",
    "share",
    "mask",
    "unmask",
]
VERBS: tuple[str, ...] = get_args(Verb)
MASKING: tuple[Verb, ...] = ("advertise", "share", "mask", "unmask")
"""The verbs of a masked round, in their order."""

TOOK = "took"
"""What a reply calls the passes of the work it is about; see `Passes`."""
SAVED, SAVED_CPU = "saved_seconds", "saved_cpu_seconds"
"""What work took that was done before and not again."""

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Request:
    """What clients are asked to do.

    Attributes:
        verb: one of the node's verbs; see `ClientNode`.
        shared: what the server sends along.
        round: number of the round, from 0.
        num_rounds: rounds of the run.
        seed: the run's seed.
        step: the place in the run by which memory is kept: a client sees what earlier steps left
            with it, and what it keeps now is kept under this one.
        run: identity of the run, echoed by every reply.
    """

    verb: Verb
    shared: Tensors = field(default_factory=dict)
    round: int = 0
    num_rounds: int = 1
    seed: int = 0
    step: int = 0
    run: str = ""

    def env(
        self,
        task: Task,
        client: ClientId | None = None,
        names: Mapping[ClientId, str] | None = None,
    ) -> Env:
        """The place an algorithm's verb runs in."""
        return Env(task, self.seed, self.round, self.num_rounds, client, names or {})


@dataclass(frozen=True)
class Parcel:
    """One piece of a request, done in one place.

    Attributes:
        clients: who is asked, visited together; none for what a node does without a client.
        options: what else a verb needs to know, as JSON can hold it.
        node: where it must be done; None: wherever its clients live.
        cost: how long it may take compared with others, for the order of sending.
        tensors: what goes to these clients alone.
    """

    clients: tuple[ClientId, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    node: int | None = None
    cost: int = 1
    tensors: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """One client's answer, or a node's own.

    Attributes:
        client: who answers; None for a node's own answer.
        verb: what is answered.
        step: the request's.
        run: the request's.
        tensors: what is sent back.
        values: numbers and words, as JSON can hold them.
        refusal: why there is no answer; None when there is one.
    """

    client: ClientId | None
    verb: Verb
    step: int = 0
    run: str = ""
    tensors: Tensors = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None

    def update(self, who: str = "a client") -> Update:
        """The reply to `update` or `forget` as what an algorithm reads; `who` is for the error."""
        if self.refusal is not None:
            raise ProtocolError(self.refusal)
        try:
            found = self.values["metrics"].items()
            metrics = {str(k): math.nan if v is None else _number(v) for k, v in found}
            return Update(self.tensors, _number(self.values["weight"]), metrics)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"{who} sent an update that is incomplete ({error}).") from error


def pack(header: Mapping[str, Any], tensors: Tensors) -> bytes:
    """One message; its header holds finite numbers only, as JSON does."""
    try:
        text = json.dumps(header, allow_nan=False).encode()
    except ValueError as error:
        raise ProtocolError(f"a message header holds what JSON cannot ({error}).") from error
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + encode(tensors)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and tensors of a message, or a ProtocolError."""
    return _header(data), decode(data[_end_of_header(data) :])


def _end_of_header(data: bytes) -> int:
    return LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")


def _header(data: bytes) -> dict[str, Any]:
    end = _end_of_header(data)
    length = end - LENGTH_BYTES
    if len(data) < LENGTH_BYTES or length > MAX_HEADER_BYTES or end > len(data):
        raise ProtocolError(f"a message of {len(data)} bytes announces a header of {length} bytes.")
    try:
        header = json.loads(data[LENGTH_BYTES:end], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message header is not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise ProtocolError("a message header is not a JSON object.")
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def count(value: object) -> int:
    """A whole number from 0 that counters can hold, and nothing that only looks like one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{shown(value)} is not a whole number from 0")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a number")
    return float(value)


def pack_request(request: Request) -> bytes:
    """A request with everything the server sends."""
    names = ("verb", "round", "num_rounds", "seed", "step", "run")
    return pack({name: getattr(request, name) for name in names}, request.shared)


def unpack_request(data: bytes) -> Request:
    """The inverse of `pack_request`."""
    header, shared = unpack(data)
    try:
        verb = header["verb"]
        if verb not in VERBS:
            raise ProtocolError(f"a request asks for {shown(verb)}, which is no verb of a node.")
        names = ("round", "num_rounds", "seed", "step")
        numbers = {name: count(header[name]) for name in names}
        return Request(verb, shared, run=str(header["run"]), **numbers)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a request's header is incomplete ({error}).") from error


def pack_parcel(parcel: Parcel) -> bytes:
    """Who is asked; goes with a packed request. Nodes need not know what it costs."""
    return pack({"clients": list(parcel.clients), "options": dict(parcel.options)}, parcel.tensors)


def unpack_parcel(data: bytes) -> Parcel:
    """The inverse of `pack_parcel`, but for what nodes need not know."""
    header, tensors = unpack(data)
    try:
        clients = tuple(count(client) for client in header["clients"])
        return Parcel(clients, dict(header["options"]), tensors=tensors)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a parcel's header is incomplete ({error}).") from error


def pack_call(request: Request, parcel: Parcel) -> bytes:
    """A request and its parcel as the one message `ClientNode.handle` reads."""
    return join([pack_request(request), pack_parcel(parcel)])


def unpack_call(data: bytes) -> tuple[Request, Parcel]:
    """The inverse of `pack_call`."""
    parts = split(data)
    if len(parts) != 2:
        raise ProtocolError(f"a call has {len(parts)} parts, expected a request and a parcel.")
    return unpack_request(parts[0]), unpack_parcel(parts[1])


def join(messages: Sequence[bytes]) -> bytes:
    """Several messages as one."""
    return b"".join(len(m).to_bytes(LENGTH_BYTES, "little") + m for m in messages)


def split(data: bytes) -> list[bytes]:
    """The inverse of `join`, or a ProtocolError."""
    parts, start = [], 0
    while start < len(data):
        length = int.from_bytes(data[start : start + LENGTH_BYTES], "little")
        end = start + LENGTH_BYTES + length
        if end > len(data):
            raise ProtocolError(f"a message of {len(data)} bytes announces {length} after {start}.")
        parts.append(data[start + LENGTH_BYTES : end])
        start = end
    return parts


def pack_replies(replies: Sequence[Reply]) -> bytes:
    """All answers to one call; tensors that are alike in all are stacked, as each has a price."""
    names = ("client", "verb", "step", "run", "values", "refusal")
    headers = [{name: getattr(reply, name) for name in names} for reply in replies]
    specs = [spec_of(reply.tensors) for reply in replies]
    if len(replies) > 1 and all(spec == specs[0] for spec in specs):
        stacks = {name: torch.stack([r.tensors[name] for r in replies]) for name in specs[0]}
        return pack({"replies": headers, "stacked": True}, stacks)
    tensors: dict[str, Tensor] = {}
    for place, reply in enumerate(replies):
        tensors |= prefixed(str(place), reply.tensors)
    return pack({"replies": headers, "stacked": False}, tensors)


def pack_failure(error: FedcordError) -> bytes:
    """What a node says that could not do what it was asked."""
    return pack({"error": type(error).__name__, "message": str(error)}, {})


def failure_in(data: bytes) -> FedcordError | None:
    """What a node failed with, where its answer says that it has; anything else is read later."""
    try:
        header = _header(data)
    except ProtocolError:
        return None
    return _failure(header) if "error" in header else None


def _failure(header: Mapping[str, Any]) -> FedcordError:
    kind = getattr(errors, str(header["error"]), None)
    is_ours = isinstance(kind, type) and issubclass(kind, FedcordError)
    made: FedcordError = (kind if is_ours else ProtocolError)(str(header.get("message")))  # type: ignore[misc]
    return made


def unpack_replies(data: bytes) -> list[Reply] | FedcordError:
    """The inverse of `pack_replies`, or of `pack_failure`; other bytes are a ProtocolError."""
    header, tensors = unpack(data)
    if "error" in header:
        return _failure(header)
    try:
        headers, stacked = list(header["replies"]), bool(header["stacked"])
        if stacked and any(stack.shape[:1] != (len(headers),) for stack in tensors.values()):
            raise ProtocolError(f"a message does not hold {len(headers)} of each tensor.")
        return [
            _reply(values, _row(tensors, place) if stacked else select(tensors, str(place)))
            for place, values in enumerate(headers)
        ]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a reply's header is incomplete ({error}).") from error


def _row(stacks: Tensors, place: int) -> dict[str, Tensor]:
    """Copies: whoever keeps one client's tensors does not keep the others' too."""
    return {name: stack[place].clone() for name, stack in stacks.items()}


def _reply(header: Mapping[str, Any], tensors: Tensors) -> Reply:
    client, refusal, verb = header["client"], header["refusal"], header["verb"]
    if verb not in VERBS:
        raise ProtocolError(f"a reply answers {shown(verb)}, which is no verb of a node.")
    return Reply(
        None if client is None else count(client),
        verb,
        count(header["step"]),
        str(header["run"]),
        tensors,
        dict(header["values"]),
        None if refusal is None else str(refusal),
    )


def refused(request: Request, client: ClientId | None, reason: str) -> Reply:
    """The reply that says why there is none."""
    return Reply(client, request.verb, request.step, request.run, refusal=reason)


def answered(
    request: Request,
    client: ClientId | None,
    tensors: Tensors | None = None,
    values: Mapping[str, Any] | None = None,
) -> Reply:
    """The reply that has what was asked for."""
    return Reply(client, request.verb, request.step, request.run, tensors or {}, values or {})


def sayable(update: Update) -> dict[str, Any]:
    """Weight and metrics as JSON can hold them; what is not finite becomes null."""
    metrics = {k: v if math.isfinite(v) else None for k, v in update.metrics.items()}
    return {"weight": update.weight, "metrics": metrics}
