"""Flower's simulation with two actors of one core: its FedAvg strategy over its message API.

`run_simulation` is used because it is the lightest way in: `flwr run` adds a server process.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from meter import RoundLog
from networks import load_weights, plain_network
from torch import Tensor
from workload import NUM_CLIENTS

from contenders.entry import Order, accuracy_of, read_order, report
from contenders.flower_client import make_client_app

ACTORS = 2
EVALUATION_BATCH = 250


def make_server_app(order: Order) -> ServerApp:
    """Federated averaging with the evaluation on the server."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        torch.set_num_threads(order.threads)
        network = plain_network(order.workload.name)
        load_weights(network, order.workload.first_weights())
        test_inputs, test_labels = order.workload.test()
        log = RoundLog()

        def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord:
            if round_ == 0:
                log.start()
                return MetricRecord({})
            log.trained()
            network.load_state_dict(arrays.to_torch_state_dict())
            with torch.inference_mode():
                scores = torch.cat([network(x) for x in test_inputs.split(EVALUATION_BATCH)])
            accuracy = accuracy_of(scores, test_labels)
            log.evaluated(accuracy)
            return MetricRecord({"accuracy": accuracy})

        result = FedAvg(
            fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=NUM_CLIENTS
        ).start(
            grid,
            ArrayRecord(OrderedDict(network.state_dict())),
            num_rounds=order.rounds,
            evaluate_fn=evaluate,
        )
        weights: list[Tensor] = list(result.arrays.to_torch_state_dict().values())
        report(order, log, weights)

    return app


def main() -> None:
    order = read_order()
    run_simulation(
        server_app=make_server_app(order),
        client_app=make_client_app(order.workload),
        num_supernodes=NUM_CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": ACTORS, "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    main()
