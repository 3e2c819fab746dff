"""The loop found in most research code: a DataLoader, a plain network, a plain optimiser."""

from __future__ import annotations

import torch
from meter import RoundLog
from networks import load_weights, plain_network
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from workload import BATCH_SIZE, LEARNING_RATE, batch_stream

from contenders.bare_loop import load
from contenders.entry import read_order, report


def main() -> None:
    order = read_order()
    clients, test = load(order.workload)
    test_loader = DataLoader(TensorDataset(*test), batch_size=BATCH_SIZE)
    network = plain_network(order.workload.name)
    weights = order.workload.first_weights()
    total = order.workload.num_train
    log = RoundLog()
    log.start()
    for round_ in range(order.rounds):
        mean = [torch.zeros_like(weight) for weight in weights]
        for client, data in enumerate(clients):
            if not len(data[1]):
                continue
            load_weights(network, weights)
            optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
            shuffled = torch.randperm(len(data[1]), generator=batch_stream(round_, client))
            loader = DataLoader(TensorDataset(*data), BATCH_SIZE, sampler=shuffled.tolist())
            for inputs, labels in loader:
                loss = F.cross_entropy(network(inputs), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for sum_, parameter in zip(mean, network.parameters(), strict=True):
                    sum_ += parameter * (len(data[1]) / total)
        weights = mean
        log.trained()
        load_weights(network, weights)
        correct = 0
        with torch.no_grad():
            for inputs, labels in test_loader:
                correct += int((network(inputs).argmax(1) == labels).sum())
        log.evaluated(correct / len(test[1]))
    report(order, log, weights)


if __name__ == "__main__":
    main()
