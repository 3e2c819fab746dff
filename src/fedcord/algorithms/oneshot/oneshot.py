"""One-shot federated learning in five parts: clients train alone, send once, the server fuses.

Reference: Zeng et al., "Does One-shot Give the Best Shot? Mitigating Model Inconsistency in
One-shot Federated Learning" (FAFI), ICML 2025, is the base; FLARE adds anchors common to all
clients and a weight of alignment that each client learns. `ladder.PRESETS` names the combinations.

Travels: down the first encoder and prototypes, once; up the encoder, prototypes [C, D], class
counts [C] and the number of examples, once, and what the chosen server asks for beside. Stays:
everything else, in particular λ and the entropy of labels. With `objective.bank_file` a feature
bank also travels down, and with `server.training.feedback` the server's prototypes do.

| paper | here |
|---|---|
| P_i, z | `proto.weight`, features of length one |
| A | `anchors`, a function of the seed, never sent |
| L_base, L_align | `objective`, `alignment` |
| λ, σ², s(p), γ | `policy` |
| R, E | `checkpoints`, `local.epochs` / `checkpoints` |
| PCGrad | `conflict` |

Deviations. From the released FAFI code: augmentation draws per example, short batches are used,
inputs are normalised once, momentum lives through checkpoints, log σ² is clipped apart from the
weights; switches in `local` bring most of the old behaviour back. Data without random views is not
doubled. From FLARE as first written (`flare-as-logged`): the schedule damps the log term, because
in the data term it drives λ to infinity (docs/explanation-what-flare-really-does.md).

Limits: without anchors, or with λ = 0, it is FAFI, bit for bit. Checkpoints only look: any number
of them gives the same bits with `policy.progress = global` and the optimiser kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import encoder_tensors, encoder_with
from fedcord.algorithms.oneshot import metrics as oneshot_metrics
from fedcord.algorithms.oneshot.alignment import Alignment
from fedcord.algorithms.oneshot.anchors import Anchors
from fedcord.algorithms.oneshot.conflict import Conflict
from fedcord.algorithms.oneshot.guard import SHORT, observations
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.local_work import Epoch, Learner, LocalWork
from fedcord.algorithms.oneshot.member import (
    MODEL,
    PROTOTYPES,
    Member,
    received,
    upload,
    upload_spec,
)
from fedcord.algorithms.oneshot.objective import Objective
from fedcord.algorithms.oneshot.policy import Policy, Sigma
from fedcord.algorithms.oneshot.public_bank import bank_review, public_bank, received_bank
from fedcord.algorithms.oneshot.rules import client_review, cross_rules
from fedcord.algorithms.oneshot.schedule import Plan
from fedcord.algorithms.oneshot.servers.aggregator import Common
from fedcord.algorithms.oneshot.servers.feature_ensemble import PROTOTYPES as LEARNED
from fedcord.algorithms.oneshot.servers.server import Server
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
    Work,
)
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param, plain
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

FUSED = "fused"
"""Prefix of the server's result."""
TARGET = "target"
"""What the server has learned and clients go towards next, where it is sent back."""


