"""Clients one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.engine.evaluation import Evaluation, evaluate
from fedcord.engine.population import Population
from fedcord.engine.visit import Answer, Job, remember, stacks, visit


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
        """The shared model on the server's test set."""
        test, groups = self._population.test, self._population.test_groups
        env = job.env(self._task)
        return evaluate(self._algorithm, job.shared, {}, test, env, groups)

    def close(self) -> None:
        """Nothing to release."""
