"""The partition's value, its text form, and mistakes found before any data is read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.partition import PARTITIONS, Partition, check_spec, make_partition


def _partition(*clients: list[int], spec: str = "iid") -> Partition:
    return Partition(spec, tuple(np.array(part, dtype=np.int64) for part in clients))


def test_sizes_counts_and_overlap() -> None:
    partition = _partition([0, 2], [], [1])
    assert partition.num_clients == 3
    assert partition.sizes == (2, 0, 1)
    counts = partition.counts(np.array([1, 0, 1]), 3)
    assert counts.dtype == np.int64
    assert counts.tolist() == [[0, 2, 0], [0, 0, 0], [1, 0, 0]]
    assert not partition.has_overlap
    assert _partition([0], [0]).has_overlap


def test_hash_is_of_the_indices_alone() -> None:
    assert _partition([0, 1], [2]).hash == _partition([0, 1], [2], spec="file:x").hash
    different = [
        _partition([0, 1], [2]),
        _partition([0], [1, 2]),
        _partition([2], [0, 1]),
        _partition([0, 1], [2], []),
        _partition([0, 1, 2]),
    ]
    assert len({partition.hash for partition in different}) == len(different)
    # a stored hash must stay valid over versions and machines
    stored = hashlib.sha256(struct.pack("<qqqqq", 2, 0, 1, 1, 2)).hexdigest()
    assert _partition([0, 1], [2]).hash == stored


def test_to_json_is_plain() -> None:
    stored = json.loads(json.dumps(_partition([0, 2], [1]).to_json()))
    assert stored["clients"] == [[0, 2], [1]]
    assert stored["spec"] == "iid"
    assert stored["overlap"] is False
    assert len(stored["hash"]) == 64


def test_a_partition_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="spec"):
        _partition([0]).spec = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("iid", "iid"),
        (" dirichlet : 0.10 ", "dirichlet:0.1"),
        ("dirichlet:1.0,min=0", "dirichlet:1"),
        ("dirichlet:1e-1 , min=2", "dirichlet:0.1,min=2"),
        ("dirichlet,alpha=0.1", "dirichlet:0.1"),
        ("dirichlet-overlap:0.5,scale=10", "dirichlet-overlap:0.5"),
        ("nid1:0.5,recut=true", "nid1:0.5"),
        ("nid1:5,recut=false", "nid1:5,recut=false"),
        ("nid2", "nid2"),
        ("nid2:0.5", "nid2"),
        ("nid2:0.4", "nid2:0.4"),
        ("shards:2,longtail=2.0", "shards:2,longtail=2"),
        ("classes:1,longtail=1", "classes:1"),
        ("dirichlet:1,longtail=2,examples=iid", "dirichlet:1,examples=iid,longtail=2"),
    ],
)
def test_one_canonical_spelling(given: str, canonical: str) -> None:
    labels = np.arange(100) % 4
    partition = make_partition(given, labels, num_classes=4, num_clients=4, seed=0)
    assert partition.spec == canonical


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("dirichlett:0.1", "unknown partition 'dirichlett'; did you mean 'dirichlet'?"),
        ("", "unknown partition ''"),
        ("dirichlet", "alpha is missing. Form: dirichlet:ALPHA[,min=N]"),
        ("dirichlet:", "alpha is missing."),
        ("dirichlet:0", "alpha = 0: must be > 0"),
        ("dirichlet:-0.5", "alpha = -0.5: must be > 0"),
        ("dirichlet:nan", "alpha = nan: must be a finite number"),
        ("dirichlet:inf", "alpha = inf: must be a finite number"),
        ("dirichlet:1e7", "must be > 0 and <= 1e+06"),
        ("dirichlet:abc", "alpha = 'abc': must be of type float"),
        ("dirichlet:0.1,min=-1", "min = -1: must be >= 0"),
        ("dirichlet:0.1,min=1.5", "min = 1.5: must be of type int"),
        ("dirichlet:0.1,mni=1", "unknown parameter 'mni'; did you mean 'min'?"),
        ("dirichlet:0.1,min=1,min=2", "min is given twice"),
        ("dirichlet:0.1,alpha=2", "alpha is given twice"),
        ("dirichlet:0.1,min", "alpha = '0.1,min': must be of type float"),
        ("dirichlet-overlap:0", "alpha = 0: must be > 0"),
        ("dirichlet-overlap:1,scale=0", "scale = 0: must be > 0"),
        ("nid1:0", "alpha = 0: must be > 0"),
        ("nid1:1,recut=no", "recut = 'no': must be of type bool"),
        ("nid2:0", "biased_share = 0: must be > 0 and < 1"),
        ("nid2:1", "biased_share = 1: must be > 0 and < 1"),
        ("shards:0", "per_client = 0: must be >= 1"),
        ("classes:0", "per_client = 0: must be >= 1"),
        ("quantity:0", "beta = 0: must be > 0"),
        ("iid:3", "'3' follows the colon, but iid takes nothing"),
        ("domain,share=0", "share = 0: must be > 0 and <= 1"),
        ("domain,share=2", "share = 2: must be > 0 and <= 1"),
        ("natural:", "key is missing. Form: natural:KEY"),
        ("file", "path is missing. Form: file:PATH"),
        ("iid,longtail=0.5", "longtail = 0.5: must be a finite number >= 1"),
        ("iid,longtail=nan", "longtail = nan: must be a finite number >= 1"),
        ("iid,longtail=much", "longtail = 'much': must be a number >= 1"),
        ("iid,longtail=true", "longtail = 'true': must be a number >= 1"),
        ("dirichlet:1,examples=same", "examples = 'same': must be iid, or be left out"),
    ],
)
def test_mistakes_are_found_without_data(spec: str, words: str) -> None:
    problems = check_spec(spec, 4)
    assert len(problems) == 1
    assert words in problems[0]
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        make_partition(spec, np.zeros(9, dtype=np.int64), num_classes=1, num_clients=4, seed=0)
    assert list(caught.value.problems) == problems


def test_all_mistakes_at_once() -> None:
    problems = check_spec("dirichlet:-1,min=-2,longtail=0,other=3", -5)
    assert len(problems) == 5
    assert all(problem.startswith("partition 'dirichlet:-1,min=-2") for problem in problems)
    for words in ("alpha = -1", "min = -2", "longtail = 0", "'other'", "clients = -5"):
        assert sum(words in problem.split("': ", 1)[1] for problem in problems) == 1


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_example_in_the_table_is_right(name: str) -> None:
    info = PARTITIONS[name]
    clients = 5 if name == "domain" else 7
    problems = check_spec(info.example, clients)
    if name == "file":
        assert "there is no file" in problems.pop()
    assert problems == []
    assert info.example.startswith(name)
    assert info.form.startswith(name)
    assert len(info.summary) < 80


def test_the_table_is_complete() -> None:
    assert sorted(PARTITIONS) == [
        "classes",
        "dirichlet",
        "dirichlet-overlap",
        "domain",
        "file",
        "iid",
        "natural",
        "nid1",
        "nid2",
        "quantity",
        "shards",
    ]


@pytest.mark.parametrize("name", [n for n, info in PARTITIONS.items() if info.needs_clients])
def test_number_of_clients_is_needed(name: str) -> None:
    problems = check_spec(PARTITIONS[name].example, 0)
    assert len(problems) == 1
    assert "clients = 0: must be >= 1" in problems[0]


@pytest.mark.parametrize("name", [n for n, info in PARTITIONS.items() if not info.needs_clients])
def test_number_of_clients_may_come_from_the_data_but_not_be_negative(name: str) -> None:
    spec = PARTITIONS[name].example
    assert not any("clients =" in problem for problem in check_spec(spec, 0))
    assert any("clients = -1: must be >= 1" in problem for problem in check_spec(spec, -1))


def test_nid2_needs_two() -> None:
    assert "clients = 1: nid2 needs at least 2" in check_spec("nid2", 1)[0]


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.1", "nid1:0.5", "shards:1", "classes:1"])
def test_more_clients_than_examples(spec: str) -> None:
    labels = np.zeros(3, dtype=np.int64)
    with pytest.raises(DataError, match="4 clients were asked for, but there are only 3"):
        make_partition(spec, labels, num_classes=1, num_clients=4, seed=0)


def test_labels_are_checked() -> None:
    def make(labels: object, groups: dict[str, object] | None = None) -> Partition:
        return make_partition(
            "iid",
            np.asarray(labels),
            num_classes=3,
            num_clients=1,
            seed=0,
            groups={key: np.asarray(value) for key, value in (groups or {}).items()},
        )

    with pytest.raises(DataError, match="labels run from 0 to 3, but 3 classes allow 0 to 2"):
        make([0, 3])
    with pytest.raises(DataError, match="labels run from -1 to 2"):
        make([-1, 2])
    with pytest.raises(DataError, match=r"labels are float64 with shape \[2\]"):
        make([0.0, 1.0])
    with pytest.raises(DataError, match=r"labels are int64 with shape \[1, 2\]"):
        make([[0, 1]])
    with pytest.raises(DataError, match="no training examples"):
        make(np.empty(0, dtype=np.int64))
    with pytest.raises(DataError, match=r"group 'site' has shape \[1\], the labels \[2\]"):
        make([0, 1], {"site": [0]})


def test_works_without_torch() -> None:
    code = (
        "import sys, fedcord.data.partition, fedcord.data.heterogeneity, fedcord.data.holdout\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 0


def test_natural_clients_are_called_by_their_group() -> None:
    groups = {"site": np.array([2, 0, 2, 0]), "plain": np.array([7, 7, 9, 9])}
    made = {
        key: make_partition(
            f"natural:{key}",
            np.array([0, 1, 0, 1]),
            num_classes=2,
            num_clients=0,
            seed=0,
            groups=groups,
            group_names={"site": ("Köln", "nobody", "北京")},
        ).client_names
        for key in groups
    }
    assert made == {"site": ("Köln", "北京"), "plain": ("7", "9")}
