"""What becomes of a round's updates on arrival, and whether enough of them did arrive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from fedcord.core.contract import Algorithm, ClientId, Env, Examines, Observes, Update
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.passes import Passes
from fedcord.engine.federation import Missing
from fedcord.engine.requests import SAVED, SAVED_CPU, TOOK, Reply, Request
from fedcord.engine.visits import check_update


@dataclass
class Arrivals:
    """Checks updates as they arrive and counts who sent them.

    Attributes:
        algorithm: says what was agreed.
        request: what everybody was asked.
        env: the server's place.
        quorum: share of those asked that must answer.
        on_client: called for everybody who was asked, once it is known what became of it.
        asked: how many were.
        refused: reasons of updates that were not accepted.
        missing: clients whose answer did not count, and why.
        accepted: updates that count.
        loss_sum: of training losses times weights.
        loss_weight: of those who reported one.
        saved_seconds: how long work took that was done before.
        saved_cpu_seconds: its CPU seconds; None where an older version did not count them.
        notes: what the algorithm observed.
        client_metrics: what else clients report.
        took: passes of their work, of those who tell.
    """

    algorithm: Algorithm
    request: Request
    env: Env
    quorum: float
    on_client: Callable[[ClientId], None]
    asked: int = 0
    refused: list[str] = field(default_factory=list)
    missing: dict[ClientId, str] = field(default_factory=dict)
    accepted: int = 0
    loss_sum: float = 0.0
    loss_weight: float = 0.0
    saved_seconds: float = 0.0
    saved_cpu_seconds: float | None = 0.0
    notes: list[str] = field(default_factory=list)
    client_metrics: dict[ClientId, dict[str, float]] = field(default_factory=dict)
    took: dict[ClientId, Passes] = field(default_factory=dict)

    def check(self, answers: Iterator[Reply | Missing]) -> Iterator[tuple[ClientId, Update]]:
        """The updates of an open round; whatever else comes is counted and left out."""
        for answer in answers:
            self.asked += 1
            assert answer.client is not None
            self.on_client(answer.client)
            if isinstance(answer, Missing):
                self.missing[answer.client] = f"{answer.outcome}: {answer.reason}"
                continue
            update = self._update(answer, answer.client)
            if update is not None:
                yield answer.client, update
        self.check_quorum()

    def _update(self, reply: Reply, client: ClientId) -> Update | None:
        """The update of a reply, or None when it is refused."""
        if reply.refusal is not None:
            self.refused.append(reply.refusal)
            return None
        # asked anew for each: what a client must send may depend on who it is
        agreed = self.algorithm.expected_update(self.request.shared, self.env.at(client))
        try:
            update = reply.update(self.env.said(client))
            check_update(update, agreed, self.env.said(client))
            self._examine(update, client)
        except ProtocolError as error:
            self.refused.append(str(error))
            return None
        self.accepted += 1
        self.count_cost(reply, client)
        if "train_loss" in update.metrics:
            self.loss_sum += update.weight * update.metrics["train_loss"]
            self.loss_weight += update.weight
        self._listen(client, update.metrics)
        return update

    def _examine(self, update: Update, client: ClientId) -> None:
        """Refuse an update of the right form that the algorithm objects to."""
        if not self.algorithm.traits.examines:
            return
        why = cast(Examines, self.algorithm).objection(update, self.env.at(client))
        if why is not None:
            raise ProtocolError(f"{self.env.said(client)} {why}")

    def count_cost(self, reply: Reply, client: ClientId) -> None:
        """What the work of a reply took; a client that tells nonsense has told nothing."""
        saved, cpu = reply.values.get(SAVED), reply.values.get(SAVED_CPU)
        if isinstance(saved, int | float):
            self.saved_seconds += saved
            before = self.saved_cpu_seconds
            is_known = before is not None and isinstance(cpu, int | float)
            self.saved_cpu_seconds = (before or 0.0) + (cpu or 0.0) if is_known else None
        with contextlib.suppress(ValueError):
            self.took[client] = Passes.from_plain(reply.values.get(TOOK))

    def _listen(self, client: ClientId, metrics: Mapping[str, float]) -> None:
        more = {name: value for name, value in metrics.items() if name != "train_loss"}
        if more:
            self.client_metrics[client] = more
        if self.algorithm.traits.observes:
            found = cast(Observes, self.algorithm).observations(metrics)
            self.notes += [f"{self.env.said(client)}: {text}" for text in found]

    def check_quorum(self) -> None:
        """Everybody was heard: were there enough?"""
        round_ = self.request.round + 1
        heard = self.asked - len(self.missing)
        if heard < self.quorum * self.asked:
            client, why = next(iter(self.missing.items()))
            raise ProtocolError(
                f"round {round_}: {heard} of {self.asked} clients answered, fewer than the quorum "
                f"of {self.quorum:g} of them ({self.env.said(client)} {why}); the last good "
                "checkpoint is intact. Go on with --resume when they are back, or accept fewer "
                "with --quorum."
            )
        if self.accepted == 0:
            reasons = [*self.refused, *self.missing.values()]
            raise NumericalError(
                f"round {round_}: all {self.asked} updates were refused; the last good checkpoint "
                f"is intact. First reason: {reasons[0]}"
            )

    @property
    def train_loss(self) -> float | None:
        """The mean by weight; None when nobody reported one."""
        return self.loss_sum / self.loss_weight if self.loss_weight > 0 else None
