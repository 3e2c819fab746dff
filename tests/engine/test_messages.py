import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import hash_tensors
from fedcord.engine.messages import (
    pack,
    pack_answer,
    pack_job,
    unpack,
    unpack_answer,
    unpack_job,
)
from fedcord.engine.visit import Job, Refusal

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


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_never_a_crash(data: bytes) -> None:
    for reader in (unpack, unpack_job, unpack_answer):
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
