"""Exact unlearning and the invariance certificate from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedcord.report.load import load_run
from fedcord.store.checkpoint import load_final, load_newest
from tests.cli.command import fedcord, result_of

SMALL = ["--subset", "120", "--set", "features.width=32"]


def _stored(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return values


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_forgetting_makes_a_run_beside_that_equals_training_without_the_client(
    tmp_path: Path,
) -> None:
    before = result_of("run", "afl", "--clients", "6", *SMALL, "--out", "seed-0", cwd=tmp_path)
    untouched = _files(tmp_path / "seed-0")
    first = result_of("forget", "seed-0", "--client", "2", cwd=tmp_path)
    second = result_of("forget", first["run_dir"], "--client", "4", cwd=tmp_path)
    assert _files(tmp_path / "seed-0") == untouched
    assert [first["run_dir"], second["run_dir"]] == ["seed-0-without-2", "seed-0-without-2-4"]
    for done in (first, second):
        assert done["difference"] <= 1e-8
    assert first["accuracy_before"] == before["accuracy"]
    assert second["accuracy_before"] == first["accuracy_after"]
    stored = _stored(tmp_path / "seed-0-without-2-4")
    assert stored["forgotten"] == [2, 4]
    assert stored["state_hash"] != before["state_hash"]
    assert stored["loss"] != before["loss"]
    assert stored["client_accuracy"][2] is stored["client_accuracy"][4] is None
    run = load_run(tmp_path / "seed-0-without-2-4")
    assert run.is_verified
    assert run.result is not None
    assert run.metrics[-1].accuracy == run.result.accuracy == second["accuracy_after"]


def test_everything_said_about_the_model_is_said_anew(tmp_path: Path) -> None:
    """As training without the client would say it, whose examples are simply not there."""
    words = ["--partition", "file:mine.json", *SMALL[2:]]
    parts = [list(range(k * 40, (k + 1) * 40)) for k in range(3)]
    _write_partition(tmp_path / "mine.json", parts)
    old = result_of("run", "apfl", "--clients", "3", *words, "--out", "run", cwd=tmp_path)
    result_of("forget", "run", "--client", "1", "--out", "new", cwd=tmp_path)
    parts[1] = []
    _write_partition(tmp_path / "mine.json", parts)
    wanted = result_of("run", "apfl", "--clients", "3", *words, "--out", "bare", cwd=tmp_path)
    found = _stored(tmp_path / "new")
    for key in ("accuracy", "balanced_accuracy", "client_accuracy", "client_accuracy_mean"):
        assert found[key] == wanted[key], key
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-9)
    assert found["loss"] != old["loss"]
    assert found["validation_accuracy"] == wanted["validation_accuracy"]
    personal = [
        load_final(tmp_path / name, _stored(tmp_path / name)["config_hash"])
        for name in ("new", "bare")
    ]
    assert personal[0] is not None
    assert personal[1] is not None
    assert personal[0].memories.keys() == personal[1].memories.keys() == {0, 2}
    assert personal[0].hash == found["state_hash"]


def _write_partition(path: Path, parts: list[list[int]]) -> None:
    path.write_text(json.dumps({"clients": parts}))


def test_in_place_leaves_no_file_that_holds_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.experiment.run.CHECKPOINT_SECONDS", 0.0)
    words = ["run", "accord", "--clients", "4", "--model", "mlp:8", "--set", "local.epochs=1"]
    out = tmp_path / "run"
    before = result_of(*words, "--set", "personal=true", "--out", "run", cwd=tmp_path)
    config_hash = before["config_hash"]
    assert len([*(out / "checkpoints").iterdir()]) == 2  # the round before holds the encoder too
    old = load_final(out, config_hash)
    assert old is not None
    secrets = [
        t.numpy().tobytes() for n, t in old.state.shared.items() if n.startswith("encoder.1.")
    ]
    assert secrets
    words = ["forget", "run", "--client", "1", "--drop-encoder", "--in-place"]
    said = fedcord(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "What it held of the client is deleted." in said.stdout
    for name, content in _files(out).items():
        assert not any(secret in content for secret in secrets), name
    stored, new = _stored(out), load_final(out, config_hash)
    assert new is not None
    assert new.hash == stored["state_hash"] != before["state_hash"]
    assert sorted(new.memories) == [0, 2, 3]
    assert (stored["forgotten"], stored["dropped_encoders"]) == ([1], [1])
    assert not (out / "forgetting.json").exists()
    kept = load_newest(out / "checkpoints", config_hash)
    assert kept is not None
    assert kept.memories == {}


def test_of_two_clients_one_is_left_and_the_last_one_stays(tmp_path: Path) -> None:
    words = ["--clients", "2", "--partition", "iid", *SMALL]
    result_of("run", "afl", *words, "--out", "run", cwd=tmp_path)
    done = result_of("forget", "run", "--client", "0", cwd=tmp_path)
    assert done["difference"] <= 1e-8
    last = fedcord("forget", done["run_dir"], "--client", "1", cwd=tmp_path)
    assert last.returncode == 2
    assert "is the only one in the sums" in last.stderr


def test_what_cannot_be_forgotten_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    result_of("run", "afl", "--clients", "4", *SMALL, "--out", "run", cwd=tmp_path)
    result_of("forget", "run", "--client", "1", "--in-place", cwd=tmp_path)
    kept = _files(tmp_path / "run")
    again = fedcord("forget", "run", "--client", "1", "--in-place", cwd=tmp_path)
    assert again.returncode == 2
    assert "client 1 is not in the sums" in again.stderr
    missing = fedcord("forget", "run", "--client", "77", cwd=tmp_path)
    assert missing.returncode == 2
    assert "client 77 does not exist; this run has clients 0 to 3" in missing.stderr
    both = fedcord("forget", "run", "--client", "2", "--in-place", "--out", "x", cwd=tmp_path)
    assert both.returncode == 2
    assert "leave --out out" in both.stderr
    assert _files(tmp_path / "run") == kept
    result_of("forget", "run", "--client", "2", "--out", "new", cwd=tmp_path)
    taken = fedcord("forget", "run", "--client", "3", "--out", "new", cwd=tmp_path)
    assert taken.returncode == 2
    assert "'new' is there already" in taken.stderr
    result_of("run", "fedavg", "--clients", "4", "--rounds", "1", "--out", "avg", cwd=tmp_path)
    averaged = fedcord("forget", "avg", "--client", "1", cwd=tmp_path)
    assert averaged.returncode == 2
    assert "fedavg does not keep sums" in averaged.stderr
    nowhere = fedcord("forget", "nowhere", "--client", "1", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert "holds no finished run" in nowhere.stderr


def test_an_interrupted_forgetting_in_place_says_what_to_do(tmp_path: Path) -> None:
    result_of("run", "afl", "--clients", "4", *SMALL, "--out", "run", cwd=tmp_path)
    plan = {"client": 1, "drop_encoder": False, "accuracy_before": 0.5, "forgotten": [1]}
    plan["dropped_encoders"] = []
    (tmp_path / "run" / "forgetting.json").write_text(json.dumps(plan))
    other = fedcord("forget", "run", "--client", "2", "--in-place", cwd=tmp_path)
    assert other.returncode == 2
    assert "repeat it first: fedcord forget run --client 1 --in-place" in other.stderr
    report = fedcord("report", "run", cwd=tmp_path)
    assert report.returncode == 2
    assert "forgetting a client was interrupted" in report.stderr
    done = result_of("forget", "run", "--client", "1", "--in-place", cwd=tmp_path)
    assert done["accuracy_before"] == 0.5
    assert _stored(tmp_path / "run")["forgotten"] == [1]


def test_a_run_of_the_version_before_is_forgotten_with_a_word(tmp_path: Path) -> None:
    result_of("run", "afl", "--clients", "4", *SMALL, "--out", "run", cwd=tmp_path)
    (tmp_path / "run" / "SHA256SUMS").unlink()
    done = fedcord("forget", "run", "--client", "1", cwd=tmp_path)
    assert done.returncode == 0
    assert "of a version that wrote no checksums" in done.stderr


def test_the_certificate_of_invariance(tmp_path: Path) -> None:
    for algorithm in ("afl", "fedhip"):
        found = result_of("check-invariance", algorithm, "--clients", "6", cwd=tmp_path)
        assert len(found["dealings"]) >= 3
        assert found["difference"] < 1e-7
    refused = fedcord("check-invariance", "fedavg", cwd=tmp_path)
    assert refused.returncode == 2
    assert "is not invariant" in refused.stderr
    words = ("--clients", "3", "--model", "mlp:4", "--set", "local.epochs=1")
    refused = fedcord("check-invariance", "ensemble", *words, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: the model has another form with 2 clients than with 3")


def test_clients_are_called_by_their_names(tmp_path: Path) -> None:
    parts = [list(range(k * 40, (k + 1) * 40)) for k in range(3)]
    names = {"clients": parts, "client_names": ["Bonn", "Köln", "Köln"]}
    (tmp_path / "mine.json").write_text(json.dumps(names))
    words = ["--partition", "file:mine.json", *SMALL[2:]]
    result_of("run", "afl", *words, "--out", "run", cwd=tmp_path)
    done = fedcord("forget", "run", "--client", "Bonn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("client 'Bonn' (0) is forgotten: the model in 'run-without-0'")
    assert load_run(tmp_path / "run-without-0").name == "afl without client 'Bonn' (0)"
    again = fedcord("forget", "run-without-0", "--client", "Bonn", cwd=tmp_path)
    known = "client 'Bonn' (0) is not in the sums (in them: 'Köln' (1), 'Köln' (2))"
    assert known in again.stderr
    told = result_of("forget", "run", "--client", "2", "--out", "new", cwd=tmp_path)
    assert (told["client"], told["client_name"]) == (2, "Köln")
    for client, expected in {
        "Bon": "unknown client 'Bon'; did you mean 'Bonn'?",
        "Köln": "several clients are called 'Köln'; give the number of one",
        "3": "client 3 does not exist; this run has clients 0 to 2 ('Bonn' (0), 'Köln' (1), "
        "'Köln' (2)).",
        "9" * 5000: "unknown client '999",
    }.items():
        refused = fedcord("forget", "run", "--client", client, cwd=tmp_path)
        assert refused.returncode == 2
        assert expected in refused.stderr
    result_of("run", "afl", "--clients", "2", *SMALL, "--out", "numbers", cwd=tmp_path)
    nameless = fedcord("forget", "numbers", "--client", "Bonn", cwd=tmp_path)
    assert nameless.returncode == 2
    assert "client 'Bonn': must be a number; clients of this run have no names" in nameless.stderr


def test_work_that_was_kept_for_reuse_is_forgotten_too(tmp_path: Path) -> None:
    words = ["accord", "--clients", "3", "--subset", "60", "--model", "mlp:4"]
    words += ["--set", "local.epochs=1", "--reuse", "work", "--out", "run"]
    result_of("run", *words, cwd=tmp_path)
    everything = _files(tmp_path / "work")
    old = tmp_path / "work" / ("0" * 64)
    old.write_bytes(b"of a version that did not say whose it is")
    beside = fedcord("forget", "run", "--client", "1", cwd=tmp_path)
    assert beside.returncode == 0, beside.stderr
    assert f"2 files of its work in '{tmp_path / 'work'}' (--reuse) stay" in beside.stdout
    assert _files(tmp_path / "work").keys() == {*everything, old.name}
    within = fedcord("forget", "run", "--client", "1", "--in-place", cwd=tmp_path)
    assert "(--reuse) are deleted too" in within.stdout
    assert _files(tmp_path / "work").keys() < everything.keys()
    assert len(_files(tmp_path / "work")) == len(everything) - 1
