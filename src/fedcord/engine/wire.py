"""The strict engine for tests: only bytes cross, and nothing survives a call.

Each visit gets the job and the client's memory as bytes, rebuilds algorithm and task from plain
values, works, and answers in bytes; the clients are visited in a shuffled order. An algorithm that
gives the same bits here as in the sequential engine hides no state and can be deployed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from fedcord.core.contract import ClientId
from fedcord.core.rng import numpy_generator
from fedcord.core.tensors import Tensors, decode, encode
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.messages import pack_answer, pack_job, unpack_answer, unpack_job
from fedcord.engine.population import Population
from fedcord.engine.visit import Answer, Job, evaluate_on_server, remember, visit


class WireExecutor:
    """Reaches clients as a network would, within this process."""

    def __init__(self, blueprint: Blueprint, population: Population) -> None:
        self.memories: dict[ClientId, Tensors] = {}
        self._blueprint = blueprint.to_json()
        self._population = population

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        """Visit in shuffled order, answer in client order; holds all answers as bytes."""
        request = pack_job(job)
        order = numpy_generator(job.seed, "wire-order", job.round).permutation(len(clients))
        replies = {}
        for client in (clients[i] for i in order.tolist()):
            memory = encode(self.memories.get(client, {}))
            replies[client] = self._visit(request, client, memory)
        for client in clients:
            answer, kept = unpack_answer(replies.pop(client))
            remember(self.memories, client, kept)
            yield client, answer

    def _visit(self, request: bytes, client: ClientId, memory: bytes) -> bytes:
        blueprint = Blueprint.from_json(self._blueprint)
        algorithm, task = blueprint.build_algorithm(), blueprint.build_task()
        memories = {client: decode(memory)}
        visits = visit(algorithm, task, unpack_job(request), [client], memories, self._population)
        _, answer, kept = next(visits)
        return pack_answer(answer, kept)

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model, or clients' own, rebuilt from bytes, on the server's test set."""
        blueprint = Blueprint.from_json(self._blueprint)
        received = unpack_job(pack_job(job))
        kept = {k: decode(encode(self.memories[k])) for k in received.models_of or ()}
        algorithm, task = blueprint.build_algorithm(), blueprint.build_task()
        found = evaluate_on_server(algorithm, task, received, kept, self._population)
        return Evaluation.from_plain(json.loads(json.dumps(found.plain())))

    def close(self) -> None:
        """Nothing to release."""
