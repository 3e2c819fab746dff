import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.core.errors import ConfigError, DataError, FailedRunError
from fedcord.data.dataset import Dataset
from fedcord.experiment.api import compare as fedcord_compare
from fedcord.experiment.config import RunConfig, partition_of
from tests.cli.command import fedcord, result_of

WORDS = ["compare", "fedavg", "fedprox", "--clients", "5", "--rounds", "3", "--seeds", "2"]


def test_leaderboard_page_and_resume(tmp_path: Path) -> None:
    done = fedcord(*WORDS, "--out", "study", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fedavg" in done.stdout
    assert "fedprox" in done.stdout
    page = tmp_path / "study" / "report.html"
    assert f"Report: {Path('study') / 'report.html'}" in done.stdout
    text = page.read_text()
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "<svg" in text
    runs = sorted(p.parent.relative_to(tmp_path / "study") for p in tmp_path.rglob("result.json"))
    assert [str(r) for r in runs] == [
        "fedavg/seed-0", "fedavg/seed-1", "fedprox/seed-0", "fedprox/seed-1",
    ]  # fmt: skip
    partitions = {
        seed: {
            json.loads((tmp_path / "study" / a / seed / "partition.json").read_text())["hash"]
            for a in ("fedavg", "fedprox")
        }
        for seed in ("seed-0", "seed-1")
    }
    assert all(len(hashes) == 1 for hashes in partitions.values())
    assert partitions["seed-0"] != partitions["seed-1"]
    (tmp_path / "study" / "fedprox" / "seed-1" / "result.json").unlink()
    again = fedcord(*WORDS, "--out", "study", "--resume", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["root"] == "study"
    refused = fedcord(*WORDS, "--out", "study", cwd=tmp_path)
    assert refused.returncode == 2
    assert "add --resume" in refused.stderr


def test_a_study_file_with_variants_and_flags_that_win(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'algorithms = ["fedavg"]\n'
        "seeds = 2\n"
        "[settings]\nclients = 5\nrounds = 4\n"
        "[params]\nlocal.lr = 0.1\n"
        '[variants.strong]\nalgorithm = "fedprox"\nparams.proximal_weight = 1.0\n'
    )
    values = result_of("compare", "mine.toml", "--rounds", "2", cwd=tmp_path)
    assert values["root"] == "runs/mine"
    config = (tmp_path / "runs/mine/strong/seed-1/config.toml").read_text()
    assert "proximal_weight = 1.0" in config
    assert "lr = 0.1" in config
    assert "rounds = 2" in config


def test_a_variant_has_settings_of_its_own_unless_a_flag_decides(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'algorithms = ["fedavg"]\n'
        "[settings]\nclients = 3\nrounds = 2\n"
        '[variants.short]\nalgorithm = "fedavg"\nrounds = 1\nmodel = ["mlp:8"]\n'
    )
    result_of("compare", "mine.toml", cwd=tmp_path)
    long, short = (
        _first_config(tmp_path / "runs/mine/fedavg"),
        _first_config(tmp_path / "runs/mine/short"),
    )
    assert (long["rounds"], short["rounds"]) == (2, 1)
    assert (long["model"], short["model"]) == (["auto"], ["mlp:8"])
    result_of("compare", "mine.toml", "--rounds", "1", "--out", "flag", cwd=tmp_path)
    assert _first_config(tmp_path / "flag/fedavg")["rounds"] == 1
    assert _first_config(tmp_path / "flag/short")["rounds"] == 1


def test_a_corrupt_study_file_is_refused(tmp_path: Path) -> None:
    for text, words in {
        "algorithms = [": "is not valid TOML",
        "algoritms = ['fedavg']": "unknown entries: algoritms",
        "algorithms = 'fedavg'": "must be a list of names",
        "algorithms = ['fedavg', 'fedavg']": "is listed twice",
        "seeds = 2": "nothing to compare",
        "algorithms = ['fedavg']\n[variants.x]\nlr = 1": "variant 'x' needs",
        "variants = ['fedavg']": "variants = ['fedavg']: must be tables, [variants.LABEL].",
        "[variants]\nx = 'fedavg'": "variant 'x' = 'fedavg': must be a table, such as",
        "[variants.x]\nalgorithm = 'fedavg'\nclients = 3": "variant 'x' has clients",
    }.items():
        (tmp_path / "study.toml").write_text(text)
        done = fedcord("compare", "study.toml", cwd=tmp_path)
        assert done.returncode == 2, text
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert ("nothing to compare" in done.stderr) == (text == "seeds = 2"), done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]


def test_missing_weights_are_told_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCORD_DATA", str(tmp_path))
    text = "[variants.a]\nalgorithm = 'afl'\n[variants.b]\nalgorithm = 'afl'\n"
    (tmp_path / "study.toml").write_text(text + "model = ['frozen:efficientnet-lite0']\n")
    done = fedcord("compare", "study.toml", "--out", "x", "--clients", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert f"no efficientnet-lite0/*.pth or *.safetensors in {tmp_path}; put the" in done.stderr
    assert not (tmp_path / "x").exists()


def test_set_can_name_one_contender(tmp_path: Path) -> None:
    words = [*WORDS[:-1], "1", "--set", "fedprox:proximal_weight=0", "--out", "study"]
    done = fedcord(*words, "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    hashes = {
        a: json.loads((tmp_path / "study" / a / "seed-0" / "result.json").read_text())["state_hash"]
        for a in ("fedavg", "fedprox")
    }
    assert hashes["fedavg"] == hashes["fedprox"]
    wrong = fedcord(*WORDS, "--set", "moon:x=1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "'moon' is not among fedavg, fedprox" in wrong.stderr


def test_report_is_made_anew_without_torch(tmp_path: Path) -> None:
    done = fedcord(*WORDS, "--out", "study", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "study" / "report.html").read_text()
    (tmp_path / "study" / "report.html").unlink()
    code = (
        "import sys; from fedcord.cli.main import main; code = main(['report', 'study'])\n"
        "assert code == 0 and 'torch' not in sys.modules\n"
    )
    again = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "study" / "report.html").read_text() == first
    (tmp_path / "study" / "fedavg" / "seed-0" / "SHA256SUMS").unlink()  # as versions before had it
    old = fedcord("report", "study", "--json", cwd=tmp_path)
    assert old.returncode == 0
    assert "1 of 4 runs are of a version that wrote no checksums" in old.stderr
    wrong = fedcord("report", "nowhere", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "no such folder: nowhere" in wrong.stderr


SOME_FAIL = [*WORDS, "--subset", "100", "--model", "mlp:4", "--set", "fedprox:local.lr=1e30"]


def test_a_contender_that_diverges_does_not_end_the_comparison(tmp_path: Path) -> None:
    done = fedcord(*SOME_FAIL, "--out", "study", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    # whether training or prediction overflows first is the processor's choice
    reason = r"(the predictor returned NaN|round \d: all 5 updates were refused)"
    for seed in (0, 1):
        assert re.search(rf"failed: fedprox seed {seed}: NumericalError: {reason}", done.stderr)
    assert "2 of 4 runs have no result" in done.stderr
    assert "--retry-failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "fedavg" in done.stdout
    assert (tmp_path / "study" / "report.html").exists()
    for seed in (0, 1):
        folder = tmp_path / "study" / "fedprox" / f"seed-{seed}"
        record = json.loads((folder / "failure.json").read_text())
        assert (record["algorithm"], record["seed"]) == ("fedprox", seed)
        assert record["error"] == "NumericalError"
        assert re.search(r"lower (the learning rate|local\.lr)", record["message"])
        assert not (folder / "result.json").exists()
        assert (tmp_path / "study" / "fedavg" / f"seed-{seed}" / "result.json").exists()


def test_misfits_of_all_contenders_are_told_together_before_anything_is_written(
    tmp_path: Path,
) -> None:
    models = ["--model", "mlp:4", "--model", "mlp:5"]
    words = ["compare", "fedproto", "fedavg", "moon", "--clients", "2", *models]
    done = fedcord(*words, "--out", "study", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("needs one network for all clients") == 2
    assert "fedavg needs" in done.stderr
    assert "moon needs" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_seed_under_which_data_cannot_be_dealt_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dealt(config: RunConfig, dataset: Dataset) -> object:
        if config.seed == 1:
            raise DataError("the smallest client never had 10")
        return partition_of(config, dataset)

    monkeypatch.setattr("fedcord.experiment.review.partition_of", dealt)
    done = fedcord(*WORDS, "--out", "study", cwd=tmp_path)
    assert done.returncode == 2
    assert "seed 1: the smallest client never had 10" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_misfit_that_shows_only_while_a_contender_runs_fails_that_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def misfit(*_: object) -> None:
        raise ConfigError("these models cannot be fused")

    monkeypatch.setattr(FedProx, "aggregate", misfit)
    done = fedcord(*WORDS, "--subset", "100", "--out", "study", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert "failed: fedprox seed 1: ConfigError: these models cannot be fused" in done.stderr
    assert "2 of 4 runs have no result" in done.stderr
    for seed in (0, 1):
        assert (tmp_path / "study" / "fedavg" / f"seed-{seed}" / "result.json").exists()
        assert (tmp_path / "study" / "fedprox" / f"seed-{seed}" / "failure.json").exists()
    again = fedcord(*WORDS, "--subset", "100", "--out", "study", "--quiet", cwd=tmp_path)
    assert again.returncode == 2
    assert "already holds a run (finished); add --resume" in again.stderr


def test_failures_are_kept_on_resume_and_tried_again_when_asked_for(tmp_path: Path) -> None:
    fedcord(*SOME_FAIL, "--out", "study", "--quiet", cwd=tmp_path)
    failure = tmp_path / "study" / "fedprox" / "seed-1" / "failure.json"
    before = failure.stat()
    kept = fedcord(*SOME_FAIL, "--out", "study", "--resume", "--json", cwd=tmp_path)
    assert kept.returncode == 1
    failed = json.loads(kept.stdout)["failed"]
    assert [(f["contender"], f["seed"], f["error"]) for f in failed] == [
        ("fedprox", 0, "NumericalError"),
        ("fedprox", 1, "NumericalError"),
    ]
    assert failure.stat().st_mtime_ns == before.st_mtime_ns  # nobody has written it anew
    again = fedcord(*SOME_FAIL, "--out", "study", "--retry-failed", "--quiet", cwd=tmp_path)
    assert again.returncode == 1
    assert failure.stat().st_mtime_ns != before.st_mtime_ns


def test_a_comparison_in_which_all_fail_says_so(tmp_path: Path) -> None:
    words = [*WORDS, "--subset", "100", "--set", "local.lr=1e30", "--out", "study", "--json"]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "4 of 4 runs have no result" in done.stderr
    values = json.loads(done.stdout)
    assert values["report"] is None
    assert len(values["failed"]) == 4
    with pytest.raises(FailedRunError, match="all 4 runs failed; the first is fedavg seed 0"):
        fedcord_compare(
            ["fedavg", "fedprox"],
            seeds=2,
            subset=100,
            rounds=3,
            assignments=["local.lr=1e30"],
            out=tmp_path / "python",
        )


def test_a_page_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "study" / "report.html").mkdir(parents=True)
    words = ["compare", "fedavg", "--clients", "3", "--rounds", "1", "--seeds", "1"]
    done = fedcord(*words, "--out", "study", cwd=tmp_path)
    assert done.returncode == 1
    assert "error: no report page: " in done.stderr
    assert "report.html cannot be written" in done.stderr
    assert "fedavg reaches" in done.stdout  # the result is still told
    again = fedcord(*words, "--out", "study", "--resume", "--json", cwd=tmp_path)
    assert again.returncode == 1
    assert json.loads(again.stdout)["report"] is None


def test_notes_come_once_and_after_the_result(tmp_path: Path) -> None:
    done = fedcord(*WORDS, "--partition", "dirichlet:0.02", "--out", "study", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "note" not in done.stderr
    text = " ".join(done.stdout.split())
    note = "note fedavg and fedprox"
    assert text.count("hold a single class") == 1
    assert text.index("never a maximum") < text.index(note)


def test_two_data_sets_of_equal_size_are_not_compared(tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    for name, seed in (("one", 0), ("two", 1)):
        x = np.random.default_rng(seed).normal(size=(60, 4)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x, y=labels)
    for algorithm, name in (("fedavg", "one"), ("fedprox", "two")):
        (tmp_path / "data.npz").unlink(missing_ok=True)
        (tmp_path / "data.npz").write_bytes((tmp_path / f"{name}.npz").read_bytes())
        words = ["run", algorithm, "--dataset", "npz:data.npz", "--partition", "iid"]
        flags = ["--clients", "3", "--rounds", "1", "--out", f"runs/{algorithm}"]
        done = fedcord(*words, *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    hashes = [json.loads(p.read_text())["hash"] for p in tmp_path.rglob("partition.json")]
    assert len(hashes) == 2
    assert len(set(hashes)) == 1  # index lists do not tell them apart
    done = fedcord("report", "runs", cwd=tmp_path)
    assert done.returncode == 2
    assert "for seed 0, " in done.stderr
    assert "used data " in done.stderr


def _first_config(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "seed-0" / "config.toml").read_text())
