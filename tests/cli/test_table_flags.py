"""Tables on the command line: columns shown, roles given by flags."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.command import fedcord, result_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Krankenhaus & Praxis": rng.choice(["Köln", "Bonn"], 60),
            "age": rng.normal(60, 10, 60).round(1),
            "[ward]": rng.choice(["A", "B"], 60),
            "code": rng.integers(0, 3, 60),
            "ill": rng.choice(["yes", "no"], 60),
        }
    )
    frame.loc[:5, "age"] = None
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.assign(seen="2024-05-01").to_csv(tmp_path / "dated.csv", index=False)
    return tmp_path


def test_inspect_shows_columns_before_anything_is_known(folder: Path) -> None:
    done = fedcord("inspect", "csv:p.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "60 rows" in done.stdout
    for words in (["age", "numeric", "10.0%"], ["[ward]", "categorical"], ["code", "3 whole"]):
        line = next(line for line in done.stdout.splitlines() if line.startswith(words[0]))
        assert all(word in line for word in words[1:]), line
    assert "Say which column is to be predicted with --target COLUMN" in done.stdout


def test_inspect_tells_what_is_refused_or_left_out(folder: Path) -> None:
    done = fedcord("inspect", "csv:dated.csv", cwd=folder)
    assert done.returncode == 0
    assert "refused column 'seen' holds dates" in done.stdout
    done = fedcord("inspect", "csv:dated.csv", "--target", "ill", cwd=folder)
    assert done.returncode == 2
    assert "'seen' holds dates" in done.stderr
    assert "?drop=seen" in done.stderr


def test_inspect_has_columns_as_json_too(folder: Path) -> None:
    values = result_of("inspect", "csv:p.csv", cwd=folder)
    assert values["rows"] == 60
    age = values["columns"][1]
    assert (age["name"], age["role"], age["kind"], age["missing"]) == ("age", "input", "numeric", 6)
    both = result_of("inspect", "csv:p.csv?drop=code", "--target", "ill", cwd=folder)
    roles = [column["role"] for column in both["columns"]]
    assert roles == ["input", "input", "input", "dropped", "target"]
    assert len(both["counts"]) == 10


def test_the_client_column_makes_clients(folder: Path) -> None:
    words = ["--dataset", "csv:p.csv", "--target", "ill", "--client-column", "Krankenhaus & Praxis"]
    shown = fedcord("inspect", *words, cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "over 2 clients, natural:Krankenhaus & Praxis" in shown.stdout
    run = result_of("run", "fedavg", *words, "--rounds", "1", "--out", "run", cwd=folder)
    assert set(run["per_Krankenhaus & Praxis"]) == {"Bonn", "Köln"}
    kept = json.loads((folder / "run" / "partition.json").read_text())
    assert kept["client_names"] == ["Bonn", "Köln"]
    config = (folder / "run" / "config.toml").read_text()
    assert "csv:p.csv?target=ill&client=Krankenhaus %26 Praxis" in config


def test_another_partition_may_still_be_asked_for(folder: Path) -> None:
    words = ["--target", "ill", "--client-column", "Krankenhaus & Praxis", "--partition", "iid"]
    values = result_of("inspect", "csv:p.csv", *words, "--clients", "3", cwd=folder)
    assert len(values["counts"]) == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["inspect", "--target", "x"], "--target and --client-column are for tables"),
        (["run", "fedavg", "--dataset", "npz:a.npz", "--target", "x"], "are for tables"),
        (["inspect", "csv:p.csv", "--dataset", "digits"], "the data set is given twice"),
        (["inspect", "csv:p.csv", "--target", "il"], "did you mean 'ill'"),
        (["inspect", "csv:p.csv?target=ill", "--target", "age"], "write each once"),
        (["run", "fedavg", "--dataset", "csv:p.csv"], "say which column is to be predicted"),
        (["inspect", "csv:none.csv"], "none.csv cannot be read"),
        (["inspect", "csv:p.csv", "--target", "ill", "--client-column", "x"], "for client 'x'"),
    ],
)
def test_mistakes_are_told_in_words(folder: Path, words: list[str], why: str) -> None:
    done = fedcord(*words, cwd=folder)
    assert done.returncode == 2
    assert why in done.stderr
    assert not (folder / "runs").exists()
