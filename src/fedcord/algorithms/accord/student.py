"""One network that learns what accord's encoders and head know, by federated averaging.

Reference: this library; distillation is that of Hinton, Vinyals and Dean (2015), with the squared
error of Ba and Caruana (2014); the rounds are FedAvg's.

accord ends with M encoders under one head: every prediction takes M forward passes, and
`refinements` are not shown to gain anything. Here accord is the teacher. Once its head is solved,
clients train one network by federated averaging, each on its own samples, towards the teacher's
scores of them. Those are the same function of a sample at every client, whatever classes it has,
which labels are not.

    loss = (1 − w) · CE(label, student(x)) + w · ‖teacher(x) − student(x)‖²

The teacher's scores are regressions of one-hot codes, so that the squared error is that of the head
itself. Predictions are the student's alone.

Travels: as accord; then down the student's first weights and the head, once, since encoders are
with clients already; then the student, down and up in every round. Stays: samples, and the
teacher's scores of them or its encoders, until the rounds without a teacher.

| symbol | here |
|---|---|
| w | `student.weight` |
| rounds with a teacher, rounds after them | `student.rounds`, `student.free_rounds` |

Limits: with w = 0, `start=seed` and the same clients in each, the student's rounds are FedAvg's,
bit for bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.iterative import EXCHANGES, RESIDUAL
from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    ENCODER,
    chosen_clients,
    received_encoder,
)
from fedcord.algorithms.accord.phases import Phase
from fedcord.algorithms.analytic.closed_form import SEEN, WEIGHT
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, model_update, received_model
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
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

TEACHER, ANSWERS, LARGEST = "teacher", "answers", "largest"
"""What clients keep: encoders and head, or their scores of its samples [N, C]; and what the server
keeps: who has most samples of those whose encoder is used."""


@dataclass(frozen=True)
class Student:
    """How much of the teacher the student hears, and for how long."""

    rounds: int = param(20, "rounds of averaging with the teacher", at_least=1)
    free_rounds: int = param(0, "rounds of averaging after them, without it", at_least=0)
    weight: float = param(
        1.0, "of the teacher in the loss; labels have the rest", at_least=0, at_most=1
    )
    start: str = param(
        "seed",
        "first weights: drawn, or with the encoder of the chosen client with most samples",
        choices=("seed", "largest"),
    )
    teach: str = param(
        "stored",
        "what the teacher is asked about: samples as they are, once, or what the student sees of "
        "them in every step, which costs a forward pass of every encoder",
        choices=("stored", "views"),
    )

    def __post_init__(self) -> None:
        check_params(self)


@dataclass(frozen=True)
class AccordStudent:
    """Accord, distilled into one network by federated averaging."""

    teacher: Accord = param(Accord(), "the teacher: all of accord's parameters")
    student: Student = param(Student(), "how the student learns from it")
    local: LocalSGD = param(LocalSGD(), "how clients train the student")

    def __post_init__(self) -> None:
        check_params(self)
        problems = []
        if self.teacher.personal:
            problems.append(
                "teacher.personal: predictions are the student's, which has no personal heads; "
                "leave it out, or use accord."
            )
        if self.teacher.privacy.is_on:
            problems.append(
                "teacher.privacy.epsilon: the student is trained on clients' samples without "
                "noise, so that nothing could be claimed; use accord."
            )
        if problems:
            raise ConfigError(problems)

    @property
    def traits(self) -> Traits:
        """Accord's rounds, then those of averaging; encoders may differ, the student is one."""
        return Traits(
            rounds=self._before + self.student.rounds + self.student.free_rounds,
            mixes_networks=True,
            shares_work=True,
            observes=True,
            sums_suffice=True,
            examines=True,
        )

    def review(self, task: Task) -> Review:
        """What teacher and local training need."""
        return self.teacher.review(task) + self._averaging.review(task)

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What metrics show to have gone wrong with a client's encoder, or the teacher's head."""
        return self.teacher.observations(metrics)

    def needs_only(self, env: Env) -> Combination | None:
        """As the teacher, then as averaging."""
        if self._is_teachers(env):
            return self.teacher.needs_only(self._teachers(env))
        return self._averaging.needs_only(self._students(env))

    def objection(self, update: Update, env: Env) -> str | None:
        """As the teacher objects to encoders."""
        return self.teacher.objection(update, env) if self._is_teachers(env) else None

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """Encoders are trained as accord's are."""
        return self.teacher.work(shared, self._teachers(env)) if self._is_teachers(env) else None

    def init(self, env: Env) -> ServerState:
        """The teacher's."""
        return self.teacher.init(self._teachers(env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """What the teacher needs, then a model."""
        if self._is_teachers(env):
            return self.teacher.expected_update(shared, self._teachers(env))
        return self._averaging.expected_update(shared, self._students(env))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Its part in making the teacher, then in training the student."""
        if self._is_teachers(env):
            here = self._teachers(env)
            done = self.teacher.client_update(shared, memory, data, here)
            held = _encoders(shared) or select(memory, TEACHER)
            is_wanted = self.student.weight > 0 and env.round > self._settled
            kept = prefixed(TEACHER, held) if is_wanted else {}
            return ClientResult(done.update, {**done.memory, **kept})
        here = self._students(env)
        if self.student.weight == 0 or here.round >= self.student.rounds:
            return self._averaging.client_update(shared, {}, data, here)
        kept = self._lesson(shared, memory, data.train, env)
        network = received_model(shared, here)
        # the teacher is asked at its own place: its encoders may be of several networks
        answers = self._asking(kept, data.train.labels.to(env.task.device), env)
        metrics = self._taught(network, answers, data.train, here)
        return ClientResult(model_update(network, data, metrics), kept)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The teacher, then the mean of students."""
        if not self._is_teachers(env):
            after = self._averaging.aggregate(state, updates, self._students(env))
            return dataclasses.replace(after, private=_unsolved(state.private), result={})
        sizes: dict[ClientId, float] = {}
        after = self.teacher.aggregate(state, _noted(updates, sizes), self._teachers(env))
        largest = self._largest(state, after, sizes, env)
        if env.round + 1 < self._before:
            return dataclasses.replace(after, private={**after.private, **largest})
        made = after.model
        first = self._averaging.init(self._students(env)).shared
        if largest:
            encoder = received_encoder(made, int(largest[LARGEST]))
            first = {**first, **prefixed(MODEL, encoder)}
        head = {} if self.student.weight == 0 else {name: made[name] for name in (WEIGHT, SEEN)}
        is_solved = not self.teacher.observations(_metrics(after.private))
        kept = {} if is_solved else _unsolved(after.private)
        # the teacher answers until there is a student that has learnt anything
        return dataclasses.replace(after, shared={**first, **head}, private=kept, result=made)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The student; the teacher as long as there is none."""
        if CHOSEN in shared or not select(shared, MODEL):
            return self.teacher.predictor(shared, {}, env)
        return self._averaging.predictor(shared, {}, self._students(env))

    @property
    def _before(self) -> int:
        """Rounds that make the teacher."""
        return len(self.teacher.phases)

    @property
    def _settled(self) -> int:
        """The last round that changes encoders; what is sent later is the teacher's to the end."""
        changing = (Phase.ENCODE, Phase.REFINE)
        return max(number for number, phase in enumerate(self.teacher.phases) if phase in changing)

    @property
    def _averaging(self) -> FedAvg:
        return FedAvg(self.local)

    def _is_teachers(self, env: Env) -> bool:
        return env.round < self._before

    def _teachers(self, env: Env) -> Env:
        """The same place in a run of accord alone."""
        return dataclasses.replace(env, num_rounds=self._before)

    def _students(self, env: Env) -> Env:
        """The same place in a run of averaging alone, where everybody has the server's network."""
        rounds, task = self.student.rounds + self.student.free_rounds, env.task
        if len(task.networks) > 1:
            task = dataclasses.replace(task, networks=task.networks[:1])
        round_ = max(env.round - self._before, 0)
        return dataclasses.replace(env, task=task, round=round_, num_rounds=rounds)

    def _largest(
        self, before: ServerState, after: ServerState, sizes: Mapping[ClientId, float], env: Env
    ) -> dict[str, Tensor]:
        """Whose encoder the student starts with, from the round that hands encoders on.

        Nobody's if all have other networks than the student.
        """
        if self.student.start == "seed" or LARGEST in before.private:
            return {name: t for name, t in before.private.items() if name == LARGEST}
        if self.teacher.phases[env.round] is not Phase.ENCODE:
            return {}
        like = [k for k in chosen_clients(after.shared) if env.task.architecture(k) == 0]
        return {LARGEST: torch.tensor(max(like, key=sizes.__getitem__))} if like else {}

    def _lesson(
        self, shared: Tensors, memory: Tensors, data: Examples, env: Env
    ) -> dict[str, Tensor]:
        """What a client learns from and keeps; nothing if it was not sent the teacher whole."""
        if WEIGHT not in shared:
            is_whole = ANSWERS in memory or f"{TEACHER}.{WEIGHT}" in memory
            return dict(memory) if is_whole else {}
        encoders = select(memory, TEACHER)
        if not encoders:
            return {}
        teacher = {**encoders, WEIGHT: shared[WEIGHT], SEEN: shared[SEEN]}
        if self.student.teach == "views":
            return prefixed(TEACHER, teacher)
        return {ANSWERS: self._answers(teacher, data, env)}

    def _answers(self, teacher: Tensors, data: Examples, env: Env) -> Tensor:
        """The teacher's scores [N, C] float32 of samples as they are."""
        ask = self.teacher.predictor(teacher, {}, env).scores
        parts = [
            ask(env.task.prepare(part).to(env.task.device)) for part in data.inputs.split(1024)
        ]
        empty = torch.zeros(0, env.task.num_classes, dtype=torch.float64)
        return torch.cat([empty, *parts]).float()

    def _taught(
        self,
        network: nn.Module,
        answers: Callable[[Tensor, Tensor], Tensor],
        data: Examples,
        env: Env,
    ) -> dict[str, float]:
        """Train the student's network in place."""
        weight, labels = self.student.weight, data.labels.to(env.task.device)

        def loss(network: nn.Module, inputs: Tensor, numbers: Tensor) -> Tensor:
            goal = answers(inputs, numbers)
            own = network.train()(inputs)  # the teacher may have used the same module
            taught: Tensor = (goal - own).square().sum(dim=1).mean()
            if weight == 1:
                return taught
            return weight * taught + (1 - weight) * F.cross_entropy(own, labels[numbers])

        # what the teacher says of a sample depends on which it is, so labels are their numbers
        numbered = Examples(data.inputs, torch.arange(len(data)))
        return self.local.train(network, numbered, loss, env)

    def _asking(
        self, lesson: Tensors, labels: Tensor, env: Env
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """(prepared inputs [B, ...], numbers [B] of the samples) to the teacher's scores [B, C].

        Without a teacher, the codes of labels, which are what it regresses.
        """
        if not lesson:
            codes = F.one_hot(labels, env.task.num_classes).float()
            return lambda _, numbers: codes[numbers]
        if ANSWERS in lesson:
            answers = lesson[ANSWERS].to(env.task.device)
            return lambda _, numbers: answers[numbers]
        scores = self.teacher.predictor(select(lesson, TEACHER), {}, env).scores
        return lambda inputs, _: scores(inputs).float().to(env.task.device)


def _noted(updates: Updates, sizes: dict[ClientId, float]) -> Updates:
    """The same updates; how many samples each is of is noted as it passes."""
    for client, update in updates:
        sizes[client] = update.weight
        yield client, update


def _unsolved(private: Tensors) -> dict[str, Tensor]:
    """How a teacher's head ended that was not solved to the end, which the last round tells of."""
    return {name: private[name] for name in (RESIDUAL, EXCHANGES) if name in private}


def _metrics(private: Tensors) -> dict[str, float]:
    return {name: float(tensor) for name, tensor in select(private, METRIC).items()}


def _encoders(shared: Tensors) -> dict[str, Tensor]:
    """What a client needs of the teacher beside its head, where it is sent."""
    encoders = prefixed(ENCODER, select(shared, ENCODER))
    return {CHOSEN: shared[CHOSEN], **encoders} if encoders else {}
