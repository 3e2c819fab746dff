"""The client of the Flower contender, in a module that its actors can import."""

from __future__ import annotations

import functools

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from networks import plain_network
from torch import nn
from torch.nn import functional as F
from workload import BATCH_SIZE, LEARNING_RATE, Workload, batch_stream


@functools.cache
def _network(workload: str) -> nn.Module:
    """One per process: an actor lives through all rounds."""
    return plain_network(workload)


def make_client_app(workload: Workload) -> ClientApp:
    """Plain local training, batches drawn as everybody draws them here."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        client = int(context.node_config["partition-id"])
        round_ = int(message.content["config"]["server-round"]) - 1
        inputs, labels = workload.client(client)
        network = _network(workload.name)
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
        shuffled = torch.randperm(len(labels), generator=batch_stream(round_, client))
        for batch in shuffled.split(BATCH_SIZE):
            loss = F.cross_entropy(network(inputs[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        content = RecordDict(
            {
                "arrays": ArrayRecord(network.state_dict()),
                "metrics": MetricRecord({"num-examples": len(labels)}),
            }
        )
        return Message(content, reply_to=message)

    return app
