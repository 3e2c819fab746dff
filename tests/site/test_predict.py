"""Predictions at a site, without the server."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.site.in_process import sites_here
from fedcord.site.kept_model import find_model
from fedcord.site.own_data import read_site
from fedcord.site.site_file import load_site
from tests.cli.command import fedcord
from tests.site.in_process import Hospitals, own_csvs, own_table, patients


def _config(algorithm: str) -> RunConfig:
    settings: dict[str, object] = {"algorithm": algorithm, "dataset": "sites:tumours", "clients": 2}
    if algorithm in ("fedavg", "fedproto"):
        settings |= {"rounds": 2}
    return load_config(settings)


def _trained(folder: Path, algorithm: str) -> tuple[Hospitals, dict[str, object]]:
    there = Hospitals({k: own_table(folder, k) for k in range(2)})
    return there, run(_config(algorithm), Place(folder / "run"), sites=there.sites())


@pytest.mark.parametrize("algorithm", ["fedavg", "fedhip", "fedproto"])
def test_a_site_answers_as_the_run_has_tested_it(tmp_path: Path, algorithm: str) -> None:
    """On its own test part, with its personal model where the method makes one."""
    there, result = _trained(tmp_path, algorithm)
    for client, path in there.files.items():
        site = load_site(path)
        model = find_model(site).model
        test = read_site(site, model.config).agreed(model.facts).client(client).test
        right = (model.scores(test.inputs).argmax(dim=1) == test.labels).double().mean()
        assert float(right) == result["client_accuracy"][client]  # type: ignore[index]


def test_the_command_writes_a_row_for_every_example(tmp_path: Path) -> None:
    _trained(tmp_path, "fedhip")
    cases = np.load(tmp_path / "hospital-1" / "cases.npz")
    np.savez(tmp_path / "new.npz", x=cases["x"][:300], id=[f"case {n}" for n in range(100)])
    words = ["site", "predict", "hospital-1/site.toml", "--data", "npz:new.npz", "--out", "p.csv"]
    done = fedcord(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["examples"] == 100
    assert said["model"].startswith("fedhip-")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[7].keys() == {"id", "class", "benign", "malignant"}
    assert rows[7]["id"] == "case 7"
    right = [row["class"] == label for row, label in zip(rows, cases["y"], strict=True)]
    assert np.mean(right) > 0.9


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((4, 5))}, "examples have shape [5], the model takes [6]"),
        ({"z": np.zeros((4, 6))}, "expected x, the examples to predict"),
        ({"x": np.full((4, 6), np.nan)}, "example 0 (from 0) holds NaN, infinity"),
        ({"x": np.zeros((4, 8, 8), np.uint8)}, "examples are of kind image, the model takes"),
    ],
)
def test_examples_that_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], words: str
) -> None:
    _trained(tmp_path, "afl")
    np.savez(tmp_path / "new.npz", **arrays)  # type: ignore[arg-type]
    command = ["site", "predict", "hospital-1/site.toml", "--data", "npz:new.npz"]
    done = fedcord(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "predictions.csv").exists()


def test_a_site_without_a_model_says_so(tmp_path: Path) -> None:
    own_table(tmp_path, 0)
    command = ["site", "predict", "hospital-0/site.toml", "--data", "npz:hospital-0/cases.npz"]
    done = fedcord(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "has no model in" in done.stderr


def test_rows_of_a_table_are_prepared_by_what_the_run_agreed_on(tmp_path: Path) -> None:
    """Columns by name, in any order; scores do not depend on which rows come together."""
    files = own_csvs(tmp_path, patients(), "target=sick&id=patient")
    config = load_config({"algorithm": "afl", "dataset": "sites:patients", "clients": 3})
    result = run(config, Place(tmp_path / "run"), sites=sites_here(files))
    site = load_site(files[1])
    model = find_model(site).model
    test = read_site(site, model.config).agreed(model.facts).client(1).test
    right = (model.scores(test.inputs).argmax(dim=1) == test.labels).double().mean()
    assert float(right) == result["client_accuracy"][1]
    rows = pd.read_csv(tmp_path / "South" / "cases.csv")
    new = rows[["smoker", "ward", "lab", "age", "patient"]].assign(extra=1)
    new.loc[3, "ward"] = "unheard of"
    new.to_csv(tmp_path / "new.csv", index=False)
    words = ["site", "predict", "South/site.toml", "--data", "csv:new.csv", "--out", "p.csv"]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "has categories that training did not have (unheard of)" in done.stderr
    assert "columns that the model does not use: extra" in done.stderr
    told = pd.read_csv(tmp_path / "p.csv")
    assert list(told["id"]) == list(rows["patient"])
    assert (told["class"] == rows["sick"]).mean() > 0.7
    new[4:6].to_csv(tmp_path / "new.csv", index=False)
    assert fedcord(*words, cwd=tmp_path).returncode == 0
    few = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(few["yes"], told["yes"][4:6], rtol=1e-5, atol=1e-6)


def test_tables_that_do_not_fit_the_model_are_refused(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    config = load_config({"algorithm": "afl", "dataset": "sites:patients", "clients": 3})
    run(config, Place(tmp_path / "run"), sites=sites_here(files))
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 8), np.float32))
    (tmp_path / "new.csv").write_text("lab,ward,smoker\n1,surgery,true\n")
    (tmp_path / "odd.csv").write_text("age,lab,ward,smoker\nold,1,surgery,true\n")
    for data, why in {
        "npz:x.npz": "the model was trained on a table and takes its columns (age, lab, ward",
        "csv:new.csv": "the table lacks age, of which the model learns",
        "csv:odd.csv": "column 'age' is numeric, but row 1 holds 'old'",
        "csv:none.csv": "none.csv",
    }.items():
        done = fedcord("site", "predict", "West/site.toml", "--data", data, cwd=tmp_path)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "predictions.csv").exists()
