import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import (
    TensorSpec,
    check_amounts,
    check_tensors,
    decode,
    encode,
    hash_tensors,
    is_finite,
    num_bytes,
    prefixed,
    select,
    spec_of,
)

SAMPLE = {
    "model.w": torch.arange(6.0).reshape(2, 3),
    "model.n": torch.tensor(7),
    "proto.empty": torch.zeros(0, 3),
    "proto.mask": torch.tensor([True, False]),
}


def test_bytes_round_trip_keeps_names_types_shapes_values() -> None:
    back = decode(encode(SAMPLE))
    assert spec_of(back) == spec_of(SAMPLE)
    assert hash_tensors(back) == hash_tensors(SAMPLE)


def test_encoding_does_not_depend_on_order_or_memory_layout() -> None:
    image = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    other = {"b": image.contiguous(memory_format=torch.channels_last), "a": torch.ones(2)}
    plain = {"a": torch.ones(2), "b": image}
    assert encode(other) == encode(plain)
    assert hash_tensors(other) == hash_tensors(plain)


def test_tensors_that_share_memory_are_sent_apart() -> None:
    base = torch.arange(4.0)
    back = decode(encode({"a": base, "b": base}))
    assert torch.equal(back["a"], back["b"])


ODD_STRIDES = {
    "one number": torch.arange(9.0).as_strided((1,), (7,), 3),
    "one matrix": torch.arange(9.0).as_strided((1, 1), (9, 5), 3),
    "nothing": torch.zeros(4).as_strided((0,), (9,)),
    "no rows": torch.zeros(4).as_strided((0, 3), (9, 5)),
    "no columns": torch.zeros(4).as_strided((3, 0), (7, 2)),
}


@pytest.mark.parametrize("case", ODD_STRIDES)
def test_one_element_or_none_is_hashed_whatever_its_strides(case: str) -> None:
    odd = ODD_STRIDES[case]
    plain = torch.tensor(odd.tolist()).reshape(odd.shape)
    assert odd.stride() != plain.stride()
    assert hash_tensors({"x": odd}) == hash_tensors({"x": plain})
    assert encode({"x": odd}) == encode({"x": plain})


def test_hashes_are_those_of_stored_runs() -> None:
    known = "7c980b8956c5e0729be1c249eb4ca9e9b625571d24d1a6c4b1e9f7a39197d18a"
    assert hash_tensors(SAMPLE) == known


def test_the_hash_sees_every_difference() -> None:
    hashes = {
        hash_tensors(SAMPLE),
        hash_tensors({**SAMPLE, "model.n": torch.tensor(8)}),
        hash_tensors({**SAMPLE, "model.n": torch.tensor(7, dtype=torch.int32)}),
        hash_tensors({**SAMPLE, "model.w": SAMPLE["model.w"].reshape(3, 2)}),
        hash_tensors({**SAMPLE, "more": torch.zeros(1)}),
    }
    assert len(hashes) == 5


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="not a safetensors message"):
        decode(b"\xff" * 8 + data)


def test_select_and_prefixed_are_inverse() -> None:
    assert prefixed("model", select(SAMPLE, "model")).keys() == {"model.w", "model.n"}
    assert num_bytes(SAMPLE) == 6 * 4 + 8 + 0 + 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.w": None}, r"client 3 did not send model.w"),
        ({"spy": torch.ones(1)}, r"client 3 sent spy, which was not agreed"),
        (
            {"model.w": torch.ones(3, 2)},
            r"sent model.w as float32\[3, 2\], expected float32\[2, 3\]",
        ),
        ({"model.w": torch.ones(2, 3).double()}, r"sent model.w as float64"),
        ({"model.w": torch.full((2, 3), float("nan"))}, r"model.w with values that are not finite"),
        ({"model.w": torch.full((2, 3), float("inf"))}, r"model.w with values that are not finite"),
    ],
)
def test_a_wrong_tensor_is_refused_by_client_name_and_reason(
    change: dict[str, torch.Tensor | None], words: str
) -> None:
    sent = {name: t for name, t in {**SAMPLE, **change}.items() if t is not None}
    with pytest.raises(ProtocolError, match=words):
        check_tensors(sent, spec_of(SAMPLE), "client 3")


def test_the_right_tensors_pass() -> None:
    check_tensors(SAMPLE, spec_of(SAMPLE), "client 0")
    assert spec_of(SAMPLE)["model.w"] == TensorSpec((2, 3), torch.float32)


ROWS = {
    "proto.held": TensorSpec((4,), torch.bool),
    "proto.mean": TensorSpec((4, 2), torch.float32, rows_of="proto.held"),
}


