"""One-shot encoders, one exact head: clients learn to see alone and to decide together.

Reference: this library; its parts are FAFI (ICML 2025), AFL (CVPR 2025) and FedHiP. The nearest
published relative is FENS (NeurIPS 2024), which trains its aggregator by gradient descent.

A classifier learnt at one client cannot know classes that the client does not have; the encoder
under it can still be of use for them. So every chosen client trains an encoder alone, by
any objective of the one-shot family; the encoders are given to everybody; and the linear classifier
on all their features is the ridge regression of all samples of all clients, solved once from sums.

Travels: up class counts, once, if encoders are to be chosen by them; up the asked clients' encoders
in FAFI's message (encoder, prototypes, class counts); down the chosen encoders; up Gram matrix and
moment of the joint features, class counts, of which the server needs the sum only; with
`solve.by=gradients` no Gram matrix, but directions down and products with them up, several times.
Stays: samples, features, personal heads.

| paper | here |
|---|---|
| f_m, m = 1…M | `encoder.<client>.*`, the chosen clients' |
| φ(x) = (f_1/‖f_1‖, …, f_M/‖f_M‖)/√M, 1 | `joint`, with `joint.public` one block more |
| h_m,s, maps under f_m, pooled beside it | `joint.layers` |
| G = Σ φφ', Q = Σ φy' | `stats.gram`, `stats.moment` |
| W = (G + λI)⁻¹ Q | `head.weight` |

First weights are a function of the seed, as anchors are, so nothing is sent before training.

Limits: given the encoders, the head is the ridge regression of the pooled samples, whatever the
partition. One client is its own encoder with its own ridge regression. Encoders that are all the
same give AFL on that encoder with the same λ (GCV tries λ relative to the width, so it may differ).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.accord.choosing import misfits, more_than_fit
from fedcord.algorithms.accord.dropping import without_encoder
from fedcord.algorithms.accord.encoder_training import KINDS, EncoderTraining
from fedcord.algorithms.accord.encoding import Encoding, encoders_in
from fedcord.algorithms.accord.head import HEAD, Head
from fedcord.algorithms.accord.iterative import GRADIENTS, IterativeHead, Solve
from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    JointFeatures,
    chosen_clients,
    packed_encoders,
)
from fedcord.algorithms.accord.phases import SUMMED, Phase, is_asked, phase_at, planned
from fedcord.algorithms.accord.refinement import refined_encoder
from fedcord.algorithms.accord.rules import disclosures, setting_rules
from fedcord.algorithms.accord.selection import Selection
from fedcord.algorithms.accord.trial import why_unusable
from fedcord.algorithms.analytic import hiding
from fedcord.algorithms.analytic.closed_form import WEIGHT, zero_predictor
from fedcord.algorithms.analytic.privacy import Privacy
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import summed_rounding, summed_stats
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.alignment import Alignment
from fedcord.algorithms.oneshot.anchors import Anchors
from fedcord.algorithms.oneshot.baselines.one_exchange import ONE_SHOT
from fedcord.algorithms.oneshot.conflict import Conflict
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.member import COUNTS, MODEL
from fedcord.algorithms.oneshot.objective import Objective
from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.algorithms.oneshot.policy import Policy
from fedcord.core.contract import (
    METRIC,
    ClientId,
    ClientResult,
    Combination,
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
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select
from fedcord.ops.number_format import FORMATS as ENCODER_FORMATS

ENCODERS_USED = f"{METRIC}.encoders"


@dataclass(frozen=True)
class Accord:
    """One-shot encoders under one exact head."""

    objective: Objective = param(Objective(), "what clients minimise by themselves")
    anchors: Anchors = param(Anchors(), "points common to all clients")
    alignment: Alignment = param(Alignment(), "distance of prototypes from anchors")
    policy: Policy = param(Policy(), "weight of alignment")
    conflict: Conflict = param(Conflict(), "what to do about opposing gradients")
    local: LocalTraining = param(LocalTraining(), "how clients train")
    training: str = param(
        "objective",
        "how encoders come about: by objective and local, by plain cross-entropy, or drawn at "
        "random and not trained",
        choices=KINDS,
        unwritten=True,
    )
    plain: LocalSGD = param(
        ONE_SHOT, "how clients train with training=plain", tuned=False, unwritten=True
    )
    selection: Selection = param(Selection(), "whose encoders travel")
    encoder_format: str = param(
        "float32", "numbers of encoders on the wire", choices=ENCODER_FORMATS
    )
    joint: JointFeatures = param(JointFeatures(), "what the head sees")
    ridge: float | str = param("gcv", "λ >= 0 of the head, or gcv", at_least=0, choices=("gcv",))
    balanced: bool = param(False, "give every class the same weight in the head")
    wire: str = param("packed64", "how sums travel", choices=FORMATS)
    solve: Solve = param(Solve(), "how the head is found", unwritten=True)
    privacy: Privacy = param(Privacy(), "noise that hides single samples in the sums")
    personal: bool = param(False, "a head of its own for every client, as in FedHiP")
    refinements: int = param(
        0, "times encoders are trained on against the head, and it is solved again", at_least=0
    )
    refine: LocalSGD = param(
        LocalSGD(epochs=5, lr=0.01, momentum=0.9),
        "how encoders are trained on",
        tuned=False,  # by default there are no refinements
    )

    def __post_init__(self) -> None:
        check_params(self)
        problems = setting_rules(self._head, self.solve, self.balanced, self.refinements)
        if self.objective.bank_file:
            problems.append(
                f"objective.bank_file = '{self.objective.bank_file}': accord sends no feature "
                "bank; leave it out, or use feature-bank."
            )
        if problems:
            raise ConfigError(problems)
        assert self._clients  # its own rules are checked when it is made

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What each round is for."""
        return planned(self.selection.asks_first, self.refinements, self.solve.num_products)

    @property
    def traits(self) -> Traits:
        """Encoders are only asked for features, so any will do; a mean needs equal widths.

        Rounds: class counts if needed, encoders, sums, two per refinement. Without a Gram matrix
        there is nothing that clients or encoders could be taken out of.
        """
        phases, has_gram = self.phases, self.solve.by != GRADIENTS
        before = len(phases) - 1 if has_gram else phases.index(Phase.MOMENTS)
        return Traits(
            rounds=len(phases),
            mixes_networks=True,
            settles_first=(before, "the encoders"),  # all but the last solve
            personalizes=self.personal,
            shares_work=True,
            observes=True,
            holds_sums=has_gram,
            holds_encoders=has_gram,
            sums_suffice=True,
            examines=True,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The head needs the sum of everybody's sums; encoders and counts are looked at singly."""
        return "sum" if self.phases[env.round] in SUMMED else None

    def objection(self, update: Update, env: Env) -> str | None:
        """An encoder must not overflow, or it would spoil everybody's sums."""
        encoder = select(update.tensors, MODEL)
        if not encoder:
            return None
        assert env.client is not None
        return why_unusable(encoder, self.joint, env.client, env)

    def review(self, task: Task) -> Review:
        """What encoders and head need of the task's networks, and what the sums disclose."""
        wrong = misfits(self.selection, self.joint, self.encoder_format, task)
        notes = disclosures(self._head) + self.joint.unseen(task)
        if not wrong:
            notes += more_than_fit(self.selection, self.joint, task)
        own = Review(tuple(wrong), notes)
        return self._training.review(task) + self.refine.review(task) + own

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What metrics show to have gone wrong, a client's or the server's at the end."""
        return self._clients.observations(metrics) + self._iterative.observations(metrics)

    def init(self, env: Env) -> ServerState:
        """Nothing known and nothing to send: first weights follow from the seed."""
        return ServerState(shared={})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """By phase; clients that were not chosen send no encoder."""
        phase = phase_at(self.phases, env.round, shared)
        if phase is Phase.ROLL_CALL:
            return {COUNTS: TensorSpec((env.task.num_classes,), torch.float32, counts=True)}
        if phase is Phase.SOLVE:
            return self._head.expected_sums(shared, env)
        if phase is Phase.MOMENTS:
            return self._iterative.expected_moments(shared, env)
        if phase is Phase.PRODUCTS:
            return self._iterative.expected_products(shared)
        if not is_asked(shared, env.client):
            return {}
        encoding = self._encoding
        again = phase is Phase.REFINE
        return encoding.expected_model(env) if again else encoding.expected_message(env)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """An asked client's first training, which others may share."""
        is_training = self.phases[env.round] is Phase.ENCODE and is_asked(shared, env.client)
        return self._encoding.work(env) if is_training else None

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Counts, an encoder, or sums, by phase."""
        phase, count = phase_at(self.phases, env.round, shared), len(data.train)
        if phase is Phase.ROLL_CALL:
            counts = torch.bincount(data.train.labels, minlength=env.task.num_classes).float()
            return ClientResult(Update({COUNTS: counts}, count))
        if phase is Phase.SOLVE:
            return self._head.client_sums(shared, data.train, env)
        if phase is Phase.MOMENTS:
            return self._iterative.client_moments(shared, data.train, env)
        if phase is Phase.PRODUCTS:
            return self._iterative.client_products(shared, memory, data.train, env)
        if not is_asked(shared, env.client):
            return ClientResult(Update({}, count))
        if phase is Phase.REFINE:
            model, metrics = refined_encoder(self.joint, self.refine, shared, data.train, env)
            return ClientResult(Update(self._encoding.packed(model), count, metrics))
        return ClientResult(self._encoding.trained(data, env))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Choose, hand on, or add up and solve, by phase."""
        phase = phase_at(self.phases, env.round, state.shared)
        if phase is Phase.SOLVE:
            return self._solved(state, updates, env)
        if phase is Phase.MOMENTS:
            return self._iterative.begun(state, updates, env)
        if phase is Phase.PRODUCTS:
            return self._iterative.continued(state, updates, env)
        encoding = self._encoding
        heard = {client: update for client, update in updates if update.weight > 0}
        if not heard:
            raise ProtocolError("no client has examples; there is nothing to learn from.")
        if phase is Phase.ROLL_CALL:
            return state.next(encoding.chosen_by_counts(heard, env))
        if phase is Phase.REFINE:  # the head belongs to the old encoders and need not travel again
            # of who is not there, the encoder stays as it was
            kept = {n: t for n, t in state.shared.items() if n not in HEAD}
            return state.next({**kept, **packed_encoders(encoders_in(heard, state.shared))})
        shared, encoders = encoding.handed_on(state.shared, heard, env)
        used = {ENCODERS_USED: torch.tensor(float(len(shared[CHOSEN])))}
        return state.next({**shared, **encoders}, used)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]: regressions of the one-hot code; all equal before there is a head."""
        if WEIGHT not in shared:
            return zero_predictor(env.task)
        return self._head.predictor(shared, memory, env)

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's own head; nothing where there is nothing to make it from."""
        if not len(data.train):
            return {}
        return {WEIGHT: self._head.personalized(shared, data.train, env)}

    def agreed_tag(self, shared: Tensors, env: Env) -> int:
        """The tag of the features everybody must use."""
        return self.joint.tag(shared, env)

    def summed_rows(
        self, shared: Tensors, data: Examples, env: Env
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples as (joint features as the head sees them [B, D], labels [B])."""
        return self._head.batches(data, shared, env)

    def stats_of(self, sums: Tensors) -> SufficientStats:
        """Summed messages as statistics."""
        return summed_stats(sums, self.wire)

    def rounding(self, sums: Tensors) -> float:
        """How far summed messages may be from the samples' own Gram matrix."""
        return summed_rounding(sums, self.wire)

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """The head, and what personal heads need."""
        return self._head.result_of(sums)

    def why_not_forget(self) -> str | None:
        """Why a client cannot be taken out of the head exactly, or None when it can."""
        if self.solve.by == GRADIENTS:
            return (
                f"its head was found by conjugate gradients (solve.by={GRADIENTS}), which leave no "
                "Gram matrix to add to or subtract from"
            )
        return hiding.why_not_forget(self.privacy, self.balanced)

    def encoders_of(self, shared: Tensors) -> list[ClientId]:
        """Whose encoders are in the model."""
        return chosen_clients(shared)

    def drop_encoder(self, state: ServerState, client: ClientId, env: Env) -> ServerState:
        """The finished state as if this client's encoder had not been chosen; nobody is asked."""
        return without_encoder(self._head, state, client, env)

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

    @property
    def _training(self) -> EncoderTraining:
        return EncoderTraining(self.training, self._clients, self.plain)

    @property
    def _encoding(self) -> Encoding:
        return Encoding(
            self._training, self.selection, self.joint, self.encoder_format, self.balanced
        )

    @property
    def _head(self) -> Head:
        return Head(self.joint, self.ridge, self.wire, self.privacy, self.personal)

    @property
    def _iterative(self) -> IterativeHead:
        return IterativeHead(self.joint, self.ridge, self.wire, self.solve)

    def _solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        sums, result = self._head.solved(state, updates, env)
        goes_on = env.round + 1 < len(self.phases)
        head = {name: result[name] for name in HEAD} if goes_on else {}
        return state.next({**state.shared, **head}, sums, result)
