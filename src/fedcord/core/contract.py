"""The contract between an algorithm and everything else.

An algorithm is a frozen object of hyper-parameters with pure verbs over named tensors. It keeps
nothing between calls: the server's knowledge is a `ServerState`, a client's is its `memory`, and
all randomness comes from `env.generator`. The round loop, the engines and the transport know
nothing about any particular algorithm.

The smallest one learns how often each class occurs:

    @dataclass(frozen=True)
    class ClassFrequencies:
        traits = Traits(rounds=1, additive=True)

        def review(self, task):
            return Review()

        def init(self, env):
            return ServerState(shared={"frequency": torch.zeros(env.task.num_classes)})

        def expected_update(self, shared, env):
            return {"count": TensorSpec((env.task.num_classes,), torch.float32)}

        def client_update(self, shared, memory, data, env):
            count = torch.bincount(data.train.labels, minlength=env.task.num_classes).float()
            return ClientResult(Update({"count": count}, weight=len(data.train)))

        def aggregate(self, state, updates, env):
            total = sum(update.tensors["count"] for _, update in updates)
            return state.next(shared={"frequency": total / total.sum()})

        def predictor(self, shared, memory, env):
            return Predictor(lambda inputs: shared["frequency"].expand(inputs.shape[0], -1))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Generator, Tensor

from fedcord.core.examples import ClientData
from fedcord.core.names import client_said
from fedcord.core.rng import SERVER, torch_generator
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

ClientId = int


@dataclass(frozen=True)
class ServerState:
    """All the server knows after a round.

    Attributes:
        shared: sent to clients in every round.
        private: never leaves the server.
        round: how many rounds are done.
        result: what prediction needs beside `shared`, such as the members of an ensemble; not sent
            to clients that train.
    """

    shared: Tensors
    private: Tensors = field(default_factory=dict)
    round: int = 0
    result: Tensors = field(default_factory=dict)

    def next(
        self,
        shared: Tensors,
        private: Tensors | None = None,
        result: Tensors | None = None,
    ) -> ServerState:
        """The state one round later; `private` and `result` are kept when not given."""
        return ServerState(
            shared,
            self.private if private is None else private,
            self.round + 1,
            self.result if result is None else result,
        )

    @property
    def model(self) -> Tensors:
        """What `predictor` and `personalize` get: everything shared, and the result."""
        return {**self.shared, **self.result}


@dataclass(frozen=True)
class Update:
    """All that a client reveals.

    Attributes:
        tensors: must agree with the algorithm's `expected_update`.
        weight: usually the number of training examples.
        metrics: numbers for the log; the server must not need them.
    """

    tensors: Tensors
    weight: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientResult:
    """What a client's work yields: the update is sent, the memory stays with the client."""

    update: Update
    memory: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class Env:
    """Where a verb runs: the task, the address of its random streams, and its place in the run.

    Attributes:
        task: the learning problem.
        seed: the run's seed.
        round: number of the current round, from 0.
        num_rounds: how many rounds the run has, for schedules.
        client: the client's number; None on the server.
        names: of the clients that have one, for messages and nothing else.
    """

    task: Task
    seed: int
    round: int = 0
    num_rounds: int = 1
    client: ClientId | None = None
    names: Mapping[ClientId, str] = field(default_factory=dict)

    def generator(self, purpose: str) -> Generator:
        """The random stream of (seed, purpose, round, client)."""
        client = SERVER if self.client is None else self.client
        return torch_generator(self.seed, purpose, self.round, client)

    def at(self, client: ClientId) -> Env:
        """The same place seen from a client."""
        return dataclasses.replace(self, client=client)

    def said(self, client: ClientId) -> str:
        """A client as a message calls it, such as "client 'North' (7)"."""
        return client_said(client, self.names)


Updates = Iterator[tuple[ClientId, Update]]
"""Checked updates in ascending client number; can be read once."""


