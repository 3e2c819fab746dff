"""Encoders whose weights are finite and whose features are not are refused as they arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.accord.rounds import AccordRounds
from fedcord.algorithms.accord.student import AccordStudent
from fedcord.algorithms.accord.trial import why_unusable
from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.checks.faulty_transport import Tampering
from fedcord.core.contract import Env, ServerState
from fedcord.core.params import build
from fedcord.core.rng import torch_generator
from fedcord.core.tensors import hash_tensors
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.requests import Reply, Request
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.ops.number_format import shrink
from tests.algorithms.accord.encoders import SHORT
from tests.federation import IMAGE, VECTOR, population, task

TEXT: dict[str, object] = {**VECTOR, "kind": "text", "vocabulary": 20, "models": ["text"]}
QUICK = {"epochs": 1, "lr": 0.05, "batch_size": 16}


def spoiled_run(method: Any, number: int) -> tuple[ServerState, list[RoundRecord]]:
    """A run in which client 2's encoder overflows in one round."""

    def overflowing(request: Request, reply: Reply) -> Reply:
        if (request.verb, request.round, reply.client) != ("update", number, 2):
            return reply
        assert any(name.startswith("model.") for name in reply.tensors)
        spoiled = {
            name: torch.full_like(tensor, 3e38) if name.startswith("model.") else tensor
            for name, tensor in reply.tensors.items()
        }
        return replace(reply, tensors=spoiled)

    here, rounds = task(), method.traits.rounds
    lives = ClientNode(method, here, population(sizes=(40, 25, 12, 60)), InProcessMemory())
    env, records = Env(here, 0, num_rounds=rounds), list[RoundRecord]()
    state = run_rounds(
        method,
        Federation(Tampering(SequentialTransport(lives), overflowing)),
        env,
        method.init(env),
        Schedule(rounds, lambda _: range(4)),
        lambda state, record: records.append(record),
    )
    return state, records


ROUNDS = {"rounds": 1, "inner": {"local": QUICK}, "tuning": QUICK, "encoders": SHORT}


@pytest.mark.parametrize(
    ("method", "number"),
    [
        (build(Accord, SHORT), 1),
        (build(Accord, {**SHORT, "selection": {"rule": "cka"}}), 0),
        (build(Accord, {**SHORT, "refinements": 1, "refine": {"epochs": 1}}), 3),
        (build(AccordRounds, ROUNDS), 2),
        (build(AccordRounds, ROUNDS), 3),
        (
            build(
                AccordStudent,
                {"teacher": SHORT, "student": {"rounds": 2}, "local": {**QUICK, "epochs": 5}},
            ),
            1,
        ),
    ],
    ids=["accord", "cka", "refined", "rounds-alone", "rounds-tuned", "student"],
)
def test_one_clients_overflowing_encoder_is_refused_by_name_and_the_run_goes_on(
    method: Any, number: int
) -> None:
    _, records = spoiled_run(method, number)
    refused = [list(record.refused) for record in records]
    (reason,) = refused.pop(number)
    assert reason.startswith("client 2 sent an encoder that overflows: ")
    assert not any(refused)
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.9


def test_a_client_whose_encoder_was_refused_still_adds_its_samples_to_the_head() -> None:
    accord = build(Accord, SHORT)
    state, _ = spoiled_run(accord, 1)
    assert state.shared["chosen"].tolist() == [0, 1, 3]
    assert state.private["ledger.client"].tolist() == [0, 1, 2, 3]  # its samples are in the sums


@pytest.mark.parametrize("values", [VECTOR, IMAGE, TEXT], ids=["vector", "image", "text"])
@pytest.mark.parametrize("form", ["float32", "int8"])
def test_ordinary_encoders_pass_whatever_they_read_and_leave_networks_as_they_were(
    values: dict[str, object], form: str
) -> None:
    env = Env(task(values), 0).at(1)
    network = env.task.scratch_network(1)
    before = hash_tensors(network.state_dict())
    drawn = encoder_tensors(env.task.initial_network(torch_generator(5, "drawn", 0, 0), 1))
    assert why_unusable(shrink(drawn, form), JointFeatures(), 1, env) is None
    huge = {
        n: torch.full_like(t, 3e38) if t.dtype.is_floating_point else t for n, t in drawn.items()
    }
    assert "overflows" in (why_unusable(shrink(huge, form), JointFeatures(), 1, env) or "")
    assert hash_tensors(network.state_dict()) == before
