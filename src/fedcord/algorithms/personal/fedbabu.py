"""The network's body is federated under a head that never moves; clients fine-tune afterwards.

Reference: Oh et al., "FedBABU: Toward Enhanced Representation for Federated Image Classification",
ICLR 2022 (arXiv 2106.06042).

Travels: down and up the body, and the number of examples; after the last round down the whole
model. Stays: the model fine-tuned for the client.

| paper | here |
|---|---|
| θ_ext, the body | `model.*` that is sent |
| θ_cls, the head, fixed at its start | `model.*` of the result; drawn by clients from the seed |
| τ | `local.epochs` |
| fine-tuning epochs | `finetune_epochs` |
| fine-tuning all, the body or the head | `finetuned` |

Deviations: the learning rate of fine-tuning is `local.lr` (the paper takes the last one of its
schedule).

Limits: in federation the same bits as `fedrep` with head_epochs = 0.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    cross_entropy,
    fine_tune,
    first_network,
    received_model,
)
from fedcord.algorithms.kit.partial_model import (
    head_names,
    shared_part_review,
    without,
)
from fedcord.algorithms.kit.trained_part import PARTS, only_trained
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Review,
    ServerState,
    Traits,
    Update,
)
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task, tensors_of
from fedcord.core.tensors import Tensors, prefixed, select


@dataclass(frozen=True)
class FedBABU(AveragesModels):
    """Federated averaging with body aggregation and body update."""

    finetuned: str = param("all", "what clients fine-tune", choices=PARTS)
    local: LocalSGD = param(LocalSGD(), "how clients train")
    _: KW_ONLY
    finetune_epochs: int = param(
        5, "epochs in which every client trains the final model for itself; 0: none", at_least=0
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds."""
        return replace(self.traits_of_averaging(), sums_suffice=self.combine.needs_only is not None)

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' bodies, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def review(self, task: Task) -> Review:
        """Whether there is a body to train."""
        network = task.scratch_network()
        body = without(network.state_dict(), head_names(network))
        return review_of_parts(self, task) + shared_part_review([body])

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model; its head is sent only when the rounds are over."""
        network = first_network(env)
        head, drawn = head_names(network), tensors_of(network)
        body = without(drawn, head)
        return ServerState(
            prefixed(MODEL, body), result=prefixed(MODEL, without(drawn, body.keys()))
        )

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The body trains under the head that everybody drew."""
        drawn = tensors_of(first_network(env))
        network = env.task.network_with({**drawn, **select(shared, MODEL)}, env.client)
        with only_trained("features", network):
            metrics = self.local.train(network, data.train, cross_entropy, env)
        body = prefixed(MODEL, without(tensors_of(network), head_names(network)))
        return ClientResult(Update(body, len(data.train), metrics))

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The final model after fine-tuning what `finetuned` says."""
        network = received_model(shared, env)
        with only_trained(self.finetuned, network):
            fine_tune(self, network, data, env)
        return {**memory, **prefixed(MODEL, tensors_of(network))}
