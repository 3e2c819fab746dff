"""Samples of which an attacker wants to know whether a client has trained on them.

Half of a client's candidates are samples it trained on, half are samples nobody did, and both
halves have as many samples of every class. Otherwise clients' class proportions, which the
partition decides, would tell them apart and no model would be needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcord.core.contract import ClientId
from fedcord.core.examples import ClientData, Examples
from fedcord.core.rng import numpy_generator
from fedcord.engine.population import Population

OWN, COMMON = "own", "common"
"""Where samples that nobody trained on come from: a client's own held-out parts, which were drawn
from its data at random, or the common test set."""
LEAST = 20
"""Members of a client below which nothing is said about it."""


@dataclass(frozen=True)
class Candidates:
    """One client's.

    Attributes:
        client: whose.
        examples: 2n samples.
        is_member: [2n] whether the client trained on it; true for n of them.
        rest: what it trained on beside them, which had no counterpart of its class.
        origin: of those that nobody trained on; OWN or COMMON.
    """

    client: ClientId
    examples: Examples
    is_member: Tensor
    rest: Examples
    origin: str

    def having(self, chosen: Tensor) -> ClientData:
        """The client as if it had trained on the chosen candidates [2n] and on the rest."""
        some = taken(self.examples, chosen.nonzero().flatten())
        return ClientData(joined([self.rest, some]), taken(some, []), taken(some, []))

    def halves(self, seed: int, number: int) -> Iterator[Tensor]:
        """Half of the candidates [2n], as many of each class as the client has, and the others."""
        generator = numpy_generator(seed, "audit-halves", number, self.client)
        chosen = torch.zeros(len(self.examples), dtype=torch.bool)
        for label in self.examples.labels.unique():
            places = (self.examples.labels == label).nonzero().flatten().numpy()
            chosen[generator.permutation(places)[: len(places) // 2]] = True
        yield chosen
        yield ~chosen


def candidates_by_client(people: Population, seed: int) -> dict[ClientId, Candidates]:
    """Of all clients that have enough of them.

    A client's own held-out parts are asked first: they are of its distribution whatever that is.
    The common test set is of everybody's, so it serves where clients differ in class proportions
    only. Copies of samples that anybody trained on are left out of both.
    """
    trained_on = set(_digests(people.client(k).train for k in people.clients))

    def unseen(source: Examples) -> Examples:
        digests = enumerate(_digests([source]))
        return taken(source, [place for place, digest in digests if digest not in trained_on])

    found = {}
    common = unseen(people.test)
    for client in people.clients:
        held = people.client(client)
        own = unseen(joined([held.validation, held.test]))
        for origin, source in ((OWN, own), (COMMON, common)):
            matched = _matched(held.train, source, client, origin, seed)
            if int(matched.is_member.sum()) >= LEAST:
                found[client] = matched
                break
    return found


def _matched(
    train: Examples, unseen: Examples, client: ClientId, origin: str, seed: int
) -> Candidates:
    """As many members as others of every class, drawn at random."""
    generator = numpy_generator(seed, "audit-candidates", client=client)
    members, others = list[int](), list[int]()
    for label in train.labels.unique():
        parts = [(e.labels == label).nonzero().flatten().numpy() for e in (train, unseen)]
        count = min(map(len, parts))
        members += generator.permutation(parts[0])[:count].tolist()
        others += generator.permutation(parts[1])[:count].tolist()
    rest = np.setdiff1d(np.arange(len(train)), members).tolist()
    examples = joined([taken(train, members), taken(unseen, others)])
    is_member = torch.arange(len(examples)) < len(members)
    return Candidates(client, examples, is_member, taken(train, rest), origin)


def taken(examples: Examples, places: Tensor | list[int]) -> Examples:
    """Some of them."""
    rows = torch.as_tensor(places, dtype=torch.int64)
    return Examples(examples.inputs[rows], examples.labels[rows])


def joined(parts: list[Examples]) -> Examples:
    """All of them."""
    return Examples(torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts]))


def _digests(parts: Iterable[Examples]) -> Iterator[bytes]:
    """What tells samples apart: copies of one, at several clients or in the test set, are alike."""
    for part in parts:
        for row in part.inputs.numpy():
            yield hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