@dataclass(frozen=True)
class Traits:
    """What a configured algorithm is and can do: the one thing engines and experiments look at.

    Below the blank line, every trait announces verbs that not all algorithms have, which are
    described in protocols: those of engines at the end of this module, others where they are used.
    None says nothing, and the verbs must not be there; False says that they are there but not used
    with these parameters. Both are checked by `fedcord.core.declaration`.

    Attributes:
        rounds: rounds the method needs (1 for one-shot), or None when the user chooses.
        additive: updates are sums over examples: splitting a client in two changes nothing.
        keeps_own_models: every client keeps its own model and there is no common one. Networks may
            then differ, and the server's test is the mean over all clients that have taken part.
        mixes_networks: clients may have different networks although they make one model. What a
            client must send may then depend on who it is, and not all need send the same.
        looks_through_network: inputs are used only as prepared and only through the network's
            features. Where the network is frozen, its features can be given instead.
        gathers_examples: updates hold training examples, for bounds in simulations; sites refuse.
        settles_first: how many rounds make something that does depend on who holds what, and what
            that is, in words, where the rounds after them do not; None when there are none.

        personalizes: there is a model per client, made by `personalize`.
        stacks: several clients can be trained in one go, by `client_updates` where `can_stack`.
        shares_work: `work` says what decides a client's work.
        probes: some rounds only look at what would be aggregated now, those where `is_probe`.
        observes: `observations` says what metrics show to have gone wrong.
        holds_sums: the server's private state is a sum of messages, of which clients can be taken
            out, by the verbs of `fedcord.algorithms.analytic.membership`.
        holds_encoders: the model holds encoders that single clients trained, which can be taken
            out, by the verbs of `fedcord.experiment.forget`.
        sums_suffice: rounds need only sums or means of updates where `needs_only` says so.
        examines: `objection` says what is wrong with an update whose form is as agreed.
        accounts_privacy: `privacy_spent` says what noise guarantees; see `fedcord.core.privacy`.
    """

    rounds: int | None = None
    additive: bool = False
    keeps_own_models: bool = False
    mixes_networks: bool = False
    looks_through_network: bool = False
    gathers_examples: bool = False
    settles_first: tuple[int, str] | None = None

    personalizes: bool | None = None
    stacks: bool | None = None
    shares_work: bool | None = None
    probes: bool | None = None
    observes: bool | None = None
    holds_sums: bool | None = None
    holds_encoders: bool | None = None
    sums_suffice: bool | None = None
    examines: bool | None = None
    accounts_privacy: bool | None = None


@dataclass(frozen=True)
class Review:
    """What an algorithm, or a part of one, says about its settings for a task before a run.

    Attributes:
        errors: settings that do not fit, in words; the run does not start.
        notes: what fits but deserves a second look; the report shows it.
    """

    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Review) -> Review:
        return Review(self.errors + other.errors, self.notes + other.notes)


@dataclass(frozen=True)
class FeatureView:
    """What a model makes of examples inside.

    Attributes:
        features: [B, D].
        prototypes: [C, M, D] what the method holds for each class, rows of NaN for classes it has
            nothing for; None: it holds no prototypes.
    """

    features: Tensor
    prototypes: Tensor | None


Scores = Callable[[Tensor], Tensor]
"""Prepared inputs [B, ...] to class scores [B, C]."""


@dataclass(frozen=True)
class Predictor:
    """A model ready to answer: functions of prepared inputs [B, ...] and of nothing else.

    All that does not depend on inputs is done when the predictor is made, once for however many
    batches follow, and what it needs it owns: it answers the same whatever happens to the task's
    networks or to other predictors in the meantime. Its functions are tensors in, tensors out,
    without gradients, and an example's answer does not depend on the batch it comes in.

    Attributes:
        scores: class scores [B, C].
        scores_by_rule: where there are several ways to answer, the class scores by name of the
            rule; all are counted, and the first is what `scores` gives.
        features: what the model makes of inputs inside, where one network makes it.
    """

    scores: Scores
    scores_by_rule: Callable[[Tensor], Mapping[str, Tensor]] | None = None
    features: Callable[[Tensor], FeatureView] | None = None


