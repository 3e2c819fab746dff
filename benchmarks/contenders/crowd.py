"""Many small clients: three rounds with 1 % (to warm up), 1 % and all of them.

`python -m contenders.crowd ENGINE OPTIMIZER CLIENTS` prints what the last two rounds cost. Engines
are `sequential`, `processes`, and `bare`, a hand-written loop of the same arithmetic. With `sgd`
fedcord trains such networks stacked; with `adam` it cannot, and every visit pays its full price.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from meter import RoundLog
from networks import load_weights
from torch import nn
from torch.nn import functional as F
from workload import BATCH_SIZE, LEARNING_RATE, SEED, batch_stream

from contenders.bare_loop import foreach_step
from contenders.entry import MARK
from contenders.fedcord_engine import Watched, transport_of
from fedcord.core.contract import Env, ServerState
from fedcord.engine.federation import Federation
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.sampling import sample_clients

SAMPLES_PER_CLIENT = 50
SHARES = (0.01, 0.01, 1.0)


def experiment_of(clients: int, optimizer: str) -> Any:
    """A small MLP on generated vectors, every client with its own rows."""
    from fedcord.experiment.build import build_experiment
    from fedcord.experiment.load import load_config

    local = {"lr": LEARNING_RATE, "batch_size": BATCH_SIZE, "optimizer": optimizer}
    return build_experiment(
        load_config(
            {
                "algorithm": "fedavg",
                "dataset": f"synthetic?samples={clients * SAMPLES_PER_CLIENT}&clients={clients}",
                "partition": "natural:client",
                "clients": clients,
                "rounds": len(SHARES),
                "model": ("mlp:64",),
                "seed": SEED,
                "validation": 0.0,
                "test": 0.0,
                "params": {"local": local},
            }
        )
    )


def participants(round_: int, clients: int) -> list[int]:
    """Who is visited in a round."""
    count = max(1, round(SHARES[round_] * clients))
    return list(sample_clients(SEED, round_, list(range(clients)), count))


def run_bare(experiment: Any, optimizer: str, log: RoundLog) -> None:
    """The same visits by hand."""
    population = experiment.population
    network: nn.Module = experiment.task.initial_network(
        Env(experiment.task, SEED).generator("init")
    )
    parameters = list(network.parameters())
    weights = [parameter.detach().clone() for parameter in parameters]
    log.start()
    for round_ in range(len(SHARES)):
        visited = participants(round_, population.num_clients)
        mean = [torch.zeros_like(weight) for weight in weights]
        for client in visited:
            load_weights(network, weights)
            start, stop = population.bounds[client, :2].tolist()
            inputs, labels = population.inputs[start:stop], population.labels[start:stop]
            order = torch.randperm(stop - start, generator=batch_stream(round_, client))
            if optimizer == "sgd":
                step = foreach_step(network)
                for batch in order.split(BATCH_SIZE):
                    step(inputs[batch], labels[batch])
            else:
                adam = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
                for batch in order.split(BATCH_SIZE):
                    loss = F.cross_entropy(network(inputs[batch]), labels[batch])
                    adam.zero_grad(set_to_none=True)
                    loss.backward()
                    adam.step()
            with torch.no_grad():
                torch._foreach_add_(mean, parameters, alpha=1 / len(visited))
        weights = mean
        log.trained()
        log.evaluated(0.0)


def run_fedcord(experiment: Any, engine: str, log: RoundLog) -> None:
    """The same visits by an engine."""
    transport = Watched(transport_of(experiment, engine), log)
    federation = Federation(transport)
    env = Env(experiment.task, SEED, num_rounds=len(SHARES))
    clients = experiment.population.num_clients
    schedule = Schedule(len(SHARES), lambda round_: participants(round_, clients))

    def on_round(state: ServerState, record: RoundRecord) -> None:
        assert record.evaluation is not None
        log.evaluated(record.evaluation.accuracy)

    state = experiment.algorithm.init(env)
    log.start()
    try:
        run_rounds(experiment.algorithm, federation, env, state, schedule, on_round)
    finally:
        transport.close()


def main() -> None:
    engine, optimizer, clients = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    experiment = experiment_of(clients, optimizer)
    log = RoundLog()
    if engine == "bare":
        run_bare(experiment, optimizer, log)
    else:
        run_fedcord(experiment, engine, log)
    few, everyone = log.rounds[1:]
    visits = [max(1, round(share * clients)) for share in SHARES[1:]]
    rows = experiment.population.inputs.nbytes + experiment.population.labels.nbytes
    found = {"few": few, "all": everyone, "visits": visits, "data_bytes": rows}
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
