"""One-shot encoders, one exact head: clients learn to see alone and to decide together.

Reference: this library; its parts are FAFI (ICML 2025), AFL (CVPR 2025) and FedHiP. The nearest
published relative is FENS (NeurIPS 2024), which trains its aggregator by gradient descent.

Heterogeneity ruins classifiers, not encoders. So every chosen client trains an encoder alone, by
any objective of the one-shot family; the encoders are given to everybody; and the linear classifier
on all their features is the ridge regression of all samples of all clients, solved once from sums.

Travels: up class counts, once, if encoders are to be chosen by them; up the chosen clients'
encoders in FAFI's message; down the chosen encoders; up Gram matrix and moment of the joint
features, class counts. Stays: samples, features, the encoders of clients that were not chosen.

| paper | here |
|---|---|
| f_m, m = 1…M | `encoder.<client>.*`, the chosen clients' |
| φ(x) = (f_1/‖f_1‖, …, f_M/‖f_M‖)/√M, 1 | `joint` |
| G = Σ φφ', Q = Σ φy' | `stats.gram`, `stats.moment` |
| W = (G + λI)⁻¹ Q | `head.weight` |

First weights are a function of the seed, as anchors are, so nothing is sent before training.

Limits: given the encoders, the head is the ridge regression of the pooled samples, whatever the
partition. One client is its own encoder with its own ridge regression. Encoders that are all the
same give AFL on that encoder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    ENCODER,
    JointFeatures,
    chosen_clients,
)
from fedcord.algorithms.accord.number_format import FORMATS as ENCODER_FORMATS
from fedcord.algorithms.accord.number_format import grow, shrink, travelling_bytes
from fedcord.algorithms.accord.refinement import refined_encoder
from fedcord.algorithms.accord.selection import (
    Selection,
    at_random,
    by_coverage,
    by_difference,
    by_size,
)
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT, balancing_weight
from fedcord.algorithms.analytic.closed_form import (
    RIDGE,
    SEEN,
    STATS,
    WEIGHT,
    add_messages,
    aligned,
    mask_unseen,
    solve_stats,
    stats_update,
    summed_stats,
)
from fedcord.algorithms.analytic.features import network_features
from fedcord.algorithms.analytic.fedhip import GRIDS
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats
from fedcord.algorithms.analytic.wire import FORMATS, wire_spec
from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.alignment import Alignment
from fedcord.algorithms.oneshot.anchors import Anchors
from fedcord.algorithms.oneshot.conflict import Conflict
from fedcord.algorithms.oneshot.encoder import encoder_tensors, encoder_with
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.member import COUNTS, MODEL, PROTOTYPES, upload_spec
from fedcord.algorithms.oneshot.objective import Objective
from fedcord.algorithms.oneshot.oneshot import OneShot, first_message
from fedcord.algorithms.oneshot.policy import Policy
from fedcord.algorithms.oneshot.rules import task_rules
from fedcord.core.contract import (
    ClientId,
    ClientResult,
    Env,
    ServerState,
    Update,
    Updates,
    Work,
)
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.anchored import AnchoredPath
from fedcord.ops.symmetric import diagonal_places, unpack

METRIC_GRAM, COUNT = "head.gram", "head.count"
PROBES = 256
"""Noise inputs on which encoders are compared."""


class Phase(Enum):
    """What a round is for."""

    ROLL_CALL = "class counts"
    ENCODE = "encoders"
    SOLVE = "sums"
    REFINE = "encoders again"


@dataclass(frozen=True)
class Accord:
    """One-shot encoders under one exact head."""

    objective: Objective = param(Objective(), "what clients minimise by themselves")
    anchors: Anchors = param(Anchors(), "points common to all clients")
    alignment: Alignment = param(Alignment(), "distance of prototypes from anchors")
    policy: Policy = param(Policy(), "weight of alignment")
    conflict: Conflict = param(Conflict(), "what to do about opposing gradients")
    local: LocalTraining = param(LocalTraining(), "how clients train")
    selection: Selection = param(Selection(), "whose encoders travel")
    encoder_format: str = param(
        "float32", "numbers of encoders on the wire", choices=ENCODER_FORMATS
    )
    joint: JointFeatures = param(JointFeatures(), "what the head sees")
    ridge: float | str = param("gcv", "λ >= 0 of the head, or gcv", at_least=0, choices=("gcv",))
    balanced: bool = param(False, "give every class the same weight in the head")
    wire: str = param("packed64", "how sums travel", choices=FORMATS)
    personal: bool = param(False, "a head of its own for every client, as in FedHiP")
    refinements: int = param(
        0, "times encoders are trained on against the head, and it is solved again", at_least=0
    )
    refine: LocalSGD = param(
        LocalSGD(epochs=5, lr=0.01, momentum=0.9), "how encoders are trained on"
    )

    def __post_init__(self) -> None:
        check_params(self)
        problems = []
        if self.refinements and not self.joint.keeps_blocks:
            problems.append(
                f"refinements = {self.refinements} needs every encoder's own columns in the head; "
                "use joint.combine=concat without projection or expansion."
            )
        if problems:
            raise ConfigError(problems)
        assert self._clients  # its own rules are checked when it is made

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What each round is for."""
        first = (Phase.ROLL_CALL,) if self.selection.asks_first else ()
        again = (Phase.REFINE, Phase.SOLVE) * self.refinements
        return (*first, Phase.ENCODE, Phase.SOLVE, *again)

    @property
    def rounds(self) -> int | None:
        """Class counts if needed, encoders, sums, and two for every refinement."""
        return len(self.phases)

    @property
    def mixes_networks(self) -> bool:
        """Encoders are only asked for features, so any will do; a mean needs equal widths."""
        return True

    def notes(self, task: Task) -> tuple[str, ...]:
        """What deserves a second look in these settings for this task."""
        return self._clients.notes(task)

    def observations(self, client: int, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What a client's metrics show to have gone wrong."""
        return self._clients.observations(client, metrics)

    def init(self, env: Env) -> ServerState:
        """Nothing known and nothing to send: first weights follow from the seed."""
        smallest = min(
            travelling_bytes(encoder_tensors(env.task.scratch_network(client)), self.encoder_format)
            for client in range(len(env.task.networks))
        )
        if smallest > self.selection.byte_budget and self.selection.rule != "all":
            raise ConfigError(
                f"selection.byte_budget = {self.selection.byte_budget:g} does not hold one "
                f"encoder, which takes {smallest} bytes as {self.encoder_format}; raise it to "
                f"{smallest} or more, use a smaller model or another encoder_format."
            )
        problems = task_rules(self._clients, env.task)
        if problems:
            raise ConfigError(problems)
        return ServerState(shared={})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """By phase; clients that were not chosen send no encoder."""
        phase, classes = self.phases[env.round], env.task.num_classes
        if phase is Phase.ROLL_CALL:
            return {COUNTS: TensorSpec((classes,), torch.float32)}
        if phase is Phase.SOLVE:
            width = self.joint.num_features(chosen_clients(shared), env.task)
            spec = wire_spec(self.wire, width, classes)
            return {f"{STATS}.{name}": part for name, part in spec.items()}
        if not _is_chosen(shared, env.client):
            return {}
        network = env.task.scratch_network(env.client)
        model = shrink(encoder_tensors(network), self.encoder_format)
        if phase is Phase.REFINE:
            return {f"{MODEL}.{n}": TensorSpec(tuple(t.shape), t.dtype) for n, t in model.items()}
        return upload_spec(model, classes, int(network.feature_dim), {})  # type: ignore[arg-type]

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """A chosen client's first training is that of the one-shot method with these parts."""
        is_training = self.phases[env.round] is Phase.ENCODE and _is_chosen(shared, env.client)
        if not is_training or self.encoder_format != "float32":
            return None
        here = _first_place(env)
        return self._clients.work(first_message(here, here.client), here)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Counts, an encoder, or sums, by phase."""
        phase = self.phases[env.round]
        if phase is Phase.ROLL_CALL:
            counts = torch.bincount(data.train.labels, minlength=env.task.num_classes).float()
            return ClientResult(Update({COUNTS: counts}, weight=len(data.train)))
        if phase is Phase.SOLVE:
            return ClientResult(stats_update(self._sums(shared, data, env), self.wire))
        if not _is_chosen(shared, env.client):
            return ClientResult(Update({}, weight=len(data.train)))
        if phase is Phase.REFINE:
            model, metrics = refined_encoder(self.joint, self.refine, shared, data.train, env)
            tensors = prefixed(MODEL, shrink(model, self.encoder_format))
            return ClientResult(Update(tensors, len(data.train), metrics))
        here = _first_place(env)
        start = first_message(here, here.client)
        update = self._clients.client_update(start, {}, data, here).update
        model = shrink(select(update.tensors, MODEL), self.encoder_format)
        kept = {name: update.tensors[name] for name in (PROTOTYPES, COUNTS)}
        return ClientResult(dataclasses.replace(update, tensors={**prefixed(MODEL, model), **kept}))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Choose, hand on, or add up and solve, by phase."""
        phase = self.phases[env.round]
        if phase is Phase.SOLVE:
            return self._solved(state, updates, env)
        heard = {client: update for client, update in updates if update.weight > 0}
        if phase is Phase.ROLL_CALL:
            counts = {client: update.tensors[COUNTS] for client, update in heard.items()}
            chosen = self._chosen(self._order(counts, env), env)
            return state.next({**chosen, **self._balance(counts)})
        asked = (client for client in heard if _is_chosen(state.shared, client))
        models = {client: select(heard[client].tensors, MODEL) for client in asked}
        if not models:
            raise ProtocolError("no client sent an encoder; at least one is needed.")
        if phase is Phase.REFINE:
            return state.next({**state.shared, **_packed(models)})
        return state.next(self._handed_on(state, heard, models, env))

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        """Scores [B, C]: regressions of the one-hot code; all equal before there is a head."""
        if WEIGHT not in shared:
            return torch.zeros(len(inputs), env.task.num_classes, dtype=torch.float64)
        weight = aligned(memory if WEIGHT in memory else shared, WEIGHT)
        return mask_unseen(self.joint(inputs, shared, env) @ weight, shared[SEEN])

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's own head, its weight chosen by leave-one-out; nothing unless `personal`."""
        if not self.personal or not len(data.train):
            return {}
        features = torch.cat([f for f, _ in self.joint.batches(data.train, shared, env)])
        targets = F.one_hot(data.train.labels, env.task.num_classes).to(torch.float64)
        gram = unpack(shared[METRIC_GRAM])
        path = AnchoredPath.of(features, targets, aligned(shared, WEIGHT), gram)
        total = int(shared[COUNT])
        grid = [alpha * total / len(features) for alpha in GRIDS["relative"]]
        _, weight = path.choose(grid, targets, contains_own=True)
        return {WEIGHT: weight}

    def tag(self, shared: Tensors, env: Env) -> int:
        """The tag of the features everybody must use."""
        return self.joint.tag(shared, env)

    def stats_of(self, sums: Tensors) -> SufficientStats:
        """Summed messages as statistics."""
        return summed_stats(sums, self.wire)

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """The head, and what personal heads need."""
        stats = self.stats_of(sums)
        solved = solve_stats(stats, self.ridge, self.wire)
        if not self.personal:
            return solved.tensors()
        gram = stats.gram.clone()
        gram[diagonal_places(stats.num_features)] += solved.report.ridge
        return {**solved.tensors(), METRIC_GRAM: gram, COUNT: torch.tensor(stats.count)}

    def why_not_forget(self) -> str | None:
        """Why a client cannot be taken out of the head exactly, or None when it can."""
        return "its class weights were made with that client" if self.balanced else None

    @property
    def _clients(self) -> OneShot:
        """The one-shot method whose clients train the encoders."""
        return OneShot(
            objective=self.objective,
            anchors=self.anchors,
            alignment=self.alignment,
            policy=self.policy,
            conflict=self.conflict,
            local=self.local,
            checkpoints=1,
        )

    def _sums(self, shared: Tensors, data: ClientData, env: Env) -> SufficientStats:
        width = self.joint.num_features(chosen_clients(shared), env.task)
        total = StatsAccumulator(
            width, env.task.num_classes, self.tag(shared, env), shared.get(CLASS_WEIGHT)
        )
        for rows, labels in self.joint.batches(data.train, shared, env):
            total.add(rows, labels)
        return total.stats()

    def _solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        sums = add_messages({}, updates, self.tag(state.shared, env))
        result = self.result_of(sums)
        goes_on = env.round + 1 < len(self.phases)
        head = {name: result[name] for name in (WEIGHT, SEEN, RIDGE)} if goes_on else {}
        kept = {n: t for n, t in state.shared.items() if n not in (WEIGHT, SEEN, RIDGE)}
        return state.next({**kept, **head}, sums, result)

    def _order(self, counts: Mapping[ClientId, Tensor], env: Env) -> list[ClientId]:
        """Clients in the order in which their encoders are wanted."""
        if self.selection.rule == "coverage":
            return by_coverage(counts)
        if self.selection.rule == "random":
            return at_random(counts, env.generator("selection"))
        return by_size(counts)

    def _chosen(self, order: list[ClientId], env: Env) -> dict[str, Tensor]:
        def bytes_of(client: ClientId) -> int:
            encoder = encoder_tensors(env.task.scratch_network(client))
            return travelling_bytes(encoder, self.encoder_format)

        chosen = self.selection.within_budget(order, bytes_of)
        self.joint.num_features(chosen, env.task)  # too wide shows before anybody trains
        return {CHOSEN: torch.tensor(chosen)}

    def _balance(self, counts: Mapping[ClientId, Tensor]) -> dict[str, Tensor]:
        if not self.balanced:
            return {}
        total = torch.stack(list(counts.values())).sum(0).to(torch.int64)
        return {CLASS_WEIGHT: balancing_weight(total)}

    def _handed_on(
        self,
        state: ServerState,
        heard: Mapping[ClientId, Update],
        models: Mapping[ClientId, Tensors],
        env: Env,
    ) -> dict[str, Tensor]:
        """Encoders for everybody: of those chosen before that were heard, or chosen now."""
        if CHOSEN in state.shared:
            order = sorted(models)
            shared = {**state.shared, CHOSEN: torch.tensor(order)}
            return {**shared, **_packed(models)}
        counts = {client: heard[client].tensors[COUNTS] for client in models}
        order = by_size(counts)
        if self.selection.rule == "cka":
            order = by_difference(self._on_noise(models, env), order[0])
        shared = self._chosen(order, env)
        used = {client: models[client] for client in chosen_clients(shared)}
        return {**shared, **self._balance(counts), **_packed(used)}

    def _on_noise(self, models: Mapping[ClientId, Tensors], env: Env) -> dict[ClientId, Tensor]:
        """Every encoder's features [N, D] of the same noise; the server has no data."""
        task = env.task
        noise = torch.randn(PROBES, *task.input_shape, generator=env.generator("probes"))
        inputs = noise.to(task.device)
        return {
            client: network_features(encoder_with(task, grow(model), client), inputs).cpu()
            for client, model in models.items()
        }


def _first_place(env: Env) -> Env:
    """A client's place in the one exchange of the one-shot method it trains by."""
    return dataclasses.replace(env, round=0, num_rounds=1)


def _is_chosen(shared: Tensors, client: ClientId | None) -> bool:
    """Whether this client's encoder is asked for; everybody's is when nobody was chosen yet."""
    return CHOSEN not in shared or client in shared[CHOSEN].tolist()


def _packed(models: Mapping[ClientId, Tensors]) -> dict[str, Tensor]:
    return {
        name: tensor
        for client, model in models.items()
        for name, tensor in prefixed(f"{ENCODER}.{client}", model).items()
    }
