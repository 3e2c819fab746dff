"""A worker process of the `processes` engine: `python -m fedcord.engine.worker`.

It reads one line of JSON from standard input (its socket, the file of data and the parent's import
path), is given the blueprint, and then answers requests until the parent goes away.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

import torch

from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.errors import FedcordError
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.evaluation import evaluate
from fedcord.engine.messages import pack, pack_answer, unpack, unpack_job
from fedcord.engine.population import Population
from fedcord.engine.shared_block import map_block
from fedcord.engine.visit import Job, visit

JOB, VISIT, EVALUATE = b"J", b"V", b"T"
ANSWER, FAILURE = b"A", b"E"
"""First byte of a message: what the rest is."""


def main() -> None:
    """Connect and serve."""
    start = json.loads(sys.stdin.readline())
    sys.path[:] = start["path"]
    torch.set_num_threads(1)
    with Connection(start["descriptor"]) as parent:
        try:
            _serve(parent, start["data"])
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent has ended; so do we


def _serve(parent: Connection, data: int) -> None:
    header, _ = unpack(parent.recv_bytes())
    blueprint = Blueprint.from_json(header["blueprint"])
    tensors = map_block(data, header["layout"])
    os.close(data)  # the mapping stays
    population = Population.from_tensors(tensors)
    algorithm, task = blueprint.build_algorithm(), blueprint.build_task()
    parent.send_bytes(ANSWER)
    job: Job | None = None
    while True:
        message = parent.recv_bytes()
        kind, body = message[:1], message[1:]
        if kind == JOB:
            job = unpack_job(body)
            continue
        assert job is not None
        try:
            if kind == VISIT:
                _visit(parent, algorithm, task, job, population, body)
            else:
                _evaluate(parent, algorithm, task, job, population, body)
        except FedcordError as error:
            failure = {"error": type(error).__name__, "message": str(error)}
            parent.send_bytes(FAILURE + pack(failure, {}))


def _visit(
    parent: Connection,
    algorithm: Algorithm,
    task: Task,
    job: Job,
    population: Population,
    body: bytes,
) -> None:
    header, tensors = unpack(body)
    clients: list[int] = header["clients"]
    memories = {client: select(tensors, str(client)) for client in clients}
    for _, answer, memory in visit(algorithm, task, job, clients, memories, population):
        parent.send_bytes(ANSWER + pack_answer(answer, memory))


def _evaluate(
    parent: Connection,
    algorithm: Algorithm,
    task: Task,
    job: Job,
    population: Population,
    body: bytes,
) -> None:
    header, memory = unpack(body)
    sums = evaluate(
        algorithm,
        job.shared,
        memory,
        population.test,
        job.env(task, header["client"]),
        population.test_groups,
        header["first"],
        header["last"],
    )
    parent.send_bytes(ANSWER + pack(sums.plain(), {}))


def visit_request(clients: Sequence[ClientId], memories: Mapping[ClientId, Tensors]) -> bytes:
    """The request to visit `clients`, carrying what they keep."""
    kept: dict[str, torch.Tensor] = {}
    for client in clients:
        kept |= prefixed(str(client), memories.get(client, {}))
    return VISIT + pack({"clients": list(clients)}, kept)


def evaluation_request(
    first: int, last: int, client: ClientId | None = None, memory: Tensors | None = None
) -> bytes:
    """The request to test on the server's examples `first` to `last`.

    With `client` its own model is tested, which needs what it keeps.
    """
    return EVALUATE + pack({"first": first, "last": last, "client": client}, memory or {})


if __name__ == "__main__":
    main()
