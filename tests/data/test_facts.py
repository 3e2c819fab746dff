"""What may be said of data without an example, and what is no such thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.facts import DataFacts, Stated
from fedcord.data.tables.preparation import PreparedColumn, TablePreparation

TABLE = DataFacts("vector", (3,), ("a", "b"), mean=(0.5, 1.0, 2.0), std=(1.0, 1.0, 3.0))
TEXT = DataFacts("text", (7,), ("a", "b"), vocabulary=50, scale="none")


@pytest.mark.parametrize("facts", [TABLE, TEXT])
def test_facts_survive_being_told(facts: DataFacts) -> None:
    assert DataFacts.from_plain(facts.plain()) == facts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "sound"}, "kind = 'sound': must be one of image, vector, text"),
        ({"input_shape": [0]}, "input_shape = .* must be a list of whole numbers from 1"),
        ({"input_shape": [True]}, "input_shape = .* must be a list"),
        ({"class_names": ["a", "a"]}, "class_names = .* must be a list of names, each once"),
        ({"class_names": []}, "class_names = .* must be a list"),
        ({"vocabulary": -1}, "vocabulary = -1: must be a whole number from 0"),
        ({"scale": "log"}, "scale = 'log': must be one of standard, none"),
        ({"mean": [float("nan")]}, "constants of a task cannot be used"),
        ({"std": "wide"}, "constants of a task cannot be used"),
        ({"mean": [10**400, 0, 0]}, "constants of a task cannot be used"),
        ({"std": [1.0, 0.0, 1.0]}, "one positive deviation for every mean"),
        ({"std": [1.0]}, "one positive deviation for every mean"),
        ({"colour": 1}, "unknown entry of .task. 'colour'"),
    ],
)
def test_what_is_no_fact_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        DataFacts.from_plain({**TABLE.plain(), **change})


def test_incomplete_facts_are_refused() -> None:
    values = TABLE.plain()
    del values["class_names"]
    with pytest.raises(DataError, match="lack its kind, shape, classes or vocabulary"):
        DataFacts.from_plain(values)


def test_a_study_states_what_it_likes() -> None:
    assert Stated().differences(TABLE) == []
    assert Stated(kind="vector", input_shape=(3,)).differences(TABLE) == []
    assert Stated(class_names=("b", "c", "a")).differences(TABLE) == []  # it may lack some
    assert Stated(vocabulary=60).differences(TEXT) == []
    (problem,) = Stated(input_shape=(4,)).differences(TABLE)
    assert problem == "input shape is [3] there, and the study has [4]"
    (problem,) = Stated(class_names=("a", "c")).differences(TABLE)
    assert problem == "class 'b' is not among the classes of the study ('a', 'c')"
    (problem,) = Stated(vocabulary=40).differences(TEXT)
    assert problem == "token ids run to 49 there, and the study has 40 tokens"


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
