"""Updates as numbers that can be added up, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcord.core.contract import Update
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.tensors import TensorSpec, spec_of
from fedcord.engine.summands import from_summands, nothing, num_summands, to_summands
from fedcord.ops.weighted_mean import weighted_mean


def updates() -> list[Update]:
    generator = torch.Generator().manual_seed(0)
    return [
        Update(
            {
                "w": torch.randn(3, 4, generator=generator),
                "b": torch.randn(4, dtype=torch.float64, generator=generator),
                "seen": torch.tensor(7),
            },
            weight,
        )
        for weight in (3.0, 50.0, 0.0)
    ]


def test_means_by_weight_are_those_of_the_plain_mean() -> None:
    given, expected = updates(), spec_of(updates()[0].tensors)
    numbers = [to_summands(update, expected, "mean", 3) for update in given]
    assert all(len(part) == num_summands(expected) == 12 + 4 + 1 + 1 for part in numbers)
    found = from_summands(np.add.reduce(numbers), expected, "mean")
    wanted = weighted_mean((u.tensors, u.weight) for u in given)
    assert found.weight == 53.0
    assert spec_of(found.tensors) == expected
    assert torch.equal(found.tensors["w"], wanted["w"])
    assert torch.allclose(found.tensors["b"], wanted["b"], rtol=0, atol=1e-10)
    assert int(found.tensors["seen"]) == 7


def test_sums_are_exact_and_whole_numbers_stay_whole() -> None:
    given, expected = updates(), spec_of(updates()[0].tensors)
    numbers = [to_summands(update, expected, "sum", 3) for update in given]
    found = from_summands(np.add.reduce(numbers), expected, "sum")
    again = from_summands(np.add.reduce(numbers[::-1]), expected, "sum")
    for name in expected:
        assert torch.equal(found.tensors[name], again.tensors[name])
        wanted = torch.stack([u.tensors[name].double() for u in given]).sum(0)
        assert torch.allclose(found.tensors[name].double(), wanted, rtol=0, atol=1e-9)
    assert int(found.tensors["seen"]) == 21
    assert found.tensors["w"].dtype == torch.float64


def test_nothing_adds_nothing() -> None:
    empty, expected = nothing(updates()[0]), spec_of(updates()[0].tensors)
    for needs in ("sum", "mean"):
        assert not to_summands(empty, expected, needs, 3).any()


def test_what_cannot_be_added_up_is_refused() -> None:
    ragged = {"proto": TensorSpec((3, 8), torch.float32, rows_of="held")}
    with pytest.raises(ProtocolError, match="proto has as many rows as a client has classes"):
        num_summands(ragged)
    expected = spec_of(updates()[0].tensors)
    huge = Update({**updates()[0].tensors, "w": torch.full((3, 4), 1e9)}, 5.0)
    with pytest.raises(NumericalError, match=r"5e\+09 does not fit .* for sums of 100"):
        to_summands(huge, expected, "mean", 100)
    with pytest.raises(ProtocolError, match="a positive total weight; it is 0"):
        from_summands(np.zeros(num_summands(expected), dtype=np.uint64), expected, "mean")
