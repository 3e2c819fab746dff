"""Accord for those who can afford rounds: encoders of an averaged network beside clients' own.

Reference: this library; the rounds are those of any averaging method, FedAvg's by default.

accord ends after three exchanges, and methods with rounds go on learning. Here their rounds come
first, and accord's head sees what they have made, too: the averaged network; that network as each
chosen client has trained it on alone; and the encoders that the same clients have trained alone
from the start. All are blocks of one ridge regression over everybody's samples, so that none has to
be chosen over another and the classifier still does not depend on who holds what.

    φ(x) = blocks of ( averaged, averaged and trained on by m = 1…M, trained alone by m = 1…M ), 1

Travels: as the inner method for `rounds` rounds; then as accord, and in one round between encoders
and sums down the averaged network to everybody, up what each of the chosen has made of it; with the
sums, down all 2M + 1 encoders. Stays: samples, features.

| symbol | here |
|---|---|
| averaged network | `encoder.-1.*` once it is handed on |
| trained on by client m | `encoder.<-2-m>.*` |
| trained alone by client m | `encoder.<m>.*`, as in accord |

Limits: clients' own encoders have accord's bits, the averaged network has those of the inner method
alone with the same clients in each round. Without the blocks of rounds it is accord; with the
averaged block only, `deep-head`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from fedcord.algorithms.accord.accord import ENCODERS_USED, Accord
from fedcord.algorithms.accord.choosing import encoder_bytes
from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    ENCODER,
    chosen_clients,
    packed_encoders,
)
from fedcord.algorithms.accord.phases import Phase, is_asked
from fedcord.algorithms.averaging.deep_head import DeepHead
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import averaging_method
from fedcord.algorithms.kit.encoder import encoder_tensors, without_head
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, cross_entropy, received_model
from fedcord.core.contract import (
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
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param, plain
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.number_format import shrink, travelling_spec

AVERAGED, TRAINED_ON = -1, -2
"""Places among encoders: of the averaged network, and of what client 0 has made of it, from which
others count down. What clients have trained alone has their own numbers."""


class Part(Enum):
    """Whose rounds a round belongs to."""

    AVERAGING = "averaging"
    ACCORD = "accord"
    TUNING = "training on"


@dataclass(frozen=True)
class AccordRounds:
    """Accord with an averaged network, and what clients make of it, under the same head."""

    of: str = param("fedavg", "the averaging method; its parameters are inner.…")
    rounds: int = param(20, "rounds of averaging", at_least=1)
    inner: Any = param(
        FedAvg(), "the averaging method's parameters", named_by=("of", averaging_method)
    )
    tuned: bool = param(True, "also see what chosen clients make of the averaged network alone")
    tuning: LocalSGD = param(
        LocalSGD(epochs=20, lr=0.02, momentum=0.9), "how they train it on", tuned=False
    )
    encoders: Accord = param(Accord(), "encoders from the start, and the head: as accord")

    def __post_init__(self) -> None:
        check_params(self)
        problems = []
        if self.encoders.refinements:
            problems.append(
                f"encoders.refinements = {self.encoders.refinements}: an averaged network is "
                "nobody's to refine; leave it out, or use accord."
            )
        if self.encoders.personal:
            problems.append(
                "encoders.personal: heads of clients' own are not made here; leave it out, or use "
                "accord."
            )
        if self.encoders.privacy.is_on:
            problems.append(
                "encoders.privacy.epsilon: rounds of averaging have no noise, so that nothing "
                "could be claimed; use accord."
            )
        if self.encoders.joint.combine != "concat":
            problems.append(
                f"encoders.joint.combine = '{self.encoders.joint.combine}': encoders of different "
                "origin have no mean; use concat."
            )
        if problems:
            raise ConfigError(problems)
        assert self._averaged_head  # refuses what is no averaging method

    @property
    def traits(self) -> Traits:
        """Rounds of averaging, then accord's, and one more for what clients make of the network."""
        accord, more = self.encoders.traits, self.rounds + self.tuned
        assert accord.rounds is not None
        assert accord.settles_first is not None
        before, what = accord.settles_first
        return Traits(
            rounds=accord.rounds + more,
            mixes_networks=True,  # not all send encoders; that networks differ is refused
            settles_first=(before + more, what),
            shares_work=True,
            observes=True,
            sums_suffice=True,
            examines=True,
        )

    def review(self, task: Task) -> Review:
        """What averaging, training and the head need; one network for all."""
        found = self._averaged_head.review(task) + self.encoders.review(task)
        found += self.tuning.review(task)
        if not found.errors:
            found += Review(tuple(self._without_room(task)))
        if len(task.networks) == 1:
            return found
        wrong = (
            f"{len(task.networks)} networks: clients average one; give --model once, or use accord."
        )
        return found + Review(errors=(wrong,))

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What metrics show to have gone wrong with a client's own encoder, or with the head."""
        return self.encoders.observations(metrics)

    def needs_only(self, env: Env) -> Combination | None:
        """As averaging, then as accord; what clients make of the network is looked at singly."""
        part, here = self._place(env)
        method = self.inner if part is Part.AVERAGING else self.encoders
        if part is Part.TUNING or not method.traits.sums_suffice:
            return None
        needs: Combination | None = method.needs_only(here)
        return needs

    def objection(self, update: Update, env: Env) -> str | None:
        """As accord objects to encoders, from the start or of the averaged network."""
        part, here = self._place(env)
        return None if part is Part.AVERAGING else self.encoders.objection(update, here)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """Rounds and encoders are those of the methods alone."""
        part, here = self._place(env)
        if part is Part.AVERAGING:
            done: Work | None = (
                self.inner.work(shared, here) if self.inner.traits.shares_work else None
            )
            return done
        if part is Part.ACCORD:
            return self.encoders.work(shared, here)
        if not is_asked(shared, env.client):
            return None
        form = self.encoders.encoder_format
        settings = {"procedure": "trained on", "local": plain(self.tuning), "form": form}
        return Work({**settings, "round": env.round}, prefixed(MODEL, select(shared, MODEL)))

    def init(self, env: Env) -> ServerState:
        """That of averaging."""
        state: ServerState = self.inner.init(self._place(env)[1])
        return state

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """By part; who was not chosen sends no encoder."""
        part, here = self._place(env)
        if part is Part.TUNING:
            if not is_asked(shared, env.client):
                return {}
            encoder = encoder_tensors(env.task.scratch_network(env.client))
            spec = travelling_spec(encoder, self.encoders.encoder_format)
            return {f"{MODEL}.{name}": each for name, each in spec.items()}
        method = self.inner if part is Part.AVERAGING else self.encoders
        expected: Mapping[str, TensorSpec] = method.expected_update(shared, here)
        return expected

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """A round of averaging, what it makes of the network, or its part in accord."""
        part, here = self._place(env)
        if part is not Part.TUNING:
            method = self.inner if part is Part.AVERAGING else self.encoders
            done: ClientResult = method.client_update(shared, memory, data, here)
            return done
        count = len(data.train)
        if not is_asked(shared, env.client):
            return ClientResult(Update({}, count))
        network = received_model(shared, here)
        # its schedule would be one over rounds, which are over
        local = dataclasses.replace(self.tuning, schedule="constant")
        metrics = local.train(network, data.train, cross_entropy, here)
        packed = prefixed(MODEL, shrink(encoder_tensors(network), self.encoders.encoder_format))
        return ClientResult(Update(packed, count, metrics))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The averaged network; then it waits for accord's encoders, and joins them."""
        part, here = self._place(env)
        if part is Part.AVERAGING:
            after: ServerState = self.inner.aggregate(state, updates, here)
            if env.round + 1 < self.rounds:
                return after
            # nobody needs it before encoders are there; until there is a head, it answers
            model = prefixed(MODEL, select(after.shared, MODEL))
            return dataclasses.replace(after, shared={}, private={}, result=model)
        if part is Part.TUNING:
            return self._joined(state.next(state.shared), dict(updates), here)
        after = self._leaving_room(env).aggregate(state, updates, here)
        if self.encoders.phases[here.round] is not Phase.ENCODE:
            return after
        if not self.tuned:
            return self._joined(after, {}, here)
        # encoders wait at the server while the chosen have the averaged network
        kept = prefixed(ENCODER, select(after.shared, ENCODER))
        asked = {name: tensor for name, tensor in after.shared.items() if name not in kept}
        return dataclasses.replace(
            after, shared={**asked, **after.result}, result={**after.result, **kept}
        )

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Of the head; of the averaged network as long as the head is not begun."""
        if not select(shared, MODEL):
            return self.encoders.predictor(shared, {}, env)
        made: Predictor = self.inner.predictor(shared, {}, self._place(env)[1])
        return made

    @property
    def _averaged_head(self) -> DeepHead:
        """What it would be with the averaged block alone."""
        return DeepHead(of=self.of, joint=self.encoders.joint, inner=self.inner)

    def _place(self, env: Env) -> tuple[Part, Env]:
        """Whose round it is, and the same place in a run of that part alone."""
        if env.round < self.rounds:
            return Part.AVERAGING, dataclasses.replace(env, num_rounds=self.rounds)
        phases, later = self.encoders.phases, env.round - self.rounds
        tuning = phases.index(Phase.ENCODE) + 1 if self.tuned else len(phases)
        if later == tuning and self.tuned:
            return Part.TUNING, env
        round_ = later - (later > tuning)
        return Part.ACCORD, dataclasses.replace(env, round=round_, num_rounds=len(phases))

    def _leaving_room(self, env: Env) -> Accord:
        """Accord that chooses no more clients than there is room for, with all their blocks.

        Room is columns of the head and bytes of encoders.

        Raises:
            ConfigError: there is none for one client, and nobody asked for a review.
        """
        joint, selection, task = self.encoders.joint, self.encoders.selection, env.task
        if problems := self._without_room(task):
            raise ConfigError(problems)
        of_client, averaged = 1 + self.tuned, encoder_bytes(task, 0, self.encoders.encoder_format)
        budget = (selection.byte_budget - averaged) / of_client
        selection = dataclasses.replace(selection, byte_budget=budget)
        if not joint.is_bounded:
            public = joint.public_width(task)
            left = joint.width_limit - public - joint.block_width(task, AVERAGED)
            joint = dataclasses.replace(joint, width_limit=public + left // of_client)
        return dataclasses.replace(self.encoders, joint=joint, selection=selection)

    def _without_room(self, task: Task) -> list[str]:
        """What limits have no room for, with the encoders that go with a single client."""
        joint, form = self.encoders.joint, self.encoders.encoder_format
        least, problems = 2 + self.tuned, list[str]()
        which = "the averaged network, " + "the same trained on, " * self.tuned + "a client's own"
        fewer = "; tuned=false needs one less" if self.tuned else ""
        if (too_wide := joint.too_wide(least, task)) is not None:
            problems.append(
                f"encoders.joint.width_limit = {joint.width_limit} has no room for the {least} "
                f"encoders of a head with one client ({which}){fewer}: {too_wide}"
            )
        needed, budget = least * encoder_bytes(task, 0, form), self.encoders.selection.byte_budget
        if needed > budget:
            problems.append(
                f"encoders.selection.byte_budget = {budget:g} does not hold {least} encoders "
                f"({which}), which take {needed} bytes as {form}; raise it to {needed} or more, "
                f"use a smaller model or another encoders.encoder_format{fewer}."
            )
        return problems

    def _joined(
        self, state: ServerState, heard: Mapping[ClientId, Update], env: Env
    ) -> ServerState:
        """All encoders, for everybody."""
        model = prefixed(MODEL, select(state.result, MODEL))
        averaged = without_head(select(model, MODEL), env.task.scratch_network())
        made = {AVERAGED: shrink(averaged, self.encoders.encoder_format)}
        for client, update in heard.items():
            if update.tensors:
                made[TRAINED_ON - client] = select(update.tensors, MODEL)
        alone = prefixed(ENCODER, select(state.model, ENCODER))
        places = torch.tensor(sorted([*made, *chosen_clients(state.shared)]))
        rest = {n: t for n, t in state.shared.items() if n not in alone and n not in model}
        return dataclasses.replace(
            state,
            shared={**rest, CHOSEN: places, **packed_encoders(made), **alone},
            private={**state.private, ENCODERS_USED: torch.tensor(float(len(places)))},
            result=model,
        )
