"""Federated averaging as one plain script, to be read beside the paper.

    python examples/plain_fedavg.py

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
2017. The library's own version is `src/fedcord/algorithms/averaging/fedavg.py`: the same
arithmetic, without the loop, ready for any engine. A test holds the two to the same weights.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fedcord

NUM_CLIENTS, ROUNDS, BATCH_SIZE, LR = 10, 15, 32, 0.05

Clients = list[tuple[Tensor, Tensor]]  # the images [n, 64] and labels [n] of every client
Shuffle = Callable[[int, int, int], Tensor]  # (round, client, n) to the order of n examples


def load() -> tuple[Clients, Tensor, Tensor]:
    """Digits dealt out to clients who hold very different classes, and the test set."""
    data = fedcord.load_dataset("digits")
    partition = fedcord.make_partition(
        "dirichlet:0.1", data.train.labels, num_classes=10, num_clients=NUM_CLIENTS, seed=0
    )

    def prepare(images: object) -> Tensor:
        return (torch.tensor(images).flatten(1) / 255 - data.mean[0]) / data.std[0]

    images, labels = prepare(data.train.inputs), torch.tensor(data.train.labels)
    clients = [(images[indices], labels[indices]) for indices in partition.clients]
    return clients, prepare(data.test.inputs), torch.tensor(data.test.labels)


def train(model: nn.Module, images: Tensor, labels: Tensor, order: Tensor) -> None:
    """One epoch of SGD at one client."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for batch in order.split(BATCH_SIZE):
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()


def federated_averaging(model: nn.Module, clients: Clients, shuffle: Shuffle) -> None:
    """Every round: all clients train a copy of the model, and the model becomes their mean."""
    total = sum(len(labels) for _, labels in clients)
    for round_ in range(ROUNDS):
        mean = [torch.zeros_like(p) for p in model.parameters()]
        for client, (images, labels) in enumerate(clients):
            local = copy.deepcopy(model)
            train(local, images, labels, shuffle(round_, client, len(labels)))
            for sum_, p in zip(mean, local.parameters(), strict=True):
                sum_ += p.detach() * len(labels) / total
        for p, new in zip(model.parameters(), mean, strict=True):
            p.data = new


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score is their label."""
    return float((model(images).argmax(dim=1) == labels).float().mean())


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    clients, test_images, test_labels = load()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1, generator=generator)
    federated_averaging(
        model, clients, lambda round_, client, n: torch.randperm(n, generator=generator)
    )
    print(f"accuracy {accuracy(model, test_images, test_labels):.3f} after {ROUNDS} rounds")
