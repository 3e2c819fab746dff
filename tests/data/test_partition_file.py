"""Assignments from a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.partition import Partition, check_spec, make_partition

LABELS = np.array([0, 1] * 5)


def _read(path: Path, content: object, clients: int = 0, options: str = "") -> Partition:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return make_partition(
        f"file:{path}{options}", LABELS, num_classes=2, num_clients=clients, seed=0
    )


def test_reads_what_it_says(tmp_path: Path) -> None:
    partition = _read(tmp_path / "a.json", {"clients": [[5, 0], [], [9]]})
    assert [part.tolist() for part in partition.clients] == [[0, 5], [], [9]]
    assert partition.client_names == ()


def test_names_of_clients_are_read_and_stored(tmp_path: Path) -> None:
    names = ["Köln", "北京"]
    partition = _read(tmp_path / "a.json", {"clients": [[0], [1]], "client_names": names})
    assert partition.client_names == ("Köln", "北京")
    assert partition.to_json()["client_names"] == names


@pytest.mark.parametrize("spec", ["dirichlet:0.5", "dirichlet-overlap:0.5"])
def test_what_a_partition_stores_is_read_back(tmp_path: Path, spec: str) -> None:
    partition = make_partition(spec, LABELS, num_classes=2, num_clients=3, seed=4)
    again = _read(tmp_path / "a.json", partition.to_json(), clients=3)
    assert again.hash == partition.hash
    assert partition.has_overlap is (spec == "dirichlet-overlap:0.5")


def test_path_with_comma_colon_and_equals(tmp_path: Path) -> None:
    partition = _read(tmp_path / "a, b:c=1.json", {"clients": [[0]]}, options=",longtail=1")
    assert partition.sizes == (1,)


def test_own_test_parts_are_read_stored_and_part_of_the_hash(tmp_path: Path) -> None:
    clients = {"clients": [[5, 0, 2], [], [9]]}
    partition = _read(tmp_path / "a.json", {**clients, "test": [[5, 0], [], []]})
    assert [part.tolist() for part in partition.tests] == [[0, 5], [], []]
    again = _read(tmp_path / "b.json", partition.to_json())
    assert [part.tolist() for part in again.tests] == [[0, 5], [], []]
    without, other = _read(tmp_path / "c.json", clients), {**clients, "test": [[5], [], []]}
    hashes = {partition.hash, again.hash, without.hash, _read(tmp_path / "d.json", other).hash}
    assert len(hashes) == 3
    assert without.tests == ()


def test_own_test_parts_lose_what_the_long_tail_takes(tmp_path: Path) -> None:
    everything = {"clients": [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]], "test": [[0, 2], [1, 3, 5, 7]]}
    partition = _read(tmp_path / "a.json", everything, options=",longtail=5")
    assert partition.tests[0].tolist() == [0, 2]
    assert set(partition.tests[1].tolist()) == set(partition.clients[1].tolist()) - {9}


def test_longtail_takes_examples_away(tmp_path: Path) -> None:
    everything = {"clients": [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]}
    partition = _read(tmp_path / "a.json", everything, options=",longtail=5")
    assert partition.sizes == (5, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"clients": [[' + "1" * 5000 + "]]}", "cannot be read as JSON"),
        ({"clients": [[0], [1]], "client_names": ["a"]}, "not a list of 2 names"),
        ({"clients": [[0]], "client_names": "a"}, "not a list of 1 names"),
        ([[0]], 'has no list under "clients"'),
        ({"clients": {}}, 'has no list under "clients"'),
        ({"clients": []}, "holds no clients"),
        ({"clients": [3]}, "gives client 0 as 3, which is not a list"),
        ({"clients": [[0], [10]]}, "gives client 1 the index 10; .* from 0 to 9"),
        ({"clients": [[-1]]}, "the index -1;"),
        ({"clients": [[10**30]]}, "the index 1000000"),
        ({"clients": [[1.0]]}, r"the index 1\.0; .* whole numbers"),
        ({"clients": [[True]]}, "the index True;"),
        ({"clients": [["1"]]}, "the index '1';"),
        ({"clients": [[1, 2, 1]]}, "gives client 0 the index 1 more than once"),
        ({"clients": [[1], [2], [1]]}, 'the index 1 to client 0 and to client 2; .* "overlap"'),
        ({"clients": [[1], [1]], "overlap": False}, "to client 0 and to client 1"),
        ({"clients": [[1]], "hash": "0" * 64}, "its hash does not fit its clients"),
        ({"clients": [[1], [2]], "test": [[1]]}, '"test" that is not a list of 2 lists'),
        ({"clients": [[1]], "test": {}}, '"test" that is not a list of 1 lists'),
        ({"clients": [[1]], "test": [1]}, "client 0 a test part that is no part of its own"),
        ({"clients": [[1]], "test": [[1, 1]]}, "client 0 a test part that is no part of its own"),
        ({"clients": [[1, 2]], "test": [[1, 1]]}, "client 0 the index 1 more than once"),
        ({"clients": [[1], [2]], "test": [[2], []]}, "client 0 test on the index 2, which is not"),
        ({"clients": [[1]], "test": [[True]]}, "client 0 test on the index True"),
    ],
)
def test_wrong_content_is_refused_with_the_reason(
    tmp_path: Path, content: object, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        _read(tmp_path / "a.json", content)
    assert "a.json" in str(caught.value)
    assert 'Form: {"clients"' in str(caught.value)


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        make_partition(f"file:{path}", LABELS, num_classes=2, num_clients=0, seed=0)


def test_overlap_when_stated(tmp_path: Path) -> None:
    partition = _read(tmp_path / "a.json", {"clients": [[1], [1]], "overlap": True})
    assert partition.has_overlap


def test_other_number_of_clients(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 2 clients, but 3 were asked for"):
        _read(tmp_path / "a.json", {"clients": [[1], [2]]}, clients=3)


def test_missing_file_is_known_without_data(tmp_path: Path) -> None:
    problems = check_spec(f"file:{tmp_path}/none.json", 0)
    assert len(problems) == 1
    assert "there is no file" in problems[0]
    with pytest.raises(ConfigError, match="there is no file"):
        make_partition(f"file:{tmp_path}", LABELS, num_classes=2, num_clients=0, seed=0)
