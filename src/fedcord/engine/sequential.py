"""Clients one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.population import Population
from fedcord.engine.visit import Answer, Job, evaluate_on_server, remember, stacks, visit


class SequentialExecutor:
    """The plainest way to reach clients."""

    def __init__(self, algorithm: Algorithm, task: Task, population: Population) -> None:
        self.memories: dict[ClientId, Tensors] = {}
        self._algorithm = algorithm
        self._task = task
        self._population = population

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        """Visit clients in order, a small stack at a time where the algorithm allows it."""
        for group in stacks(self._algorithm, self._task, job, clients):
            for client, answer, memory in visit(
                self._algorithm, self._task, job, group, self.memories, self._population
            ):
                remember(self.memories, client, memory)
                yield client, answer

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model, or those of `job.models_of`, on the server's test set."""
        return evaluate_on_server(self._algorithm, self._task, job, self.memories, self._population)

    def close(self) -> None:
        """Nothing to release."""
