from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcord.advice.measures import Measures, distance, measures_of

HERE = Measures("image", "labels", 10, 10, 2000, 0.6, 0.3, 1.0)


def test_measures_of_a_table_of_counts() -> None:
    counts = np.array([[30, 0, 0, 0], [0, 30, 30, 30]])
    own = measures_of(counts, "image", "dirichlet:0.1")
    assert (own.clients, own.classes, own.examples, own.skew) == (2, 4, 120, "labels")
    assert own.class_balance == pytest.approx(1.0)
    assert own.size_gini == pytest.approx(0.25)
    assert own.label_skew > 0.3
    rare = measures_of(np.array([[97, 1, 1, 1]]), "image", "natural:site")
    assert rare.class_balance < 0.35
    assert rare.skew == "unknown"
    assert measures_of(counts, "image", "domain,allocation=a:1/b:1").skew == "domains"


def test_a_federation_is_near_itself_and_far_beyond_any_bound() -> None:
    assert distance(HERE, HERE).size == 0
    near = replace(HERE, clients=25, examples=5000, label_skew=0.72)
    assert distance(HERE, near).is_near
    for name, other in {
        "label skew": replace(HERE, label_skew=0.4),
        "inequality of client sizes": replace(HERE, size_gini=0.7),
        "balance of classes": replace(HERE, class_balance=0.5),
        "number of clients": replace(HERE, clients=31, examples=6200),
        "examples per client": replace(HERE, examples=9000),
        "number of classes": replace(HERE, classes=26),
    }.items():
        gap = distance(HERE, other)
        assert not gap.is_near
        assert gap.too_far_in == [name]
        assert gap.size == distance(other, HERE).size


def test_other_kinds_of_data_and_of_skew_are_never_near() -> None:
    assert distance(HERE, replace(HERE, kind="table")).too_far_in == [
        "kind of data (table, not image)"
    ]
    assert not distance(HERE, replace(HERE, skew="domains")).is_near
    natural = replace(HERE, skew="unknown")  # may be either
    assert distance(natural, HERE).is_near
    assert distance(natural, replace(HERE, skew="domains")).is_near
