"""How a client's encoder comes about before anything is shared.

| training | the encoder | the client also sends |
|---|---|---|
| objective | as FAFI's and FLARE's clients train it, by prototypes on unit features | prototypes |
| plain | the network and its classifier by cross-entropy: the bits of `ensemble`'s clients | |
| random | the client's own draw, which is not trained: a control | |

With the first two all clients start from the same weights, which follow from the seed; with the
last each client has its own, since equal encoders would count as one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.encoder import encoder_tensors, without_head
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import first_network
from fedcord.algorithms.oneshot.baselines.one_exchange import training_settings
from fedcord.algorithms.oneshot.member import COUNTS, MODEL, PROTOTYPES
from fedcord.algorithms.oneshot.oneshot import OneShot, first_message
from fedcord.algorithms.oneshot.rules import client_review
from fedcord.core.contract import Env, Review, Update, Work
from fedcord.core.examples import ClientData
from fedcord.core.task import Network, Task, tensors_of
from fedcord.core.tensors import TensorSpec, prefixed, select

OBJECTIVE, PLAIN, RANDOM = KINDS = ("objective", "plain", "random")


@dataclass(frozen=True)
class EncoderTraining:
    """One of the three ways.

    Attributes:
        kind: which.
        clients: the one-shot method whose clients train by an objective.
        plain: how clients train plainly.
    """

    kind: str
    clients: OneShot
    plain: LocalSGD

    def review(self, task: Task) -> Review:
        """What the parts say, also those that these settings do not use, and what may surprise."""
        found = client_review(self.clients, task) + self.plain.review(task)
        if self.kind != RANDOM:
            return found
        note = "training = 'random': encoders are as they were drawn; this is a control."
        return found + Review(notes=(note,))

    def extra_spec(self, env: Env) -> dict[str, TensorSpec]:
        """What is sent beside the encoder and class counts."""
        if self.kind != OBJECTIVE:
            return {}
        width = cast(Network, env.task.scratch_network(env.client)).feature_dim
        return {PROTOTYPES: TensorSpec((env.task.num_classes, width), torch.float32)}

    def work(self, env: Env) -> Work | None:
        """What decides the training; None where there is none to save."""
        here = _first_place(env)
        if self.kind == OBJECTIVE:
            return self.clients.work(first_message(here, here.client), here)
        if self.kind == PLAIN:
            return Work(training_settings(self.plain, sent="encoder"), _plain_start(here))
        return None

    def trained(self, data: ClientData, env: Env) -> Update:
        """A client's encoder as `model.*`, its class counts, and `extra_spec`."""
        here = _first_place(env)
        if self.kind == OBJECTIVE:
            start = first_message(here, here.client)
            return self.clients.client_update(start, {}, data, here).update
        counts = torch.bincount(data.train.labels, minlength=env.task.num_classes).float()
        if self.kind == PLAIN:
            (done,) = train_received(self.plain, _plain_start(here), [data], [here])
            network = here.task.scratch_network(here.client)
            encoder = without_head(select(done.update.tensors, MODEL), network)
            metrics = done.update.metrics
        else:
            drawn = env.task.initial_network(here.generator("init"), here.client)
            encoder, metrics = encoder_tensors(drawn), {}
        tensors = {**prefixed(MODEL, encoder), COUNTS: counts}
        return Update(tensors, len(data.train), metrics)


def _first_place(env: Env) -> Env:
    """A client's place in the one exchange of a one-shot method."""
    return dataclasses.replace(env, round=0, num_rounds=1)


def _plain_start(env: Env) -> dict[str, Tensor]:
    """The first model of the client's architecture, the same for all who have it."""
    return prefixed(MODEL, tensors_of(first_network(env)))
