"""fedcord's round loop. Variants: `sequential`, and `processes` with two workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meter import RoundLog
from workload import SEED, fedcord_experiment

from contenders.entry import read_order, report
from fedcord.core.contract import ClientId, Env, ServerState
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.memory import keep_freed_memory
from fedcord.engine.processes import ProcessesExecutor
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.sequential import SequentialExecutor
from fedcord.engine.visit import Answer, Executor, Job

WORKERS = 2


class Watched:
    """An executor that tells the log when training ends and evaluation begins."""

    def __init__(self, inner: Executor, log: RoundLog) -> None:
        self.memories = inner.memories
        self._inner, self._log = inner, log

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        return self._inner.map_clients(job, clients)

    def evaluate(self, job: Job) -> Evaluation:
        self._log.trained()
        return self._inner.evaluate(job)

    def close(self) -> None:
        self._inner.close()


def main() -> None:
    order = read_order()
    keep_freed_memory()  # as `fedcord run` does
    experiment = fedcord_experiment(order.workload.name, order.fraction, order.rounds)
    inner: Executor
    if order.variant == "processes":
        inner = ProcessesExecutor(experiment.blueprint, experiment.population, WORKERS)
    else:
        inner = SequentialExecutor(experiment.algorithm, experiment.task, experiment.population)
    log = RoundLog()
    executor = Watched(inner, log)
    env = Env(experiment.task, SEED, num_rounds=order.rounds)
    sizes = experiment.population.train_sizes
    eligible = [client for client, size in enumerate(sizes) if size > 0]

    def on_round(state: ServerState, record: RoundRecord) -> None:
        assert record.evaluation is not None
        log.evaluated(record.evaluation.accuracy)

    state = experiment.algorithm.init(env)
    schedule = Schedule(order.rounds, lambda round_: eligible, threads=order.threads)
    log.start()
    try:
        state = run_rounds(experiment.algorithm, executor, env, state, schedule, on_round)
        names = experiment.task.scratch_network().state_dict()
        report(order, log, [state.shared[f"model.{name}"] for name in names])
    finally:
        executor.close()


if __name__ == "__main__":
    main()
