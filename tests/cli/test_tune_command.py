import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedcord.experiment.api import compare
from tests.cli.command import fedcord, result_of

SMALL = ["--clients", "2", "--rounds", "1", "--subset", "80", "--partition", "iid"]


def test_what_tune_has_chosen_is_what_compare_runs(tmp_path: Path) -> None:
    words = ["fedavg", "afl", *SMALL, "--out", "study"]
    done = fedcord("tune", *words, "--trials", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "local.lr=" in done.stdout
    assert "nothing to tune" in done.stdout
    assert "Chosen: study/tuning.json" in done.stdout
    study = tmp_path / "study"
    before = {p: p.stat().st_mtime_ns for p in (study / "tuning").rglob("result.json")}
    assert len(before) == 3 + 2
    more = ["--tune", "3", "--seeds", "2", "--resume"]
    values = result_of("compare", *words, *more, cwd=tmp_path)
    assert before == {p: p.stat().st_mtime_ns for p in (study / "tuning").rglob("result.json")}
    own = json.loads((study / "tuning.json").read_text())["contenders"]["fedavg"]
    chosen = own["trials"][own["chosen"]]["values"]["local.lr"]
    for seed in (0, 1):
        config = tomllib.loads((study / f"fedavg/seed-{seed}/config.toml").read_text())
        assert config["params"]["local"]["lr"] == chosen
    assert values["seeds"] == [0, 1]
    assert values["tuning"]["fedavg"]["chosen"] == {"local.lr": chosen}
    assert {row["algorithm"] for row in values["rows"]} == {"fedavg", "afl"}
    assert "<h2>Tuning</h2>" in (study / "report.html").read_text()
    refused = fedcord("compare", *words, "--tune", "3", "--seeds", "2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "already holds this tuning; add --resume" in refused.stderr


def test_a_trial_that_diverges_does_not_fail_the_study(tmp_path: Path) -> None:
    words = ["fedavg", "fedprox", *SMALL, "--out", "study", "--seeds", "1", "--tune", "3"]
    done = fedcord("compare", *words, "--space", "local.lr=1e20,1e25", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tuning = json.loads((tmp_path / "study" / "tuning.json").read_text())
    for own in tuning["contenders"].values():
        assert [bool(trial["failure"]) for trial in own["trials"]] == [False, True, True]
        assert own["trials"][1]["failure"].startswith("NumericalError")
        assert own["chosen"] == 0
    assert "2 of which failed" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tune", "fedavg", "--space", "local.lr=0.3:0.1"], "the lower first"),
        (["tune", "fedavg", "--space", "local.rl=0.1:0.3"], "did you mean 'local.lr'"),
        (["tune", "fedavg", "--trials", "many"], "trials = 'many': must be a whole number"),
        (["tune", "fedavg", "--validation", "0"], "validation = 0 keeps none"),
        (["tune", "afl"], "nothing to tune"),
        (["compare", "fedavg", "--tune", "1"], "trials = 1: must be a whole number from 2"),
        (["compare", "fedavg", "--tune", "4", "--search", "x"], "unknown search 'x'"),
        (["compare", "fedavg", "--space", "local.lr=0.1:0.3"], "--space: only with --tune N"),
        (["compare", "fedavg", "--search", "tpe"], "--search: only with --tune N"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(
    tmp_path: Path, words: list[str], said: str
) -> None:
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_the_space_of_an_algorithm_is_listed(tmp_path: Path) -> None:
    done = fedcord("list", "algorithms", "fedprox", cwd=tmp_path)
    assert "tuned over 0.001:1:log" in done.stdout
    rows = json.loads(fedcord("list", "algorithms", "fedprox", "--json", cwd=tmp_path).stdout)
    spaces = {row["name"]: row["space"] for row in rows if row["space"]}
    assert spaces == {"proximal_weight": "0.001:1:log", "local.lr": "0.005:0.5:log"}


def test_a_script_can_tune_too(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"clients": 2, "rounds": 1, "subset": 80, "partition": "iid"}
    found = compare(["fedavg", "fedprox"], seeds=1, out=tmp_path / "s", tune=2, **settings)
    assert [*found.leaderboard.to_json()["tuning"]] == [row.name for row in found.leaderboard.rows]
    assert found.root == tmp_path / "s"
