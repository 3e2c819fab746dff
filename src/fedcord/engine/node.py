"""The node: everything that happens where data is.

A node is made from an algorithm and its task, a source of data and a store of memory. It has one
entry, `handle`: bytes in, bytes out. The same code runs in every engine; engines differ only in how
the bytes get here. Asking for the same step again gives the same bytes again, so that an answer
that was lost can be asked for once more.

| verb | does | answers with |
|---|---|---|
| `hello` | nothing | who lives here, numbers of examples, version, configuration, task, data |
| `survey` | before there is a task: only sites answer it, from their data | what a task needs |
| `update` | one round of a client's work; keeps its memory | the update |
| `personalize` | makes the client's own model; keeps it | nothing |
| `evaluate` | tests on the client's test part, or on the common test set | sums |
| `validate` | tests on the part kept for selection | sums |
| `predict` | answers for given inputs | class scores |
| `forget` | the client's last work once more; its memory is deleted | the update to take out |
| `memory` | gives or takes a client's memory: simulations only | the memory |

In a masked round (see `fedcord.secure`) four verbs take the place of `update`. A node that agreed
to masks no longer answers `update` and `forget` in rounds that can have them.

| verb | does | answers with |
|---|---|---|
| `advertise` | draws fresh keys | public keys |
| `share` | shares its secrets among all who advertised | sealed shares |
| `mask` | one round of a client's work; keeps its memory | the masked update |
| `unmask` | nothing | one share of each site's secret |
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from torch import Tensor

from fedcord.core.contract import (
    Algorithm,
    ClientId,
    ClientResult,
    Env,
    Personalizes,
    Update,
)
from fedcord.core.errors import CheckpointError, FedcordError, ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.names import LONGEST_CLIENT_NAME, client_said, readable
from fedcord.core.passes import Passes
from fedcord.core.prediction import make_predictor
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, select
from fedcord.engine.agreement import Agreement, Introduction
from fedcord.engine.attack import Attack
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.evaluation import evaluate
from fedcord.engine.memory_store import MemoryStore
from fedcord.engine.requests import (
    MASKING,
    TOOK,
    Parcel,
    Reply,
    Request,
    answered,
    count,
    pack_failure,
    pack_replies,
    refused,
    sayable,
    unpack_call,
)
from fedcord.engine.reuse import Visit, WorkCache
from fedcord.engine.summands import needs_only
from fedcord.engine.visits import do_visits
from fedcord.metrics.sums import Detail
from fedcord.secure.availability import check_available

INPUTS = "inputs"
"""Name of what `predict` is asked about, beside what is shared."""


class DataSource(Protocol):
    """The data of the clients that live at a node."""

    @property
    def clients(self) -> Sequence[ClientId]:
        """Who lives here."""
        ...

    @property
    def names(self) -> Mapping[ClientId, str]:
        """What those are called that have a name."""
        ...

    @property
    def fingerprint(self) -> str:
        """Differs wherever the data differs."""
        ...

    @property
    def test(self) -> Examples:
        """The common test set; empty where there is none."""
        ...

    @property
    def test_groups(self) -> Mapping[str, Tensor]:
        """By name, the group of every example of the common test set."""
        ...

    def client(self, client: ClientId) -> ClientData:
        """One client's data."""
        ...

    def sizes(self, client: ClientId) -> tuple[int, int, int]:
        """Its numbers of training, validation and test examples."""
        ...


