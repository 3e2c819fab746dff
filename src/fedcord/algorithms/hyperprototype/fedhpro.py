"""Clients contrast their features with vectors the server fits to the clients' own gradients.

Reference: Wang et al., "FedHPro: Federated Hyper-Prototype Learning via Gradient Matching", ICML
2026 (arXiv 2605.13475), known to us in part, and the authors' public code; where they differ, the
defaults follow the paper and `fedhpro-reference` the code.

Travels: down the model and hyper-prototypes [C, M, D]; up the model, the number of examples, one
gradient [D] for each class the client holds and, for re-training, the classifier's gradients of
those classes. Stays: nothing at clients; the meta features of re-training on the server.

| paper | here |
|---|---|
| M, u_{c,m} | `num_prototypes`, `hyper.prototypes` |
| g_k^c | `signal.gradient`, from the received model before training |
| L_GM | `matching` |
| HPCL, HPAL, τ, d_k, λ_c, λ_a | `objective` |
| h* | the re-trained classifier, `retraining` |

A round: clients extract gradients, then train. The server averages models, re-trains the
classifier, and moves hyper-prototypes. `source = "prototypes"` is the falsification test: clients
send the class means of the same draws in place of gradients, and every hyper-prototype of a class
becomes their mean; all else is the same.

Deviations from the code: clients' models are copies, so that the average is one; margin once per
round in evaluation mode; the received classifier induces all client gradients; private random
streams; no unused projection head. The page docs/algorithms/fedhpro.md lists them all.

Limits: without both weights and re-training it is FedAvg, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.hyperprototype.diagnostics import (
    as_private,
    hyper_metrics,
    matching_metrics,
)
from fedcord.algorithms.hyperprototype.extraction import ClassSignal, Extraction
from fedcord.algorithms.hyperprototype.matching import Matching
from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.algorithms.hyperprototype.owners import OwnerMean
from fedcord.algorithms.hyperprototype.retraining import Retraining
from fedcord.algorithms.kit.class_means import class_means, present_rows
from fedcord.algorithms.kit.linear_head import Head, head_of, head_problem, with_head
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    first_model,
    model_spec,
    model_update,
    received_model,
)
from fedcord.core.contract import ClientResult, Env, Review, ServerState, Update, Updates
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

HYPER, META = "hyper.prototypes", "meta.features"
PRESENT = "signal.present"
HEAD_WEIGHT, HEAD_BIAS = "signal.head_weight", "signal.head_bias"
SIGNALS = {"gradients": "signal.gradient", "prototypes": "signal.prototype"}


@dataclass(frozen=True)
class FedHPro(AveragesModels):
    """Federated learning with gradient-matched hyper-prototypes."""

    num_prototypes: int = param(5, "hyper-prototypes per class (paper: M)", at_least=1)
    source: str = param("gradients", "what hyper-prototypes are made from", choices=tuple(SIGNALS))
    extraction: Extraction = param(Extraction(), "how clients draw their gradients")
    objective: HyperObjective = param(HyperObjective(), "what clients minimise")
    matching: Matching = param(Matching(), "how the server moves hyper-prototypes")
    retraining: Retraining = param(Retraining(), "how the server re-trains the classifier")
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """What local training needs, and a classifier whose gradients are known."""
        problem = head_problem(task.scratch_network(), "fedhpro")
        found = Review() if problem is None else Review(errors=(problem,))
        return review_of_parts(self, task) + found

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, and normal hyper-prototypes and meta features."""
        shared = {**first_model(env), HYPER: self._first_prototypes(env)}
        if not self.retraining.enabled:
            return ServerState(shared)
        shape = (env.task.num_classes, self.retraining.vectors, _feature_dim(env))
        vectors = torch.randn(shape, generator=env.generator("meta-features"))
        return ServerState(shared, private={META: vectors})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model like the one sent, and a row of each signal for every class held."""
        classes, dim = env.task.num_classes, _feature_dim(env)
        rows: dict[str, tuple[int, ...]] = {SIGNALS[self.source]: (classes, dim)}
        if self.retraining.enabled:
            rows |= {HEAD_WEIGHT: (classes, classes, dim), HEAD_BIAS: (classes, classes)}
        return {
            **model_spec(shared),
            PRESENT: TensorSpec((classes,), torch.bool),
            **{n: TensorSpec(shape, torch.float32, rows_of=PRESENT) for n, shape in rows.items()},
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The signal of the received model, then local training."""
        signal = self.extraction.extract(
            received_model(shared, env),
            head_of(shared, env),
            data.train,
            env,
            with_head=self.retraining.enabled,
        )
        update = self._train(shared, data, env)
        return ClientResult(replace(update, tensors={**update.tensors, **self._sent(signal)}))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The mean model, a new classifier, and moved hyper-prototypes."""
        heard: dict[str, OwnerMean] = {}
        shared: Tensors = self.combine.join(self._hear(updates, heard, env), state.shared)
        broadcast, private = head_of(state.shared, env), {}
        if self.retraining.enabled:
            vectors, head = self._retrain(state.private[META], heard, broadcast, env)
            shared, private = with_head(shared, head, env), {META: vectors}
        signal = heard[SIGNALS[self.source]]
        used = broadcast if self.matching.classifier == "broadcast" else head_of(shared, env)
        hyper, metrics = self._move(state.shared[HYPER], signal, used)
        metrics |= hyper_metrics(hyper, self._first_prototypes(replace(env, round=0)))
        consistency = signal.consistency()
        if consistency is not None:
            metrics["consistency"] = consistency
        return state.next({**shared, HYPER: hyper}, {**private, **as_private(metrics)})

    def prototypes(self, shared: Tensors) -> Tensor | None:
        """The hyper-prototypes."""
        return shared[HYPER]

    def _first_prototypes(self, env: Env) -> Tensor:
        """[C, M, D] of round 0; drawn again whenever needed instead of being kept."""
        shape = (env.task.num_classes, self.num_prototypes, _feature_dim(env))
        return torch.randn(shape, generator=env.generator("hyper-prototypes"))

    def _train(self, shared: Tensors, data: ClientData, env: Env) -> Update:
        if self.objective.is_plain:
            model = prefixed(MODEL, select(shared, MODEL))
            return FedAvg(self.local).client_update(model, {}, data, env).update
        network, margin = received_model(shared, env), 0.0
        if self.objective.has_margin:
            means, _ = class_means(network, data.train, env)
            margin = self.objective.client_margin(means)
        loss = self.objective.loss(shared[HYPER].to(env.task.device), margin)
        metrics = self.local.train(network, data.train, loss, env)
        return model_update(network, data, {**metrics, "margin": margin})

    def _sent(self, signal: ClassSignal) -> dict[str, Tensor]:
        """What of the signal travels: rows of classes the client holds."""
        of_source = {"gradients": signal.gradient, "prototypes": signal.prototype}
        rows = {
            SIGNALS[self.source]: of_source[self.source],
            HEAD_WEIGHT: signal.head_weight,
            HEAD_BIAS: signal.head_bias,
        }
        sent = {n: present_rows(t, signal.present) for n, t in rows.items() if t is not None}
        return {PRESENT: signal.present, **sent}

    def _hear(self, updates: Updates, heard: dict[str, OwnerMean], env: Env) -> Updates:
        """Models alone, while signals are collected on the way."""
        for client, update in updates:
            for name, rows in update.tensors.items():
                if name.startswith("signal.") and name != PRESENT:
                    own = heard.setdefault(name, OwnerMean(env.task.num_classes))
                    own.add(rows, update.tensors[PRESENT])
            yield client, replace(update, tensors=prefixed(MODEL, select(update.tensors, MODEL)))

    def _retrain(
        self, vectors: Tensor, heard: Mapping[str, OwnerMean], head: Head, env: Env
    ) -> tuple[Tensor, Head]:
        weights, biases = heard[HEAD_WEIGHT], heard[HEAD_BIAS]
        fitted = self.retraining.fit_vectors(
            vectors, weights.mean(), biases.mean(), weights.num_owners > 0, head
        )
        return fitted, self.retraining.train(fitted, env)

    def _move(
        self, hyper: Tensor, signal: OwnerMean, head: Head
    ) -> tuple[Tensor, dict[str, float]]:
        """The next hyper-prototypes [C, M, D], and what the log says about the way there."""
        owned = signal.num_owners > 0
        if self.source == "prototypes":
            means = signal.mean()[:, None].expand_as(hyper)
            return torch.where(owned[:, None, None], means, hyper), {}
        per_vector = self.extraction.scale == "reference"
        matched = self.matching.fit(hyper, signal.mean(), owned, head, per_vector)
        return matched.hyper, matching_metrics(matched)


def _feature_dim(env: Env) -> int:
    return int(env.task.scratch_network().feature_dim)  # type: ignore[arg-type]
