"""Statistics as a group, and how they travel: T5, T14, T17, T20, T32."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.algorithms.analytic.afl import balancing_weight
from fedcord.algorithms.analytic.rfactor import RFactor
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats, feature_tag
from fedcord.algorithms.analytic.wire import (
    FORMATS,
    check_float32_is_enough,
    decode_stats,
    encode_stats,
    wire_spec,
)
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.tensors import spec_of
from tests.algorithms.analytic.samples import CLASSES, SIZE, one_hot, samples

TAG = feature_tag("these features")


def stats_of(rows: torch.Tensor | slice, weight: torch.Tensor | None = None) -> SufficientStats:
    data = samples(60)
    total = StatsAccumulator(SIZE, CLASSES, TAG, weight)
    total.add(data.inputs[rows], data.labels[rows])
    return total.stats()


def close(a: SufficientStats, b: SufficientStats, tolerance: float = 1e-12) -> bool:
    return all(
        torch.allclose(x.double(), y.double(), rtol=tolerance, atol=tolerance)
        for x, y in zip(a.tensors().values(), b.tensors().values(), strict=True)
    )


def test_sums_are_what_they_say() -> None:
    data, stats = samples(60), stats_of(slice(None))
    x, y = data.inputs.double(), one_hot(data.labels)
    assert torch.allclose(stats.gram_matrix(), x.T @ x)
    assert torch.allclose(stats.moment, x.T @ y)
    assert stats.count == 60
    assert float(stats.target_square) == 60
    assert stats.tag == TAG
    w = torch.ones(SIZE, CLASSES, dtype=torch.float64)
    assert stats.residual_sum(w) == pytest.approx(float(((y - x @ w) ** 2).sum()))


@given(st.lists(st.integers(0, 4), min_size=60, max_size=60), st.permutations(range(5)))
def test_t5_any_partition_in_any_order_gives_the_same_sums(
    owner: list[int], order: list[int]
) -> None:
    owners = torch.tensor(owner)
    total = SufficientStats.zero(SIZE, CLASSES)
    for client in order:
        total = total + stats_of((owners == client).nonzero()[:, 0])
    assert close(total, stats_of(slice(None)))


def test_group_laws() -> None:
    a, b, zero = (
        stats_of(slice(0, 25)),
        stats_of(slice(25, 60)),
        SufficientStats.zero(SIZE, CLASSES),
    )
    assert close(a + zero, a, 0)
    assert close(a + b, b + a, 0)
    assert close(a + (-a), zero, 0)
    assert close((a + b) - b, a)
    assert close(a.scale(2.0).scale(0.5), a, 0)


@given(st.permutations(range(6)))
def test_t5_t14_fixed_point_sums_are_equal_in_every_bit_and_removal_is_exact(
    order: list[int],
) -> None:
    parts = [encode_stats(stats_of(slice(10 * k, 10 * k + 10)), "fixed64") for k in range(6)]
    for name in parts[0]:
        wanted = torch.stack([part[name] for part in parts]).sum(0)
        shuffled = torch.zeros_like(wanted)
        for k in order:
            shuffled = shuffled + parts[k][name]
        assert torch.equal(shuffled, wanted)
        others = torch.stack([part[name] for part in parts[1:]]).sum(0)
        assert torch.equal(shuffled - parts[0][name], others)


@pytest.mark.parametrize("form", FORMATS)
def test_t20_formats_round_trip_with_the_promised_shapes(form: str) -> None:
    stats = stats_of(slice(None))
    message = encode_stats(stats, form)
    assert spec_of(message) == dict(wire_spec(form, SIZE, CLASSES))
    tolerance = {"packed64": 0.0, "svec": 1e-14, "fixed64": 1e-7, "packed32": 1e-5}[form]
    assert close(decode_stats(message, form), stats, tolerance)


def test_t20_triangular_factors_merge_to_the_same_sums_and_are_never_longer() -> None:
    data, whole = samples(60), stats_of(slice(None))
    x, y = data.inputs.double(), one_hot(data.labels)
    merged = RFactor.of(x[:3], y[:3])
    assert merged.num_numbers == 3 * SIZE - 3 + 3 * CLASSES
    for start in range(3, 60, 19):
        merged = merged.merge(RFactor.of(x[start : start + 19], y[start : start + 19]))
    assert torch.allclose(merged.gram(), whole.gram_matrix())
    assert torch.allclose(merged.moment(), whole.moment)
    assert merged.num_numbers <= whole.gram.numel() + whole.moment.numel()
    eye = torch.eye(SIZE, dtype=torch.float64)
    wanted = torch.linalg.solve(whole.gram_matrix() + 0.3 * eye, whole.moment)
    assert torch.allclose(merged.solve(0.3)[0], wanted)
    with pytest.raises(ProtocolError, match="cannot be merged"):
        merged.merge(RFactor.of(x[:, :4], y))


def test_other_features_or_sizes_are_refused() -> None:
    other = StatsAccumulator(SIZE, CLASSES, feature_tag("those features"))
    other.add(samples(5).inputs, samples(5).labels)
    with pytest.raises(ProtocolError, match=r"different features \(tags \d+ and \d+\)"):
        stats_of(slice(None)) + other.stats()
    with pytest.raises(ProtocolError, match="8 features and 3 classes cannot be joined with 4"):
        stats_of(slice(None)) + SufficientStats.zero(4, CLASSES)
    mixed = dict(stats_of(slice(None)).tensors())
    mixed["tag_sum"] = mixed["tag_sum"] + 7
    with pytest.raises(ProtocolError, match="features of different kinds"):
        _ = SufficientStats.from_tensors(mixed).tag


def test_removing_what_was_never_added_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"cannot be removed from \d+; only what was added"):
        stats_of(slice(0, 5)) - stats_of(slice(5, 60))


def test_tensors_that_do_not_fit_are_refused() -> None:
    tensors = dict(stats_of(slice(None)).tensors())
    tensors["gram"] = tensors["gram"][:-1]
    with pytest.raises(ProtocolError, match="do not fit; expected"):
        SufficientStats.from_tensors(tensors)


def test_t17_classes_that_are_absent_have_zero_columns() -> None:
    data = samples(60)
    stats = stats_of((data.labels == 1).nonzero()[:, 0])
    assert torch.equal(stats.moment[:, [0, 2]], torch.zeros(SIZE, 2, dtype=torch.float64))
    assert bool((stats.moment[:, 1] != 0).all())


def test_t32_class_weights_keep_sums_invariant_and_classes_equal() -> None:
    data = samples(60)
    weight = balancing_weight(torch.bincount(data.labels, minlength=CLASSES))
    whole = stats_of(slice(None), weight)
    parts = stats_of(slice(0, 20), weight) + stats_of(slice(20, 60), weight)
    assert close(parts, whole)
    x, y = data.inputs.double(), one_hot(data.labels)
    sample_weight = weight[data.labels][:, None]
    assert torch.allclose(whole.gram_matrix(), x.T @ (sample_weight * x))
    per_class = (y * sample_weight).sum(0)
    assert torch.allclose(per_class, torch.full((3,), 20.0, dtype=torch.float64))
    assert balancing_weight(torch.tensor([4, 0, 4])).tolist() == [1.0, 0.0, 1.0]


def test_float32_is_refused_where_the_solve_would_magnify_it() -> None:
    check_float32_is_enough(1e4)
    with pytest.raises(NumericalError, match=r"condition 1e\+06.*use wire=packed64"):
        check_float32_is_enough(1e6)
