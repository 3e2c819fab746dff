"""Federated averaging whose result hides whether any one client took part.

Reference: McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018.

Travels: down the model; up the change of its weights, shortened to the clip, and nothing on the
training. Stays: nothing.

| paper | here |
|---|---|
| S, flat clipping | `privacy.clip` |
| z (σ = z · S / qW) | `privacy.noise` |
| q | `privacy.sampling` |
| w_k = 1, W = K; f̃_f = Σ Δ_k / qW | every client weighs 1; K is who answered |

Each client of a round contributes with chance q, independently of the others; one that does not
sends zeros. The sum of changes gets normal noise of standard deviation z·S: by the server
(`noise_at = "server"`, which is trusted with single changes), or in shares of z·S/√`honest` by the
clients (`"distributed"`, for `--secure`, under which only the sum can be read). It is divided by q
times the number of clients that answered, which counts as public.

Deviations: clients that do not contribute answer zeros where the paper does not ask them; all weigh
the same where the paper allows weights up to a cap. The run's `participation`, a sample of fixed
size, is not counted as sampling: ε holds without it. Statistics of batch normalisation are part of
the change, and noisy variances are kept above zero. The noise comes from the run's seed: for
simulation, not against who knows the seed.

Limits: without noise, with sampling 1 and a clip that nobody reaches it is FedAvg with equal
weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.client_privacy import ClientPrivacy
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_model, network_predictor
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.privacy import PrivacySpent
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select
from fedcord.ops.weighted_mean import weighted_mean

CHANGE = "change"
LEAST_VARIANCE = 1e-3


@dataclass(frozen=True)
class DPFedAvg:
    """Federated averaging with privacy for clients."""

    privacy: ClientPrivacy = param(ClientPrivacy(), "how clients are hidden")
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Only sums are needed; without noise there is no loss to speak of."""
        unchanged, private = self.local.augment == "none", self.privacy.noise > 0
        return Traits(looks_through_network=unchanged, sums_suffice=True, accounts_privacy=private)

    def review(self, task: Task) -> Review:
        """What local training needs, and an accountant."""
        return review_of_parts(self, task)

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of changes."""
        return "mean"

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model."""
        return ServerState(shared=first_model(env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """The change of every tensor of real numbers."""
        real = {n: t for n, t in select(shared, MODEL).items() if t.is_floating_point()}
        return {f"{CHANGE}.{n}": TensorSpec(tuple(t.shape), t.dtype) for n, t in real.items()}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The change that local training makes, or none, as it may leave the client."""
        changes = {n: torch.zeros(s.shape) for n, s in self.expected_update(shared, env).items()}
        if self.privacy.contributes(env):
            trained = FedAvg(self.local).client_update(shared, {}, data, env).update.tensors
            changes = {n: trained[_of(n)].double() - shared[_of(n)].double() for n in changes}
        return ClientResult(Update(self.privacy.sent(changes, env), weight=1.0))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The received model moved by the noisy mean change."""
        weights: list[float] = []

        def weighted() -> Iterator[tuple[Tensors, float]]:
            for _, update in updates:
                weights.append(update.weight)
                yield update.tensors, update.weight

        mean = weighted_mean(weighted())
        model = dict(state.shared)
        for name, change in self.privacy.released(mean, sum(weights), env).items():
            moved = (state.shared[_of(name)].double() + change).float()
            is_variance = name.endswith("running_var")
            model[_of(name)] = moved.clamp(min=LEAST_VARIANCE) if is_variance else moved
        return state.next(shared=model)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The global model."""
        return network_predictor(env.task.held_network(select(shared, MODEL), env.client))

    def privacy_spent(self, examples: Sequence[int], rounds: int) -> PrivacySpent:
        """ε of all rounds, for one client added or removed."""
        return self.privacy.spent(rounds)


def _of(name: str) -> str:
    """The model's tensor that a change is of."""
    return MODEL + name.removeprefix(CHANGE)
