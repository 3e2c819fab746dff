"""What a worker of the `processes` engine does, and the requests it understands.

It is given the blueprint, and then answers requests until the parent goes away.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

import torch

from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.errors import FedcordError
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.evaluation import evaluate
from fedcord.engine.messages import by_number, numbered, pack, pack_answers, unpack, unpack_job
from fedcord.engine.population import Population
from fedcord.engine.shared_block import map_block
from fedcord.engine.visit import Job, visit

JOB, VISIT, EVALUATE = b"J", b"V", b"T"
ANSWER, FAILURE = b"A", b"E"
"""First byte of a message: what the rest is."""

Shard = tuple[int, int, ClientId | None]
"""First and last example, and the client whose own model is tested on them, if any."""


def serve(descriptor: int, data: int) -> None:
    """Connect to the parent and work for it until it goes away."""
    torch.set_num_threads(1)
    with Connection(descriptor) as parent:
        try:
            _serve(parent, data)
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
        work = _visit if kind == VISIT else _evaluate
        try:
            answer = ANSWER + work(algorithm, task, job, population, body)
        except FedcordError as error:
            failure = {"error": type(error).__name__, "message": str(error)}
            answer = FAILURE + pack(failure, {})
        parent.send_bytes(answer)


def _visit(
    algorithm: Algorithm, task: Task, job: Job, population: Population, body: bytes
) -> bytes:
    header, tensors = unpack(body)
    memories = by_number(tensors)
    answers = [
        (answer, memory)
        for clients in header["stacks"]
        for _, answer, memory in visit(algorithm, task, job, clients, memories, population)
    ]
    return pack_answers(answers)


def _evaluate(
    algorithm: Algorithm, task: Task, job: Job, population: Population, body: bytes
) -> bytes:
    header, tensors = unpack(body)
    memories = by_number(tensors)
    sums = [
        evaluate(
            algorithm,
            job.shared,
            memories.get(client, {}),
            population.test,
            job.env(task, client),
            population.test_groups,
            first,
            last,
        )
        for first, last, client in header["shards"]
    ]
    return pack({"sums": [found.plain() for found in sums]}, {})


def visit_request(
    stacks: Sequence[Sequence[ClientId]], memories: Mapping[ClientId, Tensors]
) -> bytes:
    """The request to visit clients, stack by stack, carrying what they keep."""
    kept = {client: memories[client] for stack in stacks for client in stack if client in memories}
    return VISIT + pack({"stacks": [list(stack) for stack in stacks]}, numbered(kept))


def evaluation_request(shards: Sequence[Shard], memories: Mapping[ClientId, Tensors]) -> bytes:
    """The request to test on shards of the server's examples, carrying what their clients keep."""
    kept = {client: memories[client] for _, _, client in shards if client is not None}
    return EVALUATE + pack({"shards": shards}, numbered(kept))
