import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import hash_tensors
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.messages import (
    pack,
    pack_answer,
    pack_answers,
    pack_job,
    unpack,
    unpack_answer,
    unpack_answers,
    unpack_job,
)
from fedcord.engine.visit import Job, Refusal, check_update

TENSORS = {"model.w": torch.arange(4.0), "n": torch.tensor(3)}


def test_jobs_and_answers_survive_the_wire() -> None:
    job = unpack_job(pack_job(Job("update", TENSORS, 2, 5, 7)))
    assert (job.verb, job.round, job.num_rounds, job.seed) == ("update", 2, 5, 7)
    assert hash_tensors(job.shared) == hash_tensors(TENSORS)
    memory = {"kept": torch.ones(2)}
    answer, kept = unpack_answer(pack_answer(Update(TENSORS, 0.1, {"train_loss": 1 / 3}), memory))
    assert isinstance(answer, Update)
    assert (answer.weight, answer.metrics) == (0.1, {"train_loss": 1 / 3})
    assert hash_tensors(answer.tensors) == hash_tensors(TENSORS)
    assert hash_tensors(kept) == hash_tensors(memory)
    refused, kept = unpack_answer(pack_answer(Refusal("client 3: no"), memory))
    assert refused == Refusal("client 3: no")
    assert hash_tensors(kept) == hash_tensors(memory)


def _answers(*rows: int) -> list[tuple[Update | Refusal, dict[str, torch.Tensor]]]:
    return [
        (Update({"w": torch.full((n, 2), float(k))}, k, {"loss": k / 3}), {"kept": torch.tensor(k)})
        for k, n in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("answers", "stacked"),
    [
        (_answers(3, 3, 3), True),
        (_answers(3, 1, 0), False),  # such as prototypes of the classes each one holds
        ([*_answers(3, 3), (Refusal("client 2: no"), {})], False),
        (_answers(3), False),
        (_answers(0, 0), True),
        ([(Update({}, 1.0), {})] * 2, True),
        ([], False),
    ],
)
def test_many_answers_are_one_message(
    answers: list[tuple[Update | Refusal, dict[str, torch.Tensor]]], stacked: bool
) -> None:
    message = pack_answers(answers)
    assert unpack(message)[0]["stacked"] is stacked
    found = unpack_answers(message, len(answers))
    for (answer, memory), (one, kept) in zip(answers, found, strict=True):
        assert hash_tensors(kept) == hash_tensors(memory)
        if isinstance(answer, Refusal):
            assert one == answer
        else:
            assert isinstance(one, Update)
            assert (one.weight, one.metrics) == (answer.weight, answer.metrics)
            assert hash_tensors(one.tensors) == hash_tensors(answer.tensors)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({}, "does not hold the 2 answers"),
        ({"answers": [{}]}, "does not hold the 2 answers"),
        ({"answers": 7}, "does not hold the 2 answers"),
        ({"answers": [3, None], "stacked": True}, "does not hold 2 of each tensor"),
        ({"answers": [{}, {}], "stacked": False}, "which begins with no number"),
    ],
)
def test_messages_of_many_answers_are_checked(header: dict[str, object], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        unpack_answers(pack(header, TENSORS), 2)
    with pytest.raises(ProtocolError, match="an answer's header is incomplete"):
        unpack_answers(pack({"answers": [3]}, {}), 1)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_never_a_crash(data: bytes) -> None:
    for reader in (unpack, unpack_job, unpack_answer, lambda data: unpack_answers(data, 1)):
        with pytest.raises(ProtocolError, match=r"."):
            reader(data)


@given(st.integers(0, 400))
def test_a_truncated_message_is_refused(cut: int) -> None:
    whole = pack_job(Job("update", TENSORS, 2, 5, 7))
    with pytest.raises(ProtocolError, match=r"."):
        unpack_job(whole[: min(cut, len(whole) - 1)])


@pytest.mark.parametrize(
    "header",
    [{}, {"verb": "destroy", "round": 1, "num_rounds": 1, "seed": 1}, {"verb": "update"}],
)
def test_headers_are_checked(header: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="job"):
        unpack_job(pack(header, {}))
    with pytest.raises(ProtocolError, match="answer"):
        unpack_answer(pack(header, {}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_travel_as_null(value: float) -> None:
    message = pack_answer(Update(TENSORS, 1.0, {"train_loss": value, "other": 0.5}), {})
    assert b'"train_loss": null' in message
    answer, _ = unpack_answer(message)
    assert isinstance(answer, Update)
    assert math.isnan(answer.metrics["train_loss"])
    assert answer.metrics["other"] == 0.5


def test_headers_hold_what_json_can() -> None:
    with pytest.raises(ProtocolError, match="holds what JSON cannot"):
        pack({"loss_sum": math.inf}, {})


@pytest.mark.parametrize(
    "change",
    [{"round": -1}, {"round": 1.5}, {"seed": 2**63}, {"seed": "7"}, {"models_of": "12"},
     {"models_of": 3}, {"models_of": [True]}, {"verb": []}],
)  # fmt: skip
def test_jobs_with_numbers_that_count_nothing_are_refused(change: dict[str, object]) -> None:
    header = {"verb": "update", "round": 0, "num_rounds": 1, "seed": 0, "models_of": None}
    assert unpack_job(pack(header, {})).round == 0
    with pytest.raises(ProtocolError, match="job"):
        unpack_job(pack({**header, **change}, {}))


@pytest.mark.parametrize("weight", [1e308, 1e16, -1.0, math.inf, math.nan])
def test_weights_that_would_drown_the_others_are_refused(weight: float) -> None:
    with pytest.raises(ProtocolError, match=r"client 7 sent weight .* from 0 to 1e\+15"):
        check_update(Update({}, weight), {}, 7)
    check_update(Update({}, 1e15), {}, 7)


def test_a_loss_that_is_not_finite_travels_too() -> None:
    header, _ = unpack(pack(Evaluation(1, 2, math.inf).plain(), {}))
    found = Evaluation.from_plain(header)
    assert (found.correct, found.total) == (1, 2)
    assert math.isnan(found.loss_sum)
