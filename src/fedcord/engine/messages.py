"""Jobs and answers as bytes: a JSON header, then safetensors. Nothing else crosses a wire.

    | 8 bytes: length of header | header (JSON) | tensors (safetensors) |

Every byte that arrives is checked before use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError, shown
from fedcord.core.params import LARGEST
from fedcord.core.tensors import Tensors, decode, encode, prefixed, select, spec_of
from fedcord.engine.visit import Answer, Job, Refusal

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 * 2**20


def pack(header: Mapping[str, Any], tensors: Tensors) -> bytes:
    """One message; its header holds finite numbers only, as JSON does."""
    try:
        text = json.dumps(header, allow_nan=False).encode()
    except ValueError as error:
        raise ProtocolError(f"a message header holds what JSON cannot ({error}).") from error
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + encode(tensors)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and tensors of a message, or a ProtocolError."""
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    end = LENGTH_BYTES + length
    if len(data) < LENGTH_BYTES or length > MAX_HEADER_BYTES or end > len(data):
        raise ProtocolError(f"a message of {len(data)} bytes announces a header of {length} bytes.")
    try:
        header = json.loads(data[LENGTH_BYTES:end], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message header is not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise ProtocolError("a message header is not a JSON object.")
    return header, decode(data[end:])


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def pack_job(job: Job) -> bytes:
    """A job with everything the server sends."""
    header = {
        "verb": job.verb,
        "round": job.round,
        "num_rounds": job.num_rounds,
        "seed": job.seed,
        "models_of": job.models_of,
    }
    return pack(header, job.shared)


def unpack_job(data: bytes) -> Job:
    """The inverse of `pack_job`."""
    header, shared = unpack(data)
    try:
        if header["verb"] not in ("update", "personalize", "evaluate", "validate"):
            raise ProtocolError(f"a job asks for {shown(header['verb'])}, which is no verb.")
        numbers = (_count(header["round"]), _count(header["num_rounds"]), _count(header["seed"]))
        of = header["models_of"]
        models_of = None if of is None else tuple(_count(client) for client in of)
        return Job(header["verb"], shared, *numbers, models_of)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"a job's header is incomplete ({error}).") from error


def pack_answer(answer: Answer, memory: Tensors) -> bytes:
    """An answer together with the memory the client keeps."""
    return pack(*_parts(answer, memory))


def unpack_answer(data: bytes) -> tuple[Answer, dict[str, Any]]:
    """The inverse of `pack_answer`."""
    return _answer(*unpack(data))


def pack_answers(answers: Sequence[tuple[Answer, Tensors]]) -> bytes:
    """Many clients' answers; tensors that are alike in all are stacked, as each has a price."""
    parts = [_parts(answer, memory) for answer, memory in answers]
    specs = [spec_of(tensors) for _, tensors in parts]
    header = {
        "answers": [header for header, _ in parts],
        "stacked": len(parts) > 1 and all(spec == specs[0] for spec in specs),
    }
    if header["stacked"]:
        stacks = {name: torch.stack([own[name] for _, own in parts]) for name in specs[0]}
        return pack(header, stacks)
    return pack(header, numbered({k: own for k, (_, own) in enumerate(parts)}))


def unpack_answers(data: bytes, count: int) -> list[tuple[Answer, dict[str, Any]]]:
    """The inverse of `pack_answers`, which must have been given `count` of them."""
    header, tensors = unpack(data)
    headers = header.get("answers")
    if not isinstance(headers, list) or len(headers) != count:
        raise ProtocolError(f"a message does not hold the {count} answers that were asked for.")
    if not header.get("stacked"):
        own = by_number(tensors)
        return [_answer(values, own.get(k, {})) for k, values in enumerate(headers)]
    if any(stack.shape[:1] != (count,) for stack in tensors.values()):
        raise ProtocolError(f"a message does not hold {count} of each tensor.")
    # copies: whoever keeps one client's tensors does not keep the others' too
    return [
        _answer(values, {name: stack[k].clone() for name, stack in tensors.items()})
        for k, values in enumerate(headers)
    ]


def numbered(owned: Mapping[int, Tensors]) -> dict[str, Any]:
    """Several owners' tensors, each under its owner's number."""
    return {f"{k}.{name}": tensor for k, own in owned.items() for name, tensor in own.items()}


def by_number(tensors: Tensors) -> dict[int, dict[str, Any]]:
    """The inverse of `numbered`, but for owners of nothing."""
    owned: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        number, _, rest = name.partition(".")
        if not number.isdecimal():
            raise ProtocolError(f"a message holds {name}, which begins with no number.")
        owned.setdefault(int(number), {})[rest] = tensor
    return owned


def _parts(answer: Answer, memory: Tensors) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(answer, Refusal):
        return {"refusal": answer.reason}, prefixed("memory", memory)
    metrics = {k: v if math.isfinite(v) else None for k, v in answer.metrics.items()}
    header = {"weight": answer.weight, "metrics": metrics}
    return header, {**prefixed("update", answer.tensors), **prefixed("memory", memory)}


def _answer(header: Mapping[str, Any], tensors: Tensors) -> tuple[Answer, dict[str, Any]]:
    memory = select(tensors, "memory")
    try:
        if "refusal" in header:
            return Refusal(str(header["refusal"])), memory
        metrics = {k: math.nan if v is None else _number(v) for k, v in header["metrics"].items()}
        weight = _number(header["weight"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ProtocolError(f"an answer's header is incomplete ({error}).") from error
    return Update(select(tensors, "update"), weight, metrics), memory


def _count(value: object) -> int:
    """A whole number from 0 that counters can hold, and nothing that only looks like one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{shown(value)} is not a whole number from 0")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a number")
    return float(value)
