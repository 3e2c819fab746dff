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

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.formats.delimited import read_csv
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.raw import RawTable
from fedcord.data.tables.rows import prepare_rows
from fedcord.data.tables.sums import NumberSums, TableSums
from fedcord.data.tables.survey import (
    TableForm,
    agreed_kinds,
    agreed_schema,
    as_kinds,
    own_kinds,
    site_sums,
    unfit,
)


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
    forms = {
        f"site {n}": TableForm("ill", own_kinds(raw, without=["ill"]))
        for n, raw in enumerate(files)
    }
    told = {site: TableForm.from_json(_sent(form.to_json())) for site, form in forms.items()}
    schema = agreed_schema(told)
    kinds = as_kinds(_sent({column.name: column.kind for column in schema.columns}))
    assert not any(unfit(raw, f, kinds) for raw, f in zip(files, forms.values(), strict=True))
    sums = [site_sums(raw, kinds, (), np.arange(len(raw))) for raw in files]
    assert not any(own.classes for own in sums)  # who has which classes is another question
    added = [TableSums.from_json(_sent(own.to_json())) for own in sums]
    total = functools.reduce(operator.add, added)
    return TablePreparation.from_sums(total, schema, ("no", "yes"))


def _sent(values: object) -> object:
    return json.loads(json.dumps(values))


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
    sums = site_sums(raw, {"age": "numeric"}, (), np.array([0, 1]))
    assert sums.columns == {"age": NumberSums(2, 0, 4.0, 2.0)}


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
        ({"a": "numeric"}, "^south has no column 'b', which others have"),
        ({"a": "date", "b": "numeric"}, "^column 'a' of south holds dates"),
        ({"a": "numeric", "b": "unreadable"}, "^column 'b' of south holds cells that are neither"),
        ({"a": "empty", "b": "empty", "c": "boolean"}, "^only south has column 'c'; leave it out"),
    ],
)
def test_a_site_that_does_not_fit_is_named(kinds: dict[str, str], why: str) -> None:
    fine = {"a": "numeric", "b": "numeric"}
    with pytest.raises(ConfigError, match=why) as raised:
        agreed_kinds({"north": fine, "south": kinds, "west": fine})  # type: ignore[dict-item]
    assert len(raised.value.problems) == 1


def test_target_and_missing_words_are_common() -> None:
    north = TableForm("ill", {"age": "numeric"}, ("-999",), "patient")
    south = TableForm("dead", {"age": "numeric"})
    with pytest.raises(ConfigError) as raised:
        agreed_schema({"north": north, "south": south})
    assert raised.value.problems == (
        "south predicts column 'dead' and north 'ill'; name one column under ?target= everywhere.",
        "south takes no further words for missing cells and north '-999'; name the same words "
        "under ?missing= everywhere.",
    )
    assert agreed_schema({"north": north, "west": north}).row_id == "patient"


def test_a_site_reads_nothing_that_it_has_not_told_of() -> None:
    """Whatever a server asks for: counts of words would tell names and single measurements."""
    rows = [str(0.5 * n) for n in range(30)]
    raw = RawTable(
        pa.table({"age": rows, "ward": ["a", "b"] * 15, "name": [f"P{n}" for n in range(30)]})
    )
    form = TableForm("ill", own_kinds(raw, without=["name"]))
    assert unfit(raw, form, {"age": "numeric", "ward": "categorical"}) == []
    (why,) = unfit(raw, form, {"name": "categorical"})
    assert why == "it lacks the columns name"
    (why,) = unfit(raw, form, {"age": "categorical"})
    assert why.startswith("column 'age' holds 30 different numbers there, and words in the study")
    (why,) = unfit(raw, form, {"ward": "numeric"})
    assert why == "column 'ward' holds words there, and numbers in the study"
    assert unfit(raw, TableForm("ill", {"age": "categorical"}), {"age": "categorical"}) == []


@pytest.mark.parametrize(
    "values",
    [
        None,
        {"target": "ill", "kinds": {"age": "numeric"}, "missing": []},
        {"target": "ill", "kinds": {"age": "number"}, "missing": [], "row_id": ""},
        {"target": "ill", "kinds": ["age"], "missing": [], "row_id": ""},
        {"target": "i\nll", "kinds": {"age": "numeric"}, "missing": [], "row_id": ""},
        {"target": "ill", "kinds": {"age": "numeric"}, "missing": "NA", "row_id": ""},
    ],
)
def test_what_is_no_form_is_refused(values: object) -> None:
    with pytest.raises(DataError, match=r"is no form of a table|no columns? of a table"):
        TableForm.from_json(values)


def test_kinds_that_a_server_made_up_are_refused() -> None:
    with pytest.raises(DataError, match="'identifier' is no column of a table and its kind"):
        as_kinds({"name": "identifier"})
