"""Apple's pfl: its FederatedAveraging on its SimulatedBackend.

Variants: empty for one process; `torchrun` when started by torchrun with two processes, which is
how pfl spreads clients over workers. Client examples are shuffled before each visit, since pfl
reads them in the order given. Evaluation of the clients before and after training, its default, is
left out after the warm-up round: nobody else does it.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from meter import RoundLog
from networks import load_weights, plain_network
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, StringMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F
from workload import BATCH_SIZE, LEARNING_RATE, batch_stream

from contenders.bare_loop import load
from contenders.entry import read_order, report

EVALUATION_BATCH = 250
ACCURACY = StringMetricName("Central val | accuracy")


class Trained(nn.Module):
    """The network with the two methods pfl calls."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.network(inputs), labels)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Weighted]:
        hits = int((self.network(inputs).argmax(1) == labels).sum())
        return {"accuracy": Weighted(hits, len(labels))}


class Before(TrainingProcessCallback):
    """Runs ahead of the evaluation: training has ended."""

    def __init__(self, log: RoundLog) -> None:
        self.log = log

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.log.trained()
        return False, Metrics()


class Evaluation(CentralEvaluationCallback):
    """pfl's own, after every round instead of before the first, and the log is told."""

    def __init__(self, log: RoundLog, *given: Any) -> None:
        super().__init__(*given)
        self.log = log

    def on_train_begin(self, *, model: Any) -> Metrics:
        self.log.start()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        stop, metrics = self._eval(model)
        self.log.evaluated(float(metrics[ACCURACY].overall_value))
        return stop, metrics


def main() -> None:
    order = read_order()
    is_first = os.environ.get("RANK", "0") == "0"
    clients, test = load(order.workload)
    log = RoundLog(os.getppid() if order.variant == "torchrun" else os.getpid())

    def make_dataset(client: int) -> PyTorchTensorDataset:
        inputs, labels = clients[client]
        shuffled = torch.randperm(len(labels), generator=batch_stream(len(log.rounds), client))
        return PyTorchTensorDataset((inputs[shuffled], labels[shuffled]), user_id=str(client))

    users = [client for client, (_, labels) in enumerate(clients) if len(labels)]
    network = plain_network(order.workload.name)
    load_weights(network, order.workload.first_weights())
    model = PyTorchModel(
        Trained(network),
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    train_data = FederatedDataset(
        make_dataset,
        get_user_sampler("minimize_reuse", users),
        user_id_to_weight={client: len(clients[client][1]) for client in users},
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=order.rounds,
            evaluation_frequency=10**6,
            train_cohort_size=len(users),
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(train_data, train_data, postprocessors=[WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=BATCH_SIZE
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=EVALUATION_BATCH),
        callbacks=[
            Before(log),
            Evaluation(
                log,
                PyTorchTensorDataset(test),
                NNEvalHyperParams(local_batch_size=EVALUATION_BATCH),
            ),
        ],
    )
    if is_first:
        report(order, log, list(network.parameters()))


if __name__ == "__main__":
    main()
