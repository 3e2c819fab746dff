"""Constants that bring every feature of a table to one scale."""

from __future__ import annotations

import numpy as np
import pytest

from fedcord.data.standardise import standardisation


def test_constants_are_those_of_all_rows_together() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(500, 3)) * [1e-3, 1.0, 1e6] + [5.0, -2.0, 1e9]).astype(np.float32)
    mean, std = standardisation([rows[:7], rows[7:7], rows[7:300], rows[300:]])
    wide = rows.astype(np.float64)
    assert mean == pytest.approx(wide.mean(axis=0), rel=1e-12)
    assert std == pytest.approx(wide.std(axis=0), rel=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    whole = standardisation([rows])
    monkeypatch.setattr("fedcord.data.standardise._ROWS", 7)
    assert np.array(standardisation([rows])) == pytest.approx(np.array(whole))


@pytest.mark.parametrize("value", [0.0, 0.1, -3e7, 1e-41, 1e38])
def test_a_constant_feature_is_not_divided_by_zero(value: float) -> None:
    rows = np.full((1001, 1), value, np.float32)
    mean, std = standardisation([rows[:400], rows[400:]])
    assert std == (1.0,)
    assert mean == pytest.approx((float(np.float32(value)),))


def test_no_rows_give_no_constants() -> None:
    assert standardisation([np.zeros((0, 2), np.float32)]) == ((), ())
