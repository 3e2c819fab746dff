"""fedcord's round loop. Variants: `sequential`, and `processes` with two workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meter import RoundLog
from workload import SEED, fedcord_experiment

from contenders.entry import read_order, report
from fedcord.core.contract import Env, ServerState
from fedcord.engine.federation import Federation
from fedcord.engine.memory import keep_freed_memory
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.requests import Parcel, Request
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.transport import Delivery, Transport
from fedcord.engine.transports.processes import ProcessesTransport
from fedcord.engine.transports.sequential import SequentialTransport

WORKERS = 2


class Watched:
    """A transport that tells the log when training ends and evaluation begins."""

    def __init__(self, inner: Transport, log: RoundLog) -> None:
        self.nodes = inner.nodes
        self._inner, self._log = inner, log

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        if request.verb == "evaluate":
            self._log.trained()
        return self._inner.exchange(request, parcels, deadline)

    def close(self) -> None:
        self._inner.close()


def transport_of(experiment: Any, engine: str) -> Transport:
    """Two workers, or a node in this process."""
    if engine == "processes":
        return ProcessesTransport(experiment.blueprint, experiment.population, WORKERS)
    built = experiment.algorithm, experiment.task, experiment.population, InProcessMemory()
    return SequentialTransport(ClientNode(*built))


def main() -> None:
    order = read_order()
    keep_freed_memory()  # as `fedcord run` does
    experiment = fedcord_experiment(order.workload.name, order.fraction, order.rounds)
    log = RoundLog()
    transport = Watched(transport_of(experiment, order.variant), log)
    federation = Federation(transport)
    env = Env(experiment.task, SEED, num_rounds=order.rounds)
    eligible = [client for client, member in federation.members.items() if member.train > 0]

    def on_round(state: ServerState, record: RoundRecord) -> None:
        assert record.evaluation is not None
        log.evaluated(record.evaluation.accuracy)

    state = experiment.algorithm.init(env)
    schedule = Schedule(order.rounds, lambda round_: eligible, threads=order.threads)
    log.start()
    try:
        state = run_rounds(experiment.algorithm, federation, env, state, schedule, on_round)
        names = experiment.task.scratch_network().state_dict()
        report(order, log, [state.shared[f"model.{name}"] for name in names])
    finally:
        transport.close()


if __name__ == "__main__":
    main()