@dataclass(frozen=True)
class OneShot:
    """FAFI, FLARE and everything between."""

    objective: Objective = param(Objective(), "what clients minimise by themselves")
    anchors: Anchors = param(Anchors(), "points common to all clients")
    alignment: Alignment = param(Alignment(), "distance of prototypes from anchors")
    policy: Policy = param(Policy(), "weight of alignment")
    conflict: Conflict = param(Conflict(), "what to do about opposing gradients")
    server: Server = param(Server(), "how clients' models are fused")
    local: LocalTraining = param(LocalTraining(), "how clients train")
    checkpoints: int = param(
        10,
        "measurements along local training, at most one per epoch; the last is the exchange",
        at_least=1,
    )

    def __post_init__(self) -> None:
        check_params(self)
        problems = cross_rules(self)
        if problems:
            raise ConfigError(problems)

    @property
    def plan(self) -> Plan:
        """The epochs of local training, in chunks."""
        return Plan(self.local.epochs, min(self.checkpoints, self.local.epochs))

    @property
    def traits(self) -> Traits:
        """One exchange; the rounds before it are probes, unless they are sent something back."""
        rounds = self.plan.chunks
        return Traits(rounds, shares_work=True, probes=not self._feeds_back, observes=True)

    def is_probe(self, env: Env) -> bool:
        """All rounds but the last only look."""
        return not self._feeds_back and self._goes_on(env)

    def review(self, task: Task) -> Review:
        """What clients and the server need of the task, and settings that may surprise."""
        different = (
            f"{len(task.networks)} different models were given; clients of a one-shot method send "
            "encoders of one form, so give one --model, or use accord."
        )
        errors = (different,) if len(task.networks) > 1 else ()
        found = client_review(self, task) + self.server.review(task)
        return found + bank_review(self.objective, task) + Review(errors)

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What a client's metrics show to have gone wrong, in plain words."""
        return observations(self.policy, metrics)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """All parts but the server, of which only what it asks clients to send matters."""
        parts = plain(self)
        del parts["server"]
        asked = self.server.asked
        settings = {"procedure": "oneshot", "chunk": env.round, **parts, "factors": asked}
        return Work(settings, shared)

    def init(self, env: Env) -> ServerState:
        """One encoder and prototypes ~ N(0, 1) for all."""
        shared = first_message(env)
        points = self.anchors.points(shared[PROTOTYPES], env)
        if self._feeds_back and points is not None:
            shared[TARGET] = points
        shared |= public_bank(self.objective, self.local, shared, env)
        return ServerState(shared=shared)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """An encoder and prototypes like those sent, counts, and what the server asks for."""
        num_classes, feature_dim = shared[PROTOTYPES].shape
        extra = self.server.extra_spec(env)
        return upload_spec(select(shared, MODEL), num_classes, feature_dim, extra)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The epochs of one chunk, going on from what the client kept."""
        counts = torch.bincount(data.train.labels, minlength=env.task.num_classes).float()
        learner = self._learner(shared, memory, counts, env)
        measured = self._work.train(learner, data.train, self._epochs(shared, env), env)
        if 0 < len(data.train) < self.local.batch_size and env.round == 0:
            measured[SHORT] = float(len(data.train))
        prototypes = learner.prototypes.detach()
        extra = self.server.extra_upload(learner.network, prototypes, data, env)
        member = Member(
            encoder_tensors(learner.network),
            prototypes.cpu().clone(),
            counts,
            len(data.train),
            extra,
        )
        kept = self._kept(learner, member) if self._goes_on(env) else {}
        return ClientResult(Update(upload(member), len(data.train), measured), kept)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The fused model as the result; `shared` stays as it was, so nothing flows back.

        But for V9B as it was first run, whose learned prototypes are the next target.
        """
        members = {k: received(u.tensors, u.weight) for k, u in updates if u.weight > 0}
        if not members:
            raise ProtocolError("no client has examples; there is nothing to fuse.")
        points = self.anchors.points(state.shared[PROTOTYPES], env)
        trained = {name for name, _ in env.task.scratch_network().named_parameters()}
        measured = oneshot_metrics.measure(list(members.values()), trained, points)
        common = Common(points, state.shared, state.shared.get(TARGET))
        fused = self.server.fuse(members, common, env)
        learned = {TARGET: fused[LEARNED]} if self._feeds_back else {}
        return state.next(
            shared={**state.shared, **learned},
            private=prefixed(METRIC, {n: torch.tensor(value) for n, value in measured.items()}),
            result=prefixed(FUSED, fused),
        )

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the fused model."""
        fused = select(shared, FUSED)
        if not fused:
            raise ProtocolError("there is no fused model yet; predict after a round.")
        return Predictor(self.server.scores(fused, env))

    @property
    def _feeds_back(self) -> bool:
        return self.server.feeds_back

    def _goes_on(self, env: Env) -> bool:
        """Whether clients train on after this round."""
        return env.round + 1 < self.plan.chunks

    @property
    def _work(self) -> LocalWork:
        return LocalWork(self.local, self.objective, self.alignment, self.policy, self.conflict)

    def _epochs(self, shared: Tensors, env: Env) -> list[Epoch]:
        """What holds in each epoch of the chunk `env` stands in."""
        first = shared[PROTOTYPES].to(env.task.device)
        learned = shared.get(TARGET)
        points = self.anchors.points(first, env) if learned is None else learned.to(first.device)
        outside = received_bank(shared, first.device)
        if outside is None:
            outside = self.objective.outside_bank(first.shape[0], first.shape[1], env)
        plan = self.plan
        epochs = []
        for number in plan.epochs_of(env.round):
            progress = plan.progress(self.policy.progress, env.round, number)
            target = None if points is None else self.anchors.target(points, first, progress)
            epochs.append(Epoch(number, self.policy.factor(progress), target, outside))
        return epochs

    def _learner(self, shared: Tensors, memory: Tensors, counts: Tensor, env: Env) -> Learner:
        """The client's model as it left it, or as it was first sent."""
        start, task = memory or shared, env.task
        network = encoder_with(task, select(start, MODEL), env.client)
        learner = Learner(
            network,
            nn.Parameter(start[PROTOTYPES].clone().to(task.device)),
            counts,
            self.policy.begin(counts),
        )
        if "sigma" in memory:
            learner.sigma = Sigma.of(memory["sigma"])
        if "bank.features" in memory:
            bank = memory["bank.features"], memory["bank.labels"]
            learner.memory = bank[0].to(task.device), bank[1].to(task.device)
        momentum = select(memory, "momentum")
        places = map(str, range(len(momentum)))
        learner.momentum = [momentum[place].to(task.device) for place in places]
        return learner

    def _kept(self, learner: Learner, member: Member) -> dict[str, Tensor]:
        """What the client needs to go on: model, momentum, σ, memory bank."""
        kept = {**prefixed(MODEL, member.model), PROTOTYPES: member.prototypes}
        forgets = self.local.reset_optimizer_each_chunk
        if self.policy.learns:
            sigma = learner.sigma.at_rest() if forgets else learner.sigma
            kept["sigma"] = sigma.tensor()
        if learner.memory is not None:
            kept["bank.features"], kept["bank.labels"] = (part.cpu() for part in learner.memory)
        if not forgets:
            kept |= {f"momentum.{place}": t.cpu() for place, t in enumerate(learner.momentum)}
        return kept


def first_message(env: Env, client: int | None = None) -> dict[str, Tensor]:
    """An encoder of the client's architecture and prototypes ~ N(0, 1), as the seed has them.

    Without a client, of the server's architecture; wherever it is asked for, it is the same.
    """
    server = dataclasses.replace(env, round=0, client=None)
    network = env.task.initial_network(server.generator("init"), client)
    shape = env.task.num_classes, int(network.feature_dim)  # type: ignore[arg-type]
    prototypes = torch.randn(shape, generator=server.generator("prototypes"))
    return {**prefixed(MODEL, encoder_tensors(network)), PROTOTYPES: prototypes}
