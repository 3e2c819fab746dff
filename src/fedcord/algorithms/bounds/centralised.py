"""All data in one place: what could be learnt if nothing had to stay where it is.

Reference: none; it is the ceiling that federated methods with the same network are measured by.

Travels: up, once, every training example with its class; down the list of who has sent. Stays: the
model at the server, and nothing at clients. It is for simulations: over sites it is refused.

| symbol | here |
|---|---|
| the client's examples, by class | `inputs`, as many of each class as `class_count` says |
| passes over all data in a round | `local.epochs`, as a client's |

Labels are not sent: examples come sorted by class, and the counts tell where each begins.

Deviations: none. The server trains in every round on all examples it has by then, so there is a
curve. With `participation` below 1 it has those of clients that were asked so far.

Limits: one client is FedAvg with that client, up to the order in which examples are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_model, network_predictor
from fedcord.core.contract import (
    METRIC,
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

INPUTS, COUNT, GATHERED = "inputs", "class_count", "gathered"


@dataclass(frozen=True)
class Centralised:
    """Training on everybody's examples."""

    local: LocalSGD = param(LocalSGD(), "how the server trains")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return Traits(looks_through_network=unchanged, gathers_examples=True)

    def review(self, task: Task) -> Review:
        """What training needs."""
        return self.local.review(task)

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, and nobody's examples."""
        nobody = torch.zeros(0, dtype=torch.int64)
        return ServerState(shared={GATHERED: nobody}, result=first_model(env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Examples, as many as there are of each class."""
        task = env.task
        return {
            COUNT: TensorSpec((task.num_classes,), torch.int64),
            INPUTS: TensorSpec((0, *task.input_shape), task.input_dtype, rows_sum_of=COUNT),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """All training examples sorted by class, or none where the server has them already."""
        has_sent = env.client in shared[GATHERED].tolist()
        labels = data.train.labels[:0] if has_sent else data.train.labels
        sent = {
            COUNT: torch.bincount(labels, minlength=env.task.num_classes),
            INPUTS: data.train.inputs[torch.argsort(labels, stable=True)],
        }
        return ClientResult(Update(sent, weight=len(data.train)))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Keep what has arrived, and train on all there is."""
        gathered = set(state.shared[GATHERED].tolist())
        held = {n: t for n, t in state.private.items() if not n.startswith(METRIC)}
        for client, update in updates:
            if client not in gathered:
                gathered.add(client)
                held |= prefixed(str(client), update.tensors)
        everybody = sorted(gathered)
        everything = _pooled(held, everybody, env)
        trained = train_received(self.local, state.result, [everything], [env])[0].update
        metrics = {f"{METRIC}.{n}": torch.tensor(v) for n, v in trained.metrics.items()}
        shared = {GATHERED: torch.tensor(everybody)}
        return state.next(shared, {**held, **metrics}, result=trained.tensors)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The model's class scores and features."""
        return network_predictor(env.task.held_network(select(shared, MODEL), env.client))


def _pooled(held: Mapping[str, Tensor], clients: list[int], env: Env) -> ClientData:
    """Everybody's examples, by client and class."""
    classes = torch.arange(env.task.num_classes)
    inputs = torch.cat([held[f"{client}.{INPUTS}"] for client in clients])
    labels = torch.cat([classes.repeat_interleave(held[f"{k}.{COUNT}"]) for k in clients])
    nothing = Examples(inputs[:0], labels[:0])
    return ClientData(Examples(inputs, labels), nothing, nothing)
