"""A masked round, as the server drives it: of all updates it reads what they come to together.

    advertise → share → mask → unmask

Who is lost before it has shared its secrets is left out. Who is lost after that is taken out of the
sum again with the help of the others, as long as the threshold of those who were asked stays to the
end; if fewer do, nothing can be read and the round fails.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fedcord.core.contract import ClientId, Combination, Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors, TensorSpec, check_amounts, check_tensors
from fedcord.engine.arrivals import Arrivals
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.requests import Reply, Request, Verb
from fedcord.engine.site_steps import COMMITTED, SESSION, from_rows, to_rows
from fedcord.engine.summands import Numbers, from_summands, nothing, num_summands
from fedcord.engine.traffic import Phase
from fedcord.secure.masks import PUBLIC_BYTES
from fedcord.secure.shamir import SHARE_BYTES
from fedcord.secure.site import SEALED_BYTES
from fedcord.secure.tally import Tally
from fedcord.secure.threshold import LEAST_SITES, threshold_of


def masked_updates(
    federation: Federation,
    arrivals: Arrivals,
    clients: Sequence[ClientId],
    share: float,
    needs: Combination,
    stacked: bool,
) -> Iterator[tuple[ClientId, Update]]:
    """What all updates come to, as the first client's, and nothing as everybody else's.

    Args:
        federation: the clients.
        arrivals: counts who is in, and knows what was agreed.
        clients: who is asked, ascending.
        share: of those asked, who must stay to the end.
        needs: how updates are combined.
        stacked: whether clients at one place work together.
    """
    arrivals.asked = len(clients)
    request = replace(arrivals.request, run=federation.run)
    attempt = secrets.token_hex(16)
    tally = Tally(f"{request.run}/{request.step}/{attempt}", threshold_of(share, len(clients)))
    here = _MaskedRound(federation, arrivals, request, attempt, tally)
    here.exchange_keys(clients)
    here.exchange_shares()
    expected = here.collect(stacked)
    arrivals.check_quorum()
    update = from_summands(here.opened(), expected, needs)
    if needs == "sum":  # single ones were checked where they were made, which a site may leave out
        check_amounts(update.tensors, expected, update.weight, "all clients together")
    empty = nothing(update)
    for client in tally.survivors:
        yield client, update if client == tally.survivors[0] else empty


KEYS: Mapping[str, TensorSpec] = {"keys": TensorSpec((PUBLIC_BYTES,), torch.uint8)}


def _sealed(count: int) -> dict[str, TensorSpec]:
    return {"sealed": TensorSpec((count - 1, SEALED_BYTES), torch.uint8)}


def _message(expected: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    return {"message": TensorSpec((num_summands(expected) + 1,), torch.int64)}


def _shares(count: int) -> dict[str, TensorSpec]:
    return {"shares": TensorSpec((count, SHARE_BYTES), torch.uint8)}


def sent_by_a_site(expected: Mapping[str, TensorSpec], count: int) -> dict[str, TensorSpec]:
    """All that one of `count` sites sends in a masked round, in place of what was expected."""
    return {**KEYS, **_sealed(count), **_message(expected), **_shares(count)}


def sent_to_a_site(count: int) -> int:
    """Bytes that one of `count` sites is sent in a masked round, beside what is shared."""
    names = 8 * count  # as the roster, as those who have committed, and as survivors
    inbox = (8 + SEALED_BYTES) * (count - 1)
    return 3 * names + PUBLIC_BYTES * count + 8 + inbox


@dataclass
class _MaskedRound:
    """The phases of one attempt at a round."""

    federation: Federation
    arrivals: Arrivals
    request: Request
    attempt: str
    tally: Tally
    told: set[ClientId] = field(default_factory=set)

    def exchange_keys(self, clients: Sequence[ClientId]) -> None:
        """Everybody's public keys."""
        for client, sent in self._ask("advertise", clients, {}, "key exchange", KEYS):
            self.tally.roster[client] = sent["keys"].numpy().tobytes()
        self._check_enough(len(self.tally.roster), "sent their keys")

    def exchange_shares(self) -> None:
        """Everybody's secrets in shares, which only their receivers can read."""
        clients = sorted(self.tally.roster)
        roster = {
            "roster": torch.tensor(clients),
            "keys": to_rows([self.tally.roster[k] for k in clients], PUBLIC_BYTES),
            "threshold": torch.tensor(self.tally.threshold),
        }
        spec = _sealed(len(clients))
        for client, sent in self._ask("share", clients, roster, "key shares", spec):
            others = [k for k in clients if k != client]
            self.tally.sealed[client] = dict(zip(others, from_rows(sent["sealed"]), strict=True))
        self._check_enough(len(self.tally.sealed), "shared their secrets")

    def collect(self, stacked: bool) -> Mapping[str, TensorSpec]:
        """Everybody's masked update, added up as it comes; returns what one is made of."""
        algorithm, env = self.arrivals.algorithm, self.arrivals.env
        shared, committed = self.request.shared, self.tally.committed
        expected = algorithm.expected_update(shared, env.at(committed[0]))
        if any(algorithm.expected_update(shared, env.at(k)) != expected for k in committed):
            raise ProtocolError(
                "clients do not all send the same in this round, so it cannot be masked; this "
                "method must not say that sums suffice."
            )
        spec = _message(expected)
        told = {**shared, COMMITTED: torch.tensor(committed)}
        for client, sent in self._ask("mask", committed, told, "training", spec, stacked):
            self.tally.add(client, sent["message"].numpy().view(np.uint64))
            self._over(client)
            self.arrivals.accepted += 1
        self._check_enough(len(self.tally.survivors), "sent their masked update")
        return expected

    def opened(self) -> Numbers:
        """The sum of all that arrived."""
        tally, revealed = self.tally, dict[ClientId, dict[ClientId, bytes]]()
        told = {"survivors": torch.tensor(tally.survivors)}
        own = {}
        for client in tally.survivors:
            sealed = tally.shares_for(client)
            own[client] = {
                "senders": torch.tensor(sorted(sealed)),
                "sealed": to_rows([sealed[k] for k in sorted(sealed)], SEALED_BYTES),
            }
        spec = _shares(len(tally.committed))
        for client, sent in self._ask("unmask", tally.survivors, told, "unmasking", spec, own=own):
            revealed[client] = dict(zip(tally.committed, from_rows(sent["shares"]), strict=True))
        self._check_enough(len(revealed), "helped to open the sum")
        return tally.opened(revealed)

    def _ask(
        self,
        verb: Verb,
        clients: Sequence[ClientId],
        told: Tensors,
        phase: Phase,
        spec: Mapping[str, TensorSpec],
        stacked: bool = False,
        own: Mapping[ClientId, Tensors] | None = None,
    ) -> Iterator[tuple[ClientId, Tensors]]:
        """What those who answer a step send; of the others it is noted why they do not."""
        request = replace(self.request, verb=verb, shared=told)
        options = {SESSION: self.attempt}
        for answer in self.federation.ask(request, clients, phase, stacked, options, own):
            assert answer.client is not None
            why = self._why_not(answer, spec)
            if why is None:
                assert isinstance(answer, Reply)
                self.arrivals.count_cost(answer, answer.client)
                yield answer.client, answer.tensors
            elif verb == "unmask":  # its update is in the sum all the same
                self.federation.events.append(
                    f"{self._said(answer.client)} did not help to open the sum: {why}"
                )
            else:
                self._over(answer.client)
                if isinstance(answer, Missing):
                    self.arrivals.missing[answer.client] = why
                else:
                    self.arrivals.refused.append(why)

    def _why_not(self, answer: Reply | Missing, spec: Mapping[str, TensorSpec]) -> str | None:
        """Why an answer does not count, or None when it does."""
        if isinstance(answer, Missing):
            return f"{answer.outcome}: {answer.reason}"
        assert answer.client is not None
        who = self._said(answer.client)
        if answer.refusal is not None:
            return answer.refusal
        if answer.values.get(SESSION) != self.attempt:
            return f"{who} answered an earlier attempt at this round."
        try:
            check_tensors(answer.tensors, spec, who)
        except ProtocolError as error:
            return str(error)
        return None

    def _said(self, client: ClientId) -> str:
        return self.arrivals.env.said(client)

    def _over(self, client: ClientId) -> None:
        """It is known what became of a client's update."""
        if client not in self.told:
            self.told.add(client)
            self.arrivals.on_client(client)

    def _check_enough(self, count: int, what: str) -> None:
        asked, threshold = self.arrivals.asked, self.tally.threshold
        if count >= threshold:
            return
        reasons = [f"{self._said(k)} {why}" for k, why in self.arrivals.missing.items()]
        reasons += [*self.arrivals.refused, *self.federation.events]
        first = f" First reason: {reasons[0]}" if reasons else ""
        raise ProtocolError(
            f"round {self.request.round + 1}: {count} of {asked} clients {what}, fewer than the "
            f"threshold of {threshold} (never below {LEAST_SITES}), so their sum cannot be read "
            "and nothing of any of them was revealed; the last good checkpoint is intact. Go on "
            f"with --resume when they are back.{first}"
        )
