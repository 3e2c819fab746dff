"""Train, validation and test parts of a client."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcord.core.errors import ConfigError
from fedcord.data.holdout import split_client
from fedcord.data.share import floor_share


@settings(max_examples=100)
@given(
    size=st.integers(0, 200),
    validation=st.floats(0, 0.999999),
    test=st.floats(0, 0.999999),
    seed=st.integers(0, 2**40),
    client=st.integers(0, 10_000),
)
def test_three_disjoint_parts_that_are_all(
    size: int, validation: float, test: float, seed: int, client: int
) -> None:
    if validation + test >= 1:
        validation, test = validation / 2.1, test / 2.1
    indices = np.arange(size) * 3
    indices.setflags(write=False)
    parts = split_client(indices, validation=validation, test=test, seed=seed, client=client)
    assert np.array_equal(np.sort(np.concatenate(parts)), indices)
    assert all(part.dtype == np.int64 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    if size:
        assert len(parts[0]) >= 1
    again = split_client(indices, validation=validation, test=test, seed=seed, client=client)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize(
    ("size", "validation", "test", "sizes"),
    [
        (100, 0.1, 0.2, (70, 10, 20)),
        (100, 0.29, 0.57, (14, 29, 57)),  # both products are a hair below in binary
        (9, 0.1, 0.1, (9, 0, 0)),
        (10, 0.1, 0.0, (9, 1, 0)),
        (1, 0.5, 0.4, (1, 0, 0)),
        (0, 0.5, 0.4, (0, 0, 0)),
        (10, 0.5, 0.49999999999, (1, 4, 5)),
        (10, 0.0, 0.99999999999, (1, 0, 9)),
    ],
)
def test_sizes_are_rounded_in_favour_of_training(
    size: int, validation: float, test: float, sizes: tuple[int, ...]
) -> None:
    parts = split_client(np.arange(size), validation=validation, test=test, seed=0, client=0)
    assert tuple(len(part) for part in parts) == sizes


def test_seed_and_client_choose_the_parts() -> None:
    def held_out(seed: int, client: int) -> tuple[int, ...]:
        parts = split_client(np.arange(100), validation=0.2, test=0, seed=seed, client=client)
        return tuple(parts[1].tolist())

    assert len({held_out(0, 0), held_out(0, 1), held_out(1, 0), held_out(1, 1)}) == 4


@pytest.mark.parametrize(
    ("validation", "test", "words"),
    [
        (-0.1, 0.1, r"validation = -0\.1: must be a fraction >= 0 and < 1"),
        (0.1, 1.0, r"test = 1\.0: must be a fraction"),
        (float("nan"), 0.1, "validation = nan: must be a fraction"),
        (0.6, 0.4, "leave nothing to train on; their sum must be below 1"),
    ],
)
def test_wrong_fractions(validation: float, test: float, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        split_client(np.arange(10), validation=validation, test=test, seed=0, client=0)


def test_both_wrong_fractions_are_reported() -> None:
    with pytest.raises(ConfigError, match="validation") as caught:
        split_client(np.arange(10), validation=-1, test=2, seed=0, client=0)
    assert len(caught.value.problems) == 2


@given(percent=st.integers(0, 100), total=st.integers(0, 10_000))
def test_floor_share_equals_whole_number_arithmetic(percent: int, total: int) -> None:
    assert floor_share(percent / 100, total) == percent * total // 100
