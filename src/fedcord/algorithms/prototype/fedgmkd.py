"""Clients distil class prototypes and soft predictions; the server trusts odd clients less.

Reference: Zhang, Shan and Han, "FedGMKD: An Efficient Prototype Federated Learning Framework
through Knowledge Distillation and Discrepancy-Aware Aggregation", NeurIPS 2024.

Travels: down a prototype and a soft prediction for each class anyone has had; up the same for each
class the client holds, with numbers of examples per class; with `exchange = "both"` the model too.
Stays: the client's model, with `exchange = "prototypes"`.

| paper | here |
|---|---|
| r_{k,c}, R_c | `proto.mean` sent up, sent down |
| s_{k,c}, S_c (temperature T) | `soft.mean` sent up, sent down; `temperature` |
| λ, γ | `distillation_weight`, `prototype_weight` |
| CKF (Gaussian mixtures) | `local_knowledge`; `use_gmm` |
| DAT: A, B of models | `model_strength`, `model_offset` |
| DAT: A', B' of knowledge | `knowledge_strength`, `knowledge_offset` |

Deviations. From the paper: the mixture's mean is the mean of the class, so it is computed as such;
`use_gmm` fits the mixture all the same. The authors add noise of strength 0; there is none here.
Gradients are not clipped, as in other methods here (the authors': `local.clip = 1.1`, with Adam).
From the authors' code: prototypes are taken back from the standardised space, where all are zero;
n_k is a fraction of all examples (`dat_counts = "raw"` is theirs), since beside numbers of
examples the discrepancy cannot be seen; each class and each kind of knowledge has weights of its
own, over the clients that hold the class; no example is dropped. Their loop extracts knowledge at
the start of a round from the models trained in the round before, and uses it in that round; here
it is extracted after training and sent with the update, which is the same knowledge at the same
time for the same bytes.

Limits: with λ = γ = 0 it is local training, or FedAvg bit for bit with `exchange = "both"` and
`model_strength = model_offset = 0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.class_means import class_means, dense_rows, present_rows
from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.prototype.diagnostics import measure
from fedcord.algorithms.prototype.discrepancy import (
    aware_weights,
    knowledge_discrepancy,
    label_discrepancy,
)
from fedcord.algorithms.prototype.exchange import (
    BY_CLASSIFIER,
    BY_PROTOTYPES,
    EXCHANGE,
    EXCHANGES,
    ExchangesPrototypes,
    Upload,
    mean_model,
    without_model,
)
from fedcord.algorithms.prototype.local_work import (
    answer,
    classified,
    current_network,
    feature_dims,
    train,
)
from fedcord.algorithms.prototype.mixture import mixture_mean
from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.contract import ClientResult, Env, ServerState, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Network
from fedcord.core.tensors import Tensors, TensorSpec, select
from fedcord.losses.prototypes import prototype_alignment

PRESENT, SOFT = "proto.present", "soft.mean"


@dataclass(frozen=True)
class FedGMKD(ExchangesPrototypes):
    """Knowledge of classes, joined with regard to discrepancies."""

    exchange: str = param("prototypes", EXCHANGE, choices=EXCHANGES)
    distillation_weight: float = param(
        0.06, "pull towards soft predictions (λ)", at_least=0, space=(0.006, 0.6, "log")
    )
    prototype_weight: float = param(
        0.06, "pull towards prototypes (paper: γ)", at_least=0, space=(0.006, 0.6, "log")
    )
    temperature: float = param(0.6, "of soft predictions (paper: T)", above=0)
    model_strength: float = param(0.2, "what label skew costs a model (paper: A)", at_least=0)
    model_offset: float = param(0.2, "what every model has (paper: B)", at_least=0)
    knowledge_strength: float = param(0.4, "what difference costs knowledge (A')", at_least=0)
    knowledge_offset: float = param(0.2, "what all knowledge has (paper: B')", at_least=0)
    dat_counts: str = param(
        "fraction", "a client's size in its weight", choices=("fraction", "raw")
    )
    use_gmm: bool = param(False, "fit mixtures to classes; gives their means, to rounding")
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def rules(self) -> tuple[str, str]:
        """The model answers, in both forms."""
        return BY_CLASSIFIER, BY_PROTOTYPES

    def first_knowledge(self, env: Env) -> ServerState:
        """No knowledge yet."""
        classes, dim = env.task.num_classes, feature_dims(env.task)[0]
        nothing = Knowledge(Prototypes.none(classes, dim), Prototypes.none(classes, classes))
        return ServerState(nothing.tensors())

    def asked_for(self, env: Env) -> dict[str, TensorSpec]:
        """Prototypes, soft predictions and numbers of the client's classes."""
        classes = env.task.num_classes
        return {
            **Prototypes.spec(classes, feature_dims(env.task)[0], torch.int32),
            SOFT: TensorSpec((classes, classes), torch.float32, rows_of=PRESENT),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with the others' knowledge, then one pass for the knowledge to send."""
        network = current_network(shared, memory, env)
        loss = self.local_loss(Knowledge.of(shared), env)
        metrics = train(self.local, network, data, loss, env)
        own = self.local_knowledge(network, data, env)
        return answer(self.traits.keeps_own_models, network, own.tensors(), {}, data, metrics)

    def local_knowledge(self, network: nn.Module, data: ClientData, env: Env) -> Knowledge:
        """Mean feature and mean soft prediction of each class, in evaluation mode."""
        dim, classes = feature_dims(env.task)[0], env.task.num_classes

        def both(network: nn.Module | Network, inputs: Tensor) -> Tensor:
            features = features_of(network, inputs)
            soft = (classified(network, features) / self.temperature).softmax(1)
            return torch.cat([features, soft], dim=1)

        means, counts = class_means(network, data.train, env, both, dim + classes)
        present = counts.to(torch.int32)
        prototypes = means[:, :dim].clone()
        if self.use_gmm:
            generator = env.generator("mixture")
            for label in present.nonzero()[:, 0].tolist():
                inputs = env.task.prepare(data.train.inputs[data.train.labels == label])
                with torch.inference_mode():
                    features = features_of(network, inputs.to(env.task.device)).cpu()
                prototypes[label] = mixture_mean(features, generator)
        return Knowledge(
            Prototypes(prototypes, present), Prototypes(means[:, dim:].clone(), present)
        )

    def local_loss(self, known: Knowledge, env: Env) -> Loss | None:
        """Cross-entropy with both pulls; None when there is nothing to be pulled to."""
        held = known.prototypes.held
        if self.distillation_weight == self.prototype_weight == 0 or not bool(held.any()):
            return None
        fixed = known.prototypes.to(env.task.device)
        rows, soft = fixed.values[fixed.held], known.soft.values[held].to(env.task.device)

        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            features = features_of(network, inputs)
            total = F.cross_entropy(classified(network, features), labels)
            away = prototype_alignment(features, labels, fixed.values, fixed.held)
            # the prototypes are constants, so the distillation reaches the classifier alone
            guess = (classified(network, rows) / self.temperature).log_softmax(1)
            distilled = F.kl_div(guess, soft, reduction="none").mean()  # over all elements
            return total + self.distillation_weight * distilled + self.prototype_weight * away

        return loss

    def read(self, state: ServerState, updates: Updates) -> tuple[Tensors, list[Upload]]:
        """The models' mean by discrepancy-aware weights, which need all clients' sizes first."""
        arrived = sorted(updates, key=lambda pair: pair[0])
        uploads = [without_model(client, update) for client, update in arrived]
        trained = [(upload, u) for upload, (_, u) in zip(uploads, arrived, strict=True) if u.weight]
        if not trained:
            return mean_model(state, iter(())), uploads
        counts = torch.stack([upload.tensors[PRESENT] for upload, _ in trained])
        weights = self._weights(
            [upload for upload, _ in trained],
            label_discrepancy(counts),
            self.model_strength,
            self.model_offset,
        )
        models = (select(update.tensors, MODEL) for _, update in trained)
        return mean_model(state, zip(models, weights.tolist(), strict=True)), uploads

    def learn(self, state: ServerState, uploads: Sequence[Upload], env: Env) -> ServerState:
        """Each class's knowledge is joined over the clients that hold it."""
        before = Knowledge.of(state.shared)
        uploads = [upload for upload in uploads if upload.size > 0]
        if not uploads:
            return state.next(before.tensors())
        sent = [Knowledge.of(upload.tensors) for upload in uploads]
        prototypes = self._join(before.prototypes, [each.prototypes for each in sent], uploads)
        soft = self._join(before.soft, [each.soft for each in sent], uploads)
        tables = [each.prototypes for each in sent]
        private = measure(tables, before.prototypes, prototypes)
        return state.next(Knowledge(prototypes, soft).tensors(), private)

    def known(self, shared: Tensors) -> Prototypes:
        """The global prototypes."""
        return Prototypes.of(shared)

    def _join(
        self, before: Prototypes, tables: Sequence[Prototypes], uploads: Sequence[Upload]
    ) -> Prototypes:
        """The weighted mean of each class; a plain one where there was nothing to differ from."""
        held = torch.stack([table.held for table in tables])  # [K, C]
        values = torch.stack([table.values for table in tables])
        apart = knowledge_discrepancy(before.values, values)  # [K, C]
        weights = held.double()
        for label in (before.held & held.any(0)).nonzero()[:, 0].tolist():
            owners = held[:, label]
            weights[owners, label] = self._weights(
                uploads, apart[:, label], self.knowledge_strength, self.knowledge_offset, owners
            )
        return before.replaced_by(joined(tables, weights))

    def _weights(
        self,
        uploads: Sequence[Upload],
        apart: Tensor,
        strength: float,
        offset: float,
        owners: Tensor | None = None,
    ) -> Tensor:
        sizes = torch.tensor([upload.size for upload in uploads], dtype=torch.float64)
        return aware_weights(sizes, apart, strength, offset, self.dat_counts == "raw", owners)


@dataclass(frozen=True)
class Knowledge:
    """Prototypes [C, D] and soft predictions [C, C] of the same classes."""

    prototypes: Prototypes
    soft: Prototypes

    def tensors(self) -> dict[str, Tensor]:
        """As named tensors; the inverse of `of`."""
        rows = present_rows(self.soft.values, self.prototypes.present)
        return {**self.prototypes.tensors(), SOFT: rows}

    @staticmethod
    def of(tensors: Tensors) -> Knowledge:
        """What `tensors` was made from."""
        prototypes = Prototypes.of(tensors)
        present = prototypes.present
        return Knowledge(prototypes, Prototypes(dense_rows(tensors[SOFT], present), present))