@pytest.mark.parametrize("held", [[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_only_announced_rows_are_expected(held: list[int]) -> None:
    present = torch.tensor(held, dtype=torch.bool)
    sent = {"proto.held": present, "proto.mean": torch.ones(4, 2)[present]}
    check_tensors(sent, ROWS, "client 3")
    back = decode(encode(sent))
    check_tensors(back, ROWS, "client 3")
    assert num_bytes(back) == 4 + sum(held) * 2 * 4


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (torch.ones(3, 2), r"proto.mean as float32\[3, 2\], expected float32\[2, 2\] \(a row for"),
        (torch.ones(1, 2), r"proto.mean as float32\[1, 2\], expected float32\[2, 2\]"),
        (torch.ones(2, 3), r"proto.mean as float32\[2, 3\], expected float32\[2, 2\]"),
        (torch.full((2, 2), float("nan")), r"proto.mean with values that are not finite"),
    ],
)
def test_rows_that_were_not_announced_are_refused(rows: torch.Tensor, words: str) -> None:
    sent = {"proto.held": torch.tensor([True, False, True, False]), "proto.mean": rows}
    with pytest.raises(ProtocolError, match=words):
        check_tensors(sent, ROWS, "client 3")


def test_a_wrong_announcement_is_named_itself() -> None:
    sent = {"proto.held": torch.ones(5, dtype=torch.bool), "proto.mean": torch.ones(5, 2)}
    with pytest.raises(ProtocolError, match=r"proto.held as bool\[5\], expected bool\[4\]"):
        check_tensors(sent, ROWS, "client 3")


COUNTED = {
    "class_count": TensorSpec((3,), torch.int64),
    "inputs": TensorSpec((0, 2), torch.uint8, rows_sum_of="class_count"),
}


@pytest.mark.parametrize("counts", [[1, 0, 4], [0, 0, 0]])
def test_as_many_rows_are_expected_as_counts_add_up_to(counts: list[int]) -> None:
    rows = torch.zeros(sum(counts), 2, dtype=torch.uint8)
    sent = {"class_count": torch.tensor(counts), "inputs": rows}
    check_tensors(decode(encode(sent)), COUNTED, "client 3")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            [1, 1, 1],
            r"inputs as uint8\[2, 2\], expected uint8\[3, 2\] \(as many rows as class_count",
        ),
        ([-1, 1, 2], "client 3 sent class_count with numbers below 0"),
        # in 64 bits these add up to 2
        (
            [2**62, 2**62, 2**63 - 1],
            r"inputs as uint8\[2, 2\], expected uint8\[18446744073709551615",
        ),
        ([1, 1], r"class_count as int64\[2\], expected int64\[3\]"),
    ],
)
def test_counts_that_do_not_fit_their_rows_are_refused(counts: list[int], words: str) -> None:
    sent = {"class_count": torch.tensor(counts), "inputs": torch.zeros(2, 2, dtype=torch.uint8)}
    with pytest.raises(ProtocolError, match=words):
        check_tensors(sent, COUNTED, "client 3")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_is_finite_finds_a_single_bad_value(bad: float) -> None:
    values = torch.ones(1000)
    assert is_finite(values)
    assert is_finite(values * 3e38)  # large but finite
    values[777] = bad
    assert not is_finite(values)


AMOUNTS = {
    "count": TensorSpec((2,), torch.float32, counts=True),
    "square": TensorSpec((), torch.float64, at_least=0.0),
    "sum": TensorSpec((2,), torch.float64),
}


def amounts(count: list[float], square: float = 2.5) -> dict[str, torch.Tensor]:
    tensors = {
        "count": torch.tensor(count, dtype=torch.float32),
        "square": torch.tensor(square, dtype=torch.float64),
        "sum": torch.tensor([-3.5, 0.5], dtype=torch.float64),
    }
    check_tensors(tensors, AMOUNTS, "client 3")  # names, shapes and types are right
    return tensors


@pytest.mark.parametrize("count", [[3, 4], [0, 0], [0, 7], [2**25 + 1, 2**24 + 1]])
def test_counts_that_add_up_to_the_weight_pass_whatever_float32_rounds(count: list[int]) -> None:
    check_amounts(amounts([float(n) for n in count]), AMOUNTS, sum(count), "client 3")


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (amounts([-1.0, 8.0]), "count with -1, which counts nothing; expected whole numbers"),
        (amounts([3.5, 3.5]), "count with 3.5, which counts nothing; expected whole numbers"),
        (amounts([3.0, 5.0]), "count that adds up to 8, but weight 7; expected as many examples"),
        (amounts([1e30, 4.0]), "count that adds up to .*e.30, but weight 7; expected as many"),
        (amounts([3.0, 4.0], -0.5), "square with -0.5; expected 0 or more"),
    ],
)
def test_impossible_amounts_are_refused_naming_sender_and_tensor(
    tensors: dict[str, torch.Tensor], words: str
) -> None:
    with pytest.raises(ProtocolError, match=f"client 3 sent {words}"):
        check_amounts(tensors, AMOUNTS, 7.0, "client 3")


def test_tensors_whose_values_may_be_anything_are_not_looked_at() -> None:
    """A copy of a whole model in float64, at every client and of every update, would be felt."""
    bounded = {name: tensor for name, tensor in amounts([3.0, 4.0]).items() if name != "sum"}
    check_amounts(bounded, AMOUNTS, 7.0, "client 3")


def test_counts_beyond_int64_do_not_wrap_around_to_the_weight() -> None:
    expected = {"count": TensorSpec((4,), torch.int64, counts=True)}
    wrapped = {"count": torch.tensor([2**62] * 4)}  # adds up to 0 modulo 2^64
    with pytest.raises(ProtocolError, match=r"count that adds up to 1\.8446"):
        check_amounts(wrapped, expected, 0.0, "client 3")
