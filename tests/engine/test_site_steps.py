"""A node in the steps of a masked round, asked by hand: what it repeats and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch

from fedcord.core.contract import Algorithm
from fedcord.core.errors import FedcordError
from fedcord.core.tensors import Tensors, hash_tensors
from fedcord.engine.agreement import Agreement
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.requests import Parcel, Reply, Request, Verb, pack_call, unpack_replies
from fedcord.engine.site_steps import COMMITTED
from tests import federation
from tests.engine.masked_people import SUMS, TRAINED, people


class Site:
    """One node that is asked by hand, in bytes, in a session of three."""

    def __init__(self, agreement: Agreement | None = None, method: Algorithm = SUMS) -> None:
        self.store = InProcessMemory(as_bytes=True)
        self._agreement, self._method = agreement, method

    def ask(
        self,
        verb: Verb,
        client: int,
        shared: Tensors | None = None,
        own: Tensors | None = None,
        attempt: object = "a",
    ) -> Reply | FedcordError:
        request = Request(verb, shared or {}, run="run")
        parcel = Parcel((client,), {"session": attempt}, tensors=own or {})
        made_from = self._method, federation.task(), people(), self.store, self._agreement
        node = ClientNode(*made_from)  # every message finds a new process
        found = unpack_replies(node.handle(pack_call(request, parcel)))
        return found if isinstance(found, FedcordError) else found[0]

    def answer(self, *question: object, **more: object) -> Tensors:
        reply = self.ask(*question, **more)  # type: ignore[arg-type]
        assert isinstance(reply, Reply)
        assert reply.refusal is None, reply.refusal
        return reply.tensors

    def refusal(self, *question: object, **more: object) -> str:
        reply = self.ask(*question, **more)  # type: ignore[arg-type]
        return str(reply) if isinstance(reply, FedcordError) else str(reply.refusal)

    def shared(self, clients: Sequence[int] = (0, 1, 2), threshold: int = 2) -> dict[str, Tensors]:
        keys = torch.stack([self.answer("advertise", k)["keys"] for k in clients])
        roster = {
            "roster": torch.tensor(clients),
            "keys": keys,
            "threshold": torch.tensor(threshold),
        }
        sealed = {k: self.answer("share", k, roster)["sealed"] for k in clients}
        return {"roster": roster, **{f"to {k}": self._inbox(clients, sealed, k) for k in clients}}

    def _inbox(
        self, clients: Sequence[int], sealed: Mapping[int, torch.Tensor], client: int
    ) -> Tensors:
        senders = [k for k in clients if k != client]
        rows = [sealed[k][[o for o in clients if o != k].index(client)] for k in senders]
        return {"senders": torch.tensor(senders), "sealed": torch.stack(rows)}


def test_a_node_answers_every_step_again_and_nothing_else_after_it() -> None:
    site = Site()
    told = site.shared()
    for verb, question in (("advertise", {}), ("share", told["roster"])):
        assert hash_tensors(site.answer(verb, 0, question)) == hash_tensors(
            site.answer(verb, 0, question)
        )
    everybody, two = ({COMMITTED: torch.tensor(who)} for who in ([0, 1, 2], [0, 1]))
    for client in (0, 1, 2):
        site.answer("mask", client, everybody)
    assert torch.equal(*(site.answer("mask", 0, everybody)["message"] for _ in range(2)))
    assert "already masked its message towards other sites" in site.refusal("mask", 0, two)
    survivors = {"survivors": torch.tensor([0, 1])}
    inbox = told["to 0"]
    first = site.answer("unmask", 0, survivors, inbox)["shares"]
    assert torch.equal(site.answer("unmask", 0, survivors, inbox)["shares"], first)
    more = {"survivors": torch.tensor([0, 1, 2])}
    assert "already unmasked the sum of other messages" in site.refusal("unmask", 0, more, inbox)
    alone = {"survivors": torch.tensor([1])}
    assert "fewer than the threshold of 2" in site.refusal("unmask", 1, alone, told["to 1"])
    swapped = {**told["to 1"], "sealed": told["to 1"]["sealed"].flip(0)}
    assert "cannot open the shares of client 0" in site.refusal("unmask", 1, survivors, swapped)


def test_another_model_is_not_answered_under_the_same_masks() -> None:
    """The difference of two answers under one mask would be in the open."""
    site = Site(method=TRAINED)
    site.shared()
    shared = TRAINED.init(federation.env()).shared
    committed = {COMMITTED: torch.tensor([0, 1, 2])}
    site.answer("mask", 0, {**shared, **committed})
    moved = {name: t + 1 if t.is_floating_point() else t for name, t in shared.items()}
    said = site.refusal("mask", 0, {**moved, **committed})
    assert "already sent another message under these masks" in said


def test_a_new_attempt_has_new_keys_and_the_old_one_is_gone() -> None:
    site = Site()
    site.shared()
    before = site.answer("advertise", 0)["keys"]
    after = site.answer("advertise", 0, attempt="b")["keys"]
    assert not torch.equal(before, after)
    committed = {COMMITTED: torch.tensor([0, 1, 2])}
    said = site.refusal("mask", 0, committed)
    assert "client 0 takes part in no such masked round" in said
    assert "has not shared its secrets yet" in site.refusal("mask", 0, committed, attempt="b")


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (("share", 0, {}), "did not send keys, roster, threshold"),
        (("mask", 0, {}), "is float32.0., expected int64"),
        (("unmask", 0, {}), "did not send survivors"),
        (("unmask", 0, {"survivors": torch.tensor([0, 1])}), "did not send sealed, senders"),
    ],
)
def test_incomplete_questions_are_refused_in_words(question: tuple[object, ...], why: str) -> None:
    site = Site()
    site.shared()
    assert why.replace("is float32.0.", "as float32[0]") in site.refusal(*question)


@pytest.mark.parametrize("attempt", [None, "", 7, "x" * 65])
def test_a_session_has_a_short_name(attempt: object) -> None:
    assert "a masked round has the name" in Site().refusal("advertise", 0, attempt=attempt)


def test_a_site_that_agreed_on_masks_sends_nothing_in_the_open() -> None:
    site = Site(Agreement("hash", secure=0.9))
    for verb in ("update", "forget"):
        assert f"masked, so '{verb}' is not answered" in site.refusal(verb, 0)
    keys = torch.stack([site.answer("advertise", k)["keys"] for k in (0, 1, 2)])
    roster = {"roster": torch.arange(3), "keys": keys, "threshold": torch.tensor(2)}
    assert "threshold of 2 among 3 sites, below the 3 that were agreed" in site.refusal(
        "share", 0, roster
    )


def test_secrets_stay_out_of_memory_and_go_with_the_client() -> None:
    site = Site()
    site.shared()
    assert site.store.newest_step(0) is None
    assert b"mask_secret" in site.store.session(0)
    assert site.answer("memory", 0) == {}
    site.store.drop(0)
    assert site.store.session(0) == b""
