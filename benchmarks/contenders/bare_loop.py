"""The loop one would write by hand for this very experiment, with the best settings found.

Nothing is checked, recorded or general here: it is the cost of the arithmetic. Variants are ways to
take a step: `fused` (torch.optim.SGD), `foreach` (autograd.grad and one call for all weights).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from meter import RoundLog
from networks import load_weights, tuned_network
from torch import Tensor, nn
from torch.nn import functional as F
from workload import BATCH_SIZE, LEARNING_RATE, NUM_CLIENTS, Workload, batch_stream

from contenders.entry import accuracy_of, read_order, report

EVALUATION_BATCH = 250

Step = Callable[[Tensor, Tensor], None]


def fused_step(network: nn.Module) -> Step:
    """Backward pass into .grad and PyTorch's fused SGD."""
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, fused=True)

    def step(inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(network(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def foreach_step(network: nn.Module) -> Step:
    """Gradients as values, and one addition over all weights without an optimiser object."""
    parameters = list(network.parameters())

    def step(inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(network(inputs), labels)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-LEARNING_RATE)

    return step


STEPS = {"fused": fused_step, "foreach": foreach_step}


def train_round(
    network: nn.Module,
    weights: list[Tensor],
    clients: list[tuple[Tensor, Tensor]],
    round_: int,
    variant: str,
) -> list[Tensor]:
    """All clients from the same weights; returns the weighted mean."""
    total = sum(len(labels) for _, labels in clients)
    mean = [torch.zeros_like(weight) for weight in weights]
    parameters = list(network.parameters())
    for client, (inputs, labels) in enumerate(clients):
        load_weights(network, weights)
        step = STEPS[variant](network)
        order = torch.randperm(len(labels), generator=batch_stream(round_, client))
        for batch in order.split(BATCH_SIZE):
            step(inputs[batch], labels[batch])
        with torch.no_grad():
            torch._foreach_add_(mean, parameters, alpha=len(labels) / total)
    return mean


def evaluate(network: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Accuracy in batches that stay in the cache."""
    with torch.inference_mode():
        scores = torch.cat([network(batch) for batch in inputs.split(EVALUATION_BATCH)])
    return accuracy_of(scores, labels)


def load(workload: Workload) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """All clients and the test set, in plain memory."""
    clients = [workload.client(client) for client in range(NUM_CLIENTS)]
    test_inputs, test_labels = workload.test()
    return (
        [(inputs.clone(), labels.clone()) for inputs, labels in clients],
        (test_inputs.clone(), test_labels.clone()),
    )


def main() -> None:
    order = read_order()
    clients, test = load(order.workload)
    network = tuned_network(order.workload.name)
    if order.workload.name == "W1":  # one channel: the layout differs in name only, at no cost
        clients = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in clients]
        test = (test[0].contiguous(memory_format=torch.channels_last), test[1])
    weights = order.workload.first_weights()
    log = RoundLog()
    log.start()
    for round_ in range(order.rounds):
        weights = train_round(network, weights, clients, round_, order.variant)
        log.trained()
        load_weights(network, weights)
        log.evaluated(evaluate(network, *test))
    report(order, log, weights)


if __name__ == "__main__":
    main()
