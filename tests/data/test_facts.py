"""The facts of a task travel and are recorded as plain values."""

from __future__ import annotations

import json

import pytest

from fedcord.core.errors import DataError
from fedcord.data.facts import DataFacts
from fedcord.data.tables.preparation import PreparedColumn, TablePreparation

PREPARATION = TablePreparation(
    (
        PreparedColumn("age", "numeric", 60.0, 10.0, has_missing=True),
        PreparedColumn("ward", "categorical", categories=("A", "B")),
    ),
    ("no", "yes"),
    "sick",
)


@pytest.mark.parametrize("preparation", [None, PREPARATION])
def test_facts_come_back_from_plain_values(preparation: TablePreparation | None) -> None:
    facts = DataFacts("vector", (4,), ("no", "yes"), scale="none", preparation=preparation)
    assert DataFacts.from_plain(json.loads(json.dumps(facts.plain()))) == facts


def test_facts_of_runs_from_before_tables_are_read() -> None:
    values = DataFacts("vector", (4,), ("no", "yes")).plain()
    del values["preparation"]
    assert DataFacts.from_plain(values).preparation is None


def test_a_damaged_preparation_is_told() -> None:
    values = DataFacts("vector", (4,), ("no", "yes")).plain() | {"preparation": {"columns": []}}
    with pytest.raises(DataError, match="no preparation of a table"):
        DataFacts.from_plain(values)
