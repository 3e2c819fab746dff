"""The terms of a run: what a site is sent ahead of everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedcord.core.errors import ProtocolError
from fedcord.data.facts import DataFacts
from fedcord.experiment.load import load_config
from fedcord.experiment.terms import Terms

CONFIG = load_config({"algorithm": "fedhip", "dataset": "sites:eyes", "clients": 3})
FACTS = DataFacts("vector", (2,), ("a", "b"), mean=(0.1, 0.2), std=(1.0, 2.0))


def test_terms_survive_being_sent() -> None:
    read = Terms.from_json(Terms(CONFIG, FACTS, "abc").to_json())
    assert read.config.hash == CONFIG.hash
    assert (read.facts, read.run) == (FACTS, "abc")
    assert Terms.from_json(Terms(CONFIG).to_json()).facts is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "9.9"}, r"the server has fedcord 9\.9 and this site"),
        ({"config": None}, "terms of the run cannot be used here"),
        ({"config": {"algorithm": "os:system"}}, "'os:system' is no method of fedcord's"),
        ({"config": {"algorithm": "fedhip", "rounds": "many"}}, "rounds = 'many'"),
        ({"config": {"algorithm": "centralised"}}, "raw data would leave the sites"),
        ({"facts": {"kind": "vector"}}, "facts of a task lack"),
        ({"facts": 7}, "cannot be used here"),
    ],
)
def test_terms_that_make_no_sense_are_refused(change: dict[str, Any], words: str) -> None:
    values = json.loads(Terms(CONFIG, FACTS).to_json())
    with pytest.raises(ProtocolError, match=words):
        Terms.from_json(json.dumps({**values, **change}))


@pytest.mark.parametrize("text", ["", "[1]", "{" * 5000, "null"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="terms of a run are not"):
        Terms.from_json(text)
