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
    # several steps: what a single one overflows to is the processor's choice
    words += ["--set", "local.batch_size=4"]
    done = fedcord("compare", *words, "--space", "local.lr=1e30,1e35", cwd=tmp_path)
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


STUDY = """
algorithms = ["fedavg", "fedprox"]
[settings]
clients = 2
rounds = 1
subset = 80
partition = "iid"
"""
ENTRY = """
[tune]
trials = 3
space = { local.lr = "0.01:0.3:log", "fedprox:proximal_weight" = [0.1, 1] }
"""


def test_a_study_file_tunes_as_the_flags_do(tmp_path: Path) -> None:
    (tmp_path / "by-file.toml").write_text(STUDY + ENTRY)
    (tmp_path / "by-flags.toml").write_text(STUDY)
    flags = ["--tune", "3", "--space", "local.lr=0.01:0.3:log"]
    flags += ["--space", "fedprox:proximal_weight=0.1,1"]
    found = []
    for words in (["by-file.toml"], ["by-flags.toml", *flags]):
        out = words[0].removesuffix(".toml")
        result_of("compare", *words, "--out", out, cwd=tmp_path)
        found.append(json.loads((tmp_path / out / "tuning.json").read_text()))
    assert found[0] == found[1]
    assert found[0]["contenders"]["fedprox"]["space"]["proximal_weight"] == "0.1,1"
    # `tune` makes what `compare` then finds, and flags win over the file
    result_of("tune", "by-file.toml", "--out", "tuned", "--trials", "2", cwd=tmp_path)
    tuned = json.loads((tmp_path / "tuned" / "tuning.json").read_text())
    assert (tuned["trials"], tuned["contenders"]["fedprox"]["space"]) == (
        2,
        found[0]["contenders"]["fedprox"]["space"],
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("tune = 8", "tune = 8: must be a table, [tune]"),
        ("[tune]", "[tune] needs trials"),
        ("[tune]\ntrials = 3\ntrails = 4", "unknown entry of [tune] 'trails'; did you mean"),
        ("[tune]\ntrials = 1", "trials = 1: must be a whole number from 2"),
        ('[tune]\ntrials = "many"', "trials = 'many': must be a whole number"),
        ("[tune]\ntrials = 3\nspace = 4", "[tune] space = 4: must be a table of parameters"),
        ("[tune]\ntrials = 3\nspace.local.lr = 4", "[tune] space local.lr = 4: must be"),
        ('[tune]\ntrials = 3\nspace.local.lr = "3:1"', "[tune] space 'local.lr=3:1': 3:1: must be"),
        ('[tune]\ntrials = 3\nspace.local.rl = "1:3"', "did you mean 'local.lr'"),
        ('[tune]\ntrials = 3\nspace."moon:local.lr" = "1:3"', "'moon' is not among fedavg"),
        ('[tune]\ntrials = 3\nsearch = "x"', "unknown search 'x'"),
        ("[tune]\ntrials = 3\nsearch = 1", "[tune] search = 1: must be a word"),
        ("[tune]\ntrials = 3\nspace.local.lr = [0.1, -1]", "[tune] space local.lr=0.1,-1 of fed"),
    ],
)
def test_mistakes_in_the_entry_are_told_before_anything_is_written(
    tmp_path: Path, entry: str, said: str
) -> None:
    top, settings = (entry, "") if entry.startswith("tune") else ("", entry)
    (tmp_path / "study.toml").write_text(f"{top}\n{STUDY}\n{settings}\n")
    for command in ("compare", "tune"):
        done = fedcord(command, "study.toml", cwd=tmp_path)
        assert done.returncode == 2
        assert said in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_study_over_flower_is_not_tuned(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + ENTRY)
    done = fedcord("flower", "run", "study.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "has [tune], which is not done over Flower: tune with 'fedcord tune study.toml'" in (
        done.stderr
    )


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
