"""Sites with files of their own get what one file with all rows would have given."""

from __future__ import annotations

import functools
import itertools
import json
import operator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedcord.core.errors import DataError
from fedcord.data.formats.delimited import read_csv
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.raw import RawTable
from fedcord.data.tables.rows import prepare_rows
from fedcord.data.tables.schema import TableColumn, TableSchema
from fedcord.data.tables.sums import TableSums
from fedcord.data.tables.survey import agreed_kinds, own_kinds, site_sums


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "patient": [f"P{n}" for n in range(300)],
            "age": rng.normal(60, 15, 300).round(1),
            "lab": rng.normal(1e6, 3, 300).round(3),
            "code": rng.integers(0, 4, 300).astype(str),
            "smoker": rng.choice(["true", "false"], 300),
            "ill": rng.choice(["no", "yes"], 300, p=[0.96, 0.04]),
        }
    )
    frame.loc[rng.random(300) < 0.2, "lab"] = None
    frame.loc[250:, "code"] = "U07.1"  # words at the last site only
    frame.loc[120:249, "smoker"] = None  # nothing known at the second
    return frame


def prepared(files: list[RawTable]) -> TablePreparation:
    kinds = agreed_kinds(
        {f"site {n}": own_kinds(raw, without=["ill"]) for n, raw in enumerate(files)}
    )
    columns = tuple(TableColumn(name, kind) for name, kind in kinds.items())
    schema = TableSchema(columns, "ill")
    sums = [site_sums(raw, schema, np.arange(len(raw))) for raw in files]
    told = [TableSums.from_json(json.loads(json.dumps(own.to_json()))) for own in sums]
    return TablePreparation.from_sums(functools.reduce(operator.add, told), schema)


def test_three_files_and_one_give_the_same_preparation(tmp_path: Path) -> None:
    frame = patients()
    bounds = [0, 1, 120, 250, 300]  # the first site has one row
    for n, (start, end) in enumerate(itertools.pairwise(bounds)):
        how: dict[str, str] = {"sep": ";", "decimal": ","} if n % 2 else {}
        frame.iloc[start:end].to_csv(tmp_path / f"{n}.csv", index=False, **how)
    frame.to_csv(tmp_path / "all.csv", index=False)
    whole = read_csv(tmp_path / "all.csv")
    parts = prepared([read_csv(tmp_path / f"{n}.csv") for n in range(4)])
    together = prepared([whole])
    assert parts.input_names == together.input_names
    assert parts.class_names == together.class_names == ("no", "yes")
    for one, two in zip(parts.columns, together.columns, strict=True):
        assert (one.name, one.kind, one.categories) == (two.name, two.kind, two.categories)
        assert one.mean == pytest.approx(two.mean, rel=1e-14)
        assert one.std == pytest.approx(two.std, rel=1e-10)
    np.testing.assert_allclose(
        prepare_rows(parts, whole).inputs, prepare_rows(together, whole).inputs, rtol=1e-6
    )
    assert "patient" not in {column.name for column in parts.columns}


def test_only_training_rows_count() -> None:
    raw = RawTable(pa.table({"age": ["1", "3", "100"], "ill": ["no", "yes", "maybe"]}))
    schema = TableSchema((TableColumn("age", "numeric"),), "ill")
    sums = site_sums(raw, schema, np.array([0, 1]))
    assert sums.classes == {"no": 1, "yes": 1}
    assert TablePreparation.from_sums(sums, schema).columns[0].mean == 2


def test_kinds_of_several_sites() -> None:
    agreed = agreed_kinds(
        {
            "north": {"a": "boolean", "b": "numeric", "c": "empty", "d": "empty", "e": "numeric"},
            "south": {
                "a": "numeric",
                "b": "categorical",
                "c": "boolean",
                "d": "empty",
                "e": "row number",
            },
        }
    )
    assert agreed == {"a": "numeric", "b": "categorical", "c": "boolean"}


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ({"a": "numeric"}, "'south' has no column 'b', which others have"),
        ({"a": "date", "b": "numeric"}, "column 'a' of 'south' holds dates"),
        ({"a": "numeric", "b": "unreadable"}, "column 'b' of 'south' holds cells that are neither"),
    ],
)
def test_a_site_that_does_not_fit_is_named(kinds: dict[str, str], why: str) -> None:
    with pytest.raises(DataError, match=why):
        agreed_kinds({"north": {"a": "numeric", "b": "numeric"}, "south": kinds})  # type: ignore[dict-item]


def test_a_site_without_the_target_is_told() -> None:
    raw = RawTable(pa.table({"age": ["1", "3"]}))
    schema = TableSchema((TableColumn("age", "numeric"),), "ill")
    with pytest.raises(DataError, match="lacks the target 'ill'"):
        site_sums(raw, schema, np.array([0]))
