"""The server's side of the seam: who is there, what they said, and what passed.

A federation knows of clients only what nodes told it when it called the roll. It cuts a request
into parcels, hands them to the transport, puts the answers into the order of clients, and tells
apart who answered, who refused, who was late and who was not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedcord.core.contract import ClientId
from fedcord.core.errors import ConfigError, FedcordError, ProtocolError
from fedcord.core.names import client_said, clients_listed, told_name
from fedcord.core.tensors import Tensors, num_bytes, prefixed
from fedcord.engine.agreement import Agreement, Introduction
from fedcord.engine.evaluation import BATCH
from fedcord.engine.holders import Holders
from fedcord.engine.patience import Patience
from fedcord.engine.requests import Parcel, Reply, Request, count, unpack_replies
from fedcord.engine.traffic import ROUND, WEIGHT_BYTES, Phase, Traffic
from fedcord.engine.transport import PARCELS_PER_NODE, Delivery, Outcome, Transport
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.metrics.sums import Detail, Evaluation

STACK_CLIENTS = 8
"""Clients visited in one parcel at most; more no longer amortise calls but leave the cache."""


@dataclass(frozen=True)
class Member:
    """What the server was told about a client.

    Attributes:
        train: training examples.
        validation: examples kept for selection.
        test: examples of its own test part.
        name: what it is called; nothing where it has no name.
        data: fingerprint of the data where it lives.
        introduction: what else its node told.
    """

    train: int
    validation: int
    test: int
    name: str = ""
    data: str = ""
    introduction: Introduction = field(default_factory=Introduction)


@dataclass(frozen=True)
class Missing:
    """A client whose answer did not come."""

    client: ClientId
    outcome: Outcome
    reason: str


class Federation:
    """All the clients there are, as far as the server can know.

    Attributes:
        members: by client, what nodes told of it.
        common_test: examples of the common test set; 0 where there is none.
        traffic: bytes by phase, since somebody last took it.
        holders: who was sent what for training.
        events: what went wrong with whom, since somebody last emptied the list.
    """

    def __init__(
        self,
        transport: Transport,
        run: str = "",
        agreement: Agreement | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """Call the roll.

        Args:
            transport: the way to reach nodes.
            run: identity of the run, which every reply must echo.
            agreement: what every node must have in common with the server.
            patience: of every exchange.
        """
        self.members: dict[ClientId, Member] = {}
        self.common_test = 0
        self.traffic: dict[Phase, Traffic] = {}
        self.holders = Holders()
        self.events: list[str] = []
        self.patience = patience
        self._transport = transport
        self._run = run
        self._agreement = agreement
        self._homes: dict[ClientId, list[int]] = {}
        self._keepers: set[ClientId] = set()
        self._heard: set[int] = set()
        self._testers: list[int] = []
        self.call_the_roll()

    def call_the_roll(self) -> None:
        """Ask every node that was not heard yet who lives there.

        One that does not fit, or cannot answer, is refused by name.
        """
        parcels = [Parcel(node=node) for node in self._transport.nodes if node not in self._heard]
        hello = Request("hello", run=self._run)
        for delivery in self._transport.exchange(hello, parcels) if parcels else ():
            if delivery.outcome == "absent":
                continue  # and asked again next time
            node = parcels[delivery.place].node
            assert node is not None
            self._heard.add(node)
            if delivery.outcome != "arrived":
                self.events.append(f"node {node} was refused: {delivery.reason}")
            for reply in self._opened(delivery, "roll call"):
                self._admit(reply, node)
        if not self.members:
            raise ConfigError(
                "no client answered the roll call" + "".join(f"; {event}" for event in self.events)
            )

    def _admit(self, reply: Reply, node: int) -> None:
        told = reply.values
        try:
            task = dict(told["task"])
            theirs = Agreement(str(told["configuration"]), task, str(told["version"]))
            data, introduction = str(told["data"]), Introduction.from_plain(told["introduction"])
            members = {
                count(k): Member(
                    count(train), count(validation), count(own), told_name(name), data, introduction
                )
                for k, train, validation, own, name in told["members"]
            }
            test, keepers = count(told["common_test"]), set(map(count, told["keepers"]))
        except (KeyError, TypeError, ValueError) as error:
            self.events.append(f"node {node} was refused: its greeting is incomplete ({error}).")
            return
        differences = [] if self._agreement is None else self._agreement.differences(theirs)
        if self._testers and test != self.common_test:
            differences.append(
                f"its common test set has {test} examples and that of others {self.common_test}"
            )
        if differences:
            who = clients_listed(members, {k: member.name for k, member in members.items()})
            self.events.append(
                f"node {node} with client {who} was refused: {'; '.join(differences)}."
            )
            return
        for client, member in members.items():
            if self.members.setdefault(client, member) != member:
                # what one of them learnt would be tested on the other's
                raise ConfigError(
                    f"two nodes say they are {self.said(client)}, with different data or names."
                )
            self._homes.setdefault(client, []).append(node)
        self._keepers |= keepers & members.keys()
        self._testers.append(node)
        self.common_test = test

    @property
    def names(self) -> dict[ClientId, str]:
        """What those are called that have a name."""
        return {client: member.name for client, member in self.members.items() if member.name}

    def said(self, client: ClientId) -> str:
        """A client as messages call it."""
        return client_said(client, self.names)

    def take_traffic(self) -> dict[Phase, Traffic]:
        """What has passed since this was last asked."""
        traffic, self.traffic = self.traffic, {}
        return traffic

    def _passing(self, phase: Phase) -> Traffic:
        return self.traffic.setdefault(phase, Traffic())

    def take_events(self) -> tuple[str, ...]:
        """What went wrong since this was last asked."""
        events, self.events = tuple(self.events), []
        return events

    def ask(
        self,
        request: Request,
        clients: Sequence[ClientId],
        phase: Phase,
        stacked: bool = False,
        options: Mapping[str, Any] | None = None,
        own: Mapping[ClientId, Tensors] | None = None,
        hurried: bool = False,
    ) -> Iterator[Reply | Missing]:
        """What each of `clients`, which must ascend, answers; in their order.

        Args:
            request: what they are asked.
            clients: whom.
            phase: what the bytes are counted as.
            stacked: whether clients at one place are visited together.
            options: what else the verb needs to know.
            own: what goes to one client alone, which is then not stacked.
            hurried: whether the deadline holds, as it does for all that makes a round.
        """
        request = replace(request, run=self._run)
        parcels = self._parcels(clients, stacked, options or {})
        if own is not None:
            parcels = [replace(parcel, tensors=own[parcel.clients[0]]) for parcel in parcels]
        sent = num_bytes(request.shared)
        waiting = dict[ClientId, Reply | Missing]()
        heard, receivers = set[ClientId](), set[ClientId]()
        turns = iter(clients)
        turn = next(turns, None)
        # what is asked after the rounds is asked of everybody
        deadline = self.patience.deadline if hurried or phase in ROUND else None
        for delivery in self._transport.exchange(request, parcels, deadline):
            asked = delivery.clients or parcels[delivery.place].clients
            for found in self._sorted_out(request, asked, delivery, phase):
                assert found.client is not None
                if found.client in heard:
                    self.events.append(
                        f"{self.said(found.client)} answered twice; the first counts."
                    )
                    continue
                heard.add(found.client)
                waiting[found.client] = found
            if delivery.outcome != "absent":
                alone = num_bytes(parcels[delivery.place].tensors)
                self._passing(phase).down += (sent + alone) * len(asked)
                receivers.update(asked)
            while turn in waiting:
                yield waiting.pop(turn)
                turn = next(turns, None)
        if phase == "training":
            self.holders.note(request.shared, receivers)
        while turn is not None:
            yield waiting.pop(turn, Missing(turn, "absent", "no answer to this request"))
            turn = next(turns, None)

    def evaluate(self, request: Request, detail: Detail, hurried: bool = False) -> Evaluation:
        """The shared model on the common test set, shared out over the nodes.

        Where it is `hurried`, what a node has not answered by the deadline goes to another.
        """
        size = BATCH if len(self._testers) > 1 else max(1, self.common_test)
        starts, more = range(0, self.common_test, size), detail.options()
        request = replace(request, run=self._run)
        found: dict[int, Evaluation] = {}
        for attempt in range(len(self._testers)):  # another may answer what one has not
            missing = [start for start in starts if start not in found]
            spans = [{"first": n, "last": min(n + size, self.common_test), **more} for n in missing]
            parcels = [Parcel((), s, self._tester(i + attempt)) for i, s in enumerate(spans)]
            is_last = attempt + 1 == len(self._testers)
            deadline = self.patience.deadline if hurried and not is_last else None
            for delivery in self._transport.exchange(request, parcels, deadline):
                for reply in self._opened(delivery, "evaluation"):
                    sums = Evaluation.from_plain(reply.values, reply.tensors)
                    found[missing[delivery.place]] = sums
            if len(found) == len(starts):
                return sum((found[start] for start in starts), Evaluation())
        raise ProtocolError("a part of the common test was not answered; run it again.")

    def _tester(self, turn: int) -> int | None:
        """Where a part of the common test is done; None: anywhere."""
        nodes = self._transport.nodes
        there = [node for node in self._testers if node in nodes]
        return there[turn % len(there)] if 0 < len(there) < len(nodes) else None

    @property
    def is_here(self) -> bool:
        """Whether nodes are part of this process."""
        return isinstance(self._transport, SequentialTransport)

    @property
    def run(self) -> str:
        """Identity of the run, which every request names."""
        return self._run

    @property
    def keepers(self) -> tuple[ClientId, ...]:
        """Clients that keep something, in ascending order."""
        return tuple(sorted(self._keepers))

    @property
    def gives_memory(self) -> bool:
        """Whether everybody who keeps something hands it out."""
        return all(self.members[k].introduction.gives_memory for k in self._keepers)

    def gather_memory(self) -> dict[ClientId, Tensors]:
        """What every client keeps: simulations only, for checkpoints."""
        found: dict[ClientId, Tensors] = {}
        for reply in self.ask(Request("memory"), self.keepers, "memory"):
            assert reply.client is not None
            if isinstance(reply, Missing):
                raise ProtocolError(
                    f"{self.said(reply.client)} did not give its memory; run it again."
                )
            found[reply.client] = reply.tensors
        return found

    def restore_memory(self, kept: Mapping[ClientId, Tensors], step: int) -> None:
        """Give clients what they kept before `step`: simulations only, from checkpoints."""
        nodes = list(self._transport.nodes)
        for place, client in enumerate(sorted(kept)):
            home = nodes[place % len(nodes)]
            request = Request("memory", prefixed(str(client), kept[client]), run=self._run)
            parcel = Parcel((client,), {"take": step - 1}, home)
            for delivery in self._transport.exchange(request, [parcel]):
                self._opened(delivery, "memory")
            self._homes[client] = [home]
            self._keepers.add(client)

    def _parcels(
        self, clients: Sequence[ClientId], stacked: bool, options: Mapping[str, Any]
    ) -> list[Parcel]:
        """Clients that may be visited together, at one place; by ascending first client."""
        there = set(self._transport.nodes)
        nodes = len(there)
        few = PARCELS_PER_NODE * nodes if nodes > 1 else 1
        size = max(1, min(STACK_CLIENTS, len(clients) // few)) if stacked else 1
        groups: dict[int | None, list[ClientId]] = {}
        parcels = []
        for client in clients:
            homes = self._homes.get(client, [])
            # whoever lives everywhere is visited anywhere, others where they were last heard
            home = homes[-1] if homes and not there <= set(homes) else None
            group = groups.setdefault(home, [])
            group.append(client)
            if len(group) == size:
                parcels.append(self._parcel(groups.pop(home), home, options))
        parcels += [self._parcel(group, home, options) for home, group in groups.items()]
        return sorted(parcels, key=lambda parcel: parcel.clients)

    def _parcel(
        self, clients: Sequence[ClientId], home: int | None, options: Mapping[str, Any]
    ) -> Parcel:
        cost = sum(self.members[k].train for k in clients if k in self.members)
        return Parcel(tuple(clients), options, home, cost)

    def _sorted_out(
        self, request: Request, asked: Sequence[ClientId], delivery: Delivery, phase: Phase
    ) -> list[Reply | Missing]:
        """The answers of those who were asked; what else came is named and left out."""
        if delivery.outcome != "arrived":
            return [Missing(client, delivery.outcome, delivery.reason) for client in asked]
        try:
            replies = self._read(delivery, phase)
        except ProtocolError as error:
            return [Missing(k, "refused", f"its answer is unreadable: {error}") for k in asked]
        if isinstance(replies, FedcordError):
            raise replies
        found: list[Reply | Missing] = []
        for reply in replies:
            if reply.client is None or reply.client not in asked:
                who = "a node" if reply.client is None else self.said(reply.client)
                place = f"in place of client {clients_listed(asked, self.names)}'s"
                self.events.append(f"{who} was not asked; its answer {place} is left out.")
            elif (reply.run, reply.verb, reply.step) != (request.run, request.verb, request.step):
                self.events.append(
                    f"{self.said(reply.client)} answered '{reply.verb}' of step {reply.step}, not "
                    f"'{request.verb}' of step {request.step}; its answer is left out."
                )
            else:
                found.append(reply)
                if reply.values.get("keeps"):
                    self._keepers.add(reply.client)
                if reply.values.get("keeps") or reply.values.get("session"):
                    self._homes[reply.client] = [delivery.node]
        return found  # who is still silent may yet be heard

    def _opened(self, delivery: Delivery, phase: Phase) -> Sequence[Reply]:
        """The replies of a delivery; whatever is wrong with it is raised."""
        replies = self._read(delivery, phase)
        if isinstance(replies, FedcordError):
            raise replies
        return replies

    def _read(self, delivery: Delivery, phase: Phase) -> Sequence[Reply] | FedcordError:
        """The replies of a delivery, or what the node failed with; counted."""
        passed = self._passing(phase)
        passed.framed_down += delivery.sent
        found: Sequence[Reply] | FedcordError
        if isinstance(delivery.replies, bytes):
            passed.framed_up += len(delivery.replies)
            found = unpack_replies(delivery.replies)
        else:
            found = delivery.replies
        if not isinstance(found, FedcordError):
            for reply in found:
                if reply.client is None:
                    continue  # what a node finds for the server is cut up as engines like
                weight = WEIGHT_BYTES if "weight" in reply.values else 0
                passed.up += num_bytes(reply.tensors) + weight
        return found