class Algorithm(Protocol):
    """A federated algorithm: its traits and six verbs; see the module's example."""

    @property
    def traits(self) -> Traits:
        """What this configuration is and can do; a property or a constant of the class."""
        ...

    def review(self, task: Task) -> Review:
        """Asked once before a run: what does not fit the task, and what deserves a second look.

        Parts that have an opinion, such as `LocalSGD`, are asked by the algorithm.
        """
        ...

    def init(self, env: Env) -> ServerState:
        """The state before the first round."""
        ...

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """What a client must send in this round; anything else is refused on arrival."""
        ...

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One client's work in one round. `memory` is empty on the first visit."""
        ...

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The server's work in one round; there is at least one update."""
        ...

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The model, ready to answer.

        `shared` is `ServerState.model`; `memory` is empty on the server.
        """
        ...


class Personalizes(Protocol):
    """The verb of `Traits.personalizes`."""

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's new memory, made after the last round."""
        ...


class Probes(Protocol):
    """The verb of `Traits.probes`: early rounds that look at what would be aggregated now.

    A one-shot method exchanges once, but one wants to see how it would do after part of the local
    training. Such rounds are probes: nothing of them is counted as traffic, clients must not learn
    anything from them, so `shared` must not change, and their clients are those of the exchange.
    """

    def is_probe(self, env: Env) -> bool:
        """Whether the round of `env` would not happen in a deployment."""
        ...


class Observes(Protocol):
    """The verb of `Traits.observes`."""

    def observations(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """What metrics show to have gone wrong.

        Asked during the run about each client's metrics, but not told who it is; and after the last
        round about the server's, those named `metric.*`, without that prefix.
        """
        ...


class Examines(Protocol):
    """The verb of `Traits.examines`: a second look at updates that arrive in the open.

    Names, shapes, types and amounts are compared with `expected_update` before. An update that is
    objected to is refused like any that does not fit: by name, and the round goes on without it.
    """

    def objection(self, update: Update, env: Env) -> str | None:
        """What the client of `env` did wrong, in words that follow its name; None: nothing."""
        ...


Combination = Literal["sum", "mean"]
"""What the server needs of all updates: the sums of their tensors, or the means by weight; and in
both cases the sum of weights."""


class SumsSuffice(Protocol):
    """The verb of `Traits.sums_suffice`: rounds whose updates may be added up before they are read.

    In a masked round `aggregate` gets everybody's update as usual, in ascending order, but the
    first one holds the combination of all, with their whole weight, and the others are zero with
    weight 0. The state must be the one that the single updates would have led to.
    """

    def needs_only(self, env: Env) -> Combination | None:
        """What is enough in the round of `env`; None: the server must see single updates.

        Means are of real tensors; whole numbers in an update, which count events, are rounded.
        """
        ...


METRIC = "metric"
"""Prefix of private scalars that are written to the log after every round."""


class TrainsStacked(Protocol):
    """The verbs of `Traits.stacks`: training several clients in one go where the task allows it.

    Every result must have the very bits that `client_update` gives for that client alone.
    """

    def can_stack(self, task: Task) -> bool:
        """Whether `client_updates` works for this task."""
        ...

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """`client_update` for several clients."""
        ...


@dataclass(frozen=True)
class Work:
    """What decides a client's work, beside its data, its memory and the run's seed.

    Attributes:
        settings: plain values, with a name for the procedure and the number of the round if either
            matters.
        received: the tensors of `shared` that are used.
    """

    settings: Mapping[str, Any]
    received: Tensors


class SharesWork(Protocol):
    """The verb of `Traits.shares_work`.

    Two algorithms that say the same do the same: equal clients send equal bits. A study may then
    take a client's answer from one to the other.
    """

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """All but a client's data and memory that decides `client_update`; None: not to share."""
        ...