class ClientNode:
    """Clients' data, what they keep, and the algorithm's client half."""

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        source: DataSource,
        store: MemoryStore,
        agreement: Agreement | None = None,
        cache: WorkCache | None = None,
        introduction: Introduction = Introduction(),  # noqa: B008 - frozen
        attack: Attack | None = None,
    ) -> None:
        self._algorithm = algorithm
        self._task = task
        self._source = source
        self._store = store
        self._agreement = agreement or Agreement()
        self._cache = cache
        self._introduction = introduction
        self._attack = attack

    @staticmethod
    def of(
        blueprint: Blueprint,
        source: DataSource,
        store: MemoryStore,
        agreement: Agreement | None = None,
        cache: WorkCache | None = None,
    ) -> ClientNode:
        """A node whose algorithm and task are built from plain values."""
        made = blueprint.build_algorithm(), blueprint.build_task()
        attack = None if blueprint.attack is None else Attack.from_plain(blueprint.attack)
        return ClientNode(*made, source, store, agreement, cache, attack=attack)

    def handle(self, message: bytes) -> bytes:
        """Do what a message asks for; whatever goes wrong is said in the answer."""
        try:
            return pack_replies(list(self.answer(*unpack_call(message))))
        except FedcordError as error:
            return pack_failure(error)

    def answer(self, request: Request, parcel: Parcel) -> Iterator[Reply]:
        """The same without bytes: the replies of the parcel's clients, in their order."""
        strangers = [client for client in parcel.clients if client not in self._source.clients]
        if strangers:
            who = client_said(strangers[0], self._source.names)
            raise ProtocolError(f"{who} does not live at this node.")
        if request.verb == "hello":
            yield self._hello(request)
        elif request.verb == "survey":
            raise ProtocolError("this node has its task already; only sites answer a survey.")
        elif request.verb == "update":
            self._check_open(request)
            for visit, done in self._work(request, parcel.clients):
                yield done if isinstance(done, Reply) else _sent(request, visit, done)
        elif request.verb in MASKING:
            check_available()
            if request.verb == "mask":
                yield from self._masked_updates(request, parcel)
            else:
                from fedcord.engine.site_steps import steps

                agreed, names = self._agreement.secure, self._source.names
                yield from steps(self._store, request, parcel, agreed, names)
        elif request.verb == "evaluate" and not parcel.clients:
            yield self._common_test(request, parcel.options)
        else:
            for client in parcel.clients:
                yield self._visit(request, client, parcel.options)

    def _hello(self, request: Request) -> Reply:
        found = {
            "version": self._agreement.version,
            "configuration": self._agreement.configuration,
            "task": dict(self._agreement.task),
            "data": self._source.fingerprint,
            "members": [[k, *self._source.sizes(k), self._name(k)] for k in self._source.clients],
            "common_test": len(self._source.test),
            "keepers": [k for k in self._source.clients if self._store.newest_step(k) is not None],
            "introduction": self._introduction.plain(),
        }
        return answered(request, None, values=found)

    def _name(self, client: ClientId) -> str:
        """What a client is called, so that the server can show it; nothing if it has no name."""
        return readable(self._source.names.get(client, ""))[:LONGEST_CLIENT_NAME]

    def _env(self, request: Request, client: ClientId) -> Env:
        return request.env(self._task, client, self._source.names)

    def _kept(self, client: ClientId, step: int) -> Tensors:
        """What a client kept before a step."""
        try:
            return self._store.before(client, step)
        except CheckpointError as error:
            who = client_said(client, self._source.names)
            raise CheckpointError(f"{who}: {error}") from error

    def _check_open(self, request: Request) -> None:
        """Refuse to send in the open what was agreed to be masked."""
        needs = needs_only(self._algorithm, request.env(self._task))
        if self._agreement.secure is not None and needs is not None:
            raise ProtocolError(
                f"it was agreed that this round is masked, so '{request.verb}' is not answered."
            )

    def _masked_updates(self, request: Request, parcel: Parcel) -> Iterator[Reply]:
        """As `update`, under masks."""
        from fedcord.engine.site_steps import Masking

        needs = needs_only(self._algorithm, request.env(self._task))
        if needs is None:
            raise ProtocolError("this round cannot be masked: its updates are needed one by one.")
        masking, request = Masking.of(self._store, request, parcel, needs, self._source.names)
        for visit, done in self._work(request, parcel.clients):
            if isinstance(done, Reply):
                yield done
            else:
                agreed = self._algorithm.expected_update(request.shared, visit.env)
                # passes would tell how many examples there are, which the mask hides
                cost = {name: value for name, value in done.cost.items() if name != TOOK}
                values = {**cost, "keeps": bool(done.result.memory)}
                yield masking.reply(visit.client, done.result.update, agreed, values)

    def _work(
        self, request: Request, clients: Sequence[ClientId]
    ) -> Iterator[tuple[Visit, _Done | Reply]]:
        """The work of clients that are visited together, some of it perhaps done before.

        In place of work that is not sound, the reply that says so.
        """
        visits = [
            Visit(
                client,
                self._source.client(client),
                self._kept(client, request.step),
                self._env(request, client),
            )
            for client in clients
        ]
        done = {} if self._cache is None else self._cache.take(self._algorithm, request, visits)
        fresh = [visit for visit in visits if visit.client not in done]
        results = do_visits(self._algorithm, self._task, request.shared, fresh)
        for visit in visits:
            if visit.client in done:
                result, cost = done[visit.client]
            else:
                started = time.perf_counter()
                with self._task.passes.account() as own:
                    found = next(results)
                took = own + self._task.passes.apart.pop(visit.client, Passes())
                if isinstance(found, str):
                    yield visit, refused(request, visit.client, found)
                    continue
                result = found
                if self._cache is not None:
                    seconds = time.perf_counter() - started
                    self._cache.put(self._algorithm, request, visit, result, seconds, took)
                cost = {TOOK: took.plain()}
            self._store.keep(visit.client, request.step, result.memory)
            sent = self._to_send(result.update, request, visit.env)
            yield visit, _Done(replace(result, update=sent), cost)

    def _to_send(self, update: Update, request: Request, env: Env) -> Update:
        """A client's update, or what a simulated attacker makes of it."""
        if self._attack is None:
            return update
        expected = self._algorithm.expected_update(request.shared, env)
        checked = [name for name, spec in expected.items() if spec.bounds_values]
        return self._attack.on(update, request.shared, env, checked)

    def _common_test(self, request: Request, options: Mapping[str, Any]) -> Reply:
        """The shared model on a part of the common test set."""
        env = request.env(self._task)
        test, groups = self._source.test, self._source.test_groups
        span = _whole(options, "first", 0), _whole(options, "last", len(test))
        detail = Detail.of(options)
        sums = evaluate(self._algorithm, request.shared, {}, test, env, groups, *span, detail)
        return answered(request, None, sums.tensors(), sums.plain())

    def _visit(self, request: Request, client: ClientId, options: Mapping[str, Any]) -> Reply:
        """What is asked of one client alone."""
        data, env = self._source.client(client), self._env(request, client)
        if request.verb == "memory":
            return self._memory(request, client, options)
        memory = self._kept(client, request.step)
        if request.verb == "personalize":
            if not self._algorithm.traits.personalizes:
                raise ProtocolError("this method makes no personal models.")
            method = cast(Personalizes, self._algorithm)
            with self._task.passes.account() as took:
                made = method.personalize(request.shared, memory, data, env)
            self._store.keep(client, request.step, made)
            return answered(request, client, values={"keeps": bool(made), TOOK: took.plain()})
        if request.verb == "forget":
            self._check_open(request)
            update = self._algorithm.client_update(request.shared, {}, data, env).update
            update = self._to_send(update, request, env)
            self._store.drop(client)
            return answered(request, client, update.tensors, sayable(update))
        if request.verb == "predict":
            if INPUTS not in request.shared:
                raise ProtocolError(f"a request to predict holds no {INPUTS}.")
            shared = {name: t for name, t in request.shared.items() if name != INPUTS}
            inputs = self._task.prepare(request.shared[INPUTS]).to(self._task.device)
            predictor = make_predictor(self._algorithm, shared, memory, env)
            scores = predictor.scores(inputs).cpu()
            return answered(request, client, {"scores": scores})
        part, groups = data.test if request.verb == "evaluate" else data.validation, {}
        if options.get("common"):
            part, groups = self._source.test, dict(self._source.test_groups)
        detail = Detail.of(options)
        sums = evaluate(self._algorithm, request.shared, memory, part, env, groups, detail=detail)
        if not self._introduction.tells_classes and not options.get("common"):
            sums = sums.without_classes()
        return answered(request, client, sums.tensors(), sums.plain())

    def _memory(self, request: Request, client: ClientId, options: Mapping[str, Any]) -> Reply:
        """Give what a client keeps, or take what it shall keep."""
        if not self._introduction.gives_memory:
            who = client_said(client, self._source.names)
            raise ProtocolError(f"what {who} keeps stays where it is.")
        if "take" in options:
            step = _whole(options, "take", 0)
            self._store.drop(client)
            self._store.keep(client, step, select(request.shared, str(client)))
            return answered(request, client, values={"keeps": True})
        newest = self._store.newest_step(client)
        if newest is None:
            return answered(request, client, values={"left_by": None})
        kept = self._kept(client, newest + 1)
        return answered(request, client, kept, {"left_by": newest})


@dataclass(frozen=True)
class _Done:
    """A client's work, and what it took, with the seconds if it was done earlier."""

    result: ClientResult
    cost: Mapping[str, Any]


def _sent(request: Request, visit: Visit, done: _Done) -> Reply:
    """The update, in the open."""
    update, keeps = done.result.update, bool(done.result.memory)
    values = {**done.cost, **sayable(update), "keeps": keeps}
    return answered(request, visit.client, update.tensors, values)


def _whole(options: Mapping[str, Any], name: str, default: int) -> int:
    try:
        return count(options.get(name, default))
    except ValueError as error:
        raise ProtocolError(f"a parcel's {name} is wrong: {error}.") from error
