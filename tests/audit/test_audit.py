"""The command on finished runs: what it attacks, what it says, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import fedcord
from fedcord.audit.audit import MODELS, SUMS, audit_run
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from tests.cli.command import fedcord as command

SMALL: dict[str, Any] = {
    "subset": 240,
    "clients": 2,
    "partition": "dirichlet:1.0",
    "validation": 0.0,
    "test": 0.5,
    "model": "mlp:16",
}
EPOCH = {"epochs": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    long = {"local": {"epochs": 10, "lr": 0.3}}
    fedcord.run("fedavg", out=root / "fedavg", rounds=3, params=long, **SMALL)
    fedcord.run("fedavg", out=root / "masked-fedavg", rounds=2, secure=0.6, **SMALL)
    fedcord.run("accord", out=root / "accord", params={"local": {"epochs": 2}}, **SMALL)
    features = {"width": 150}
    fedcord.run("afl", out=root / "afl", params={"features": features}, **SMALL)
    private = {"features": features, "privacy": {"epsilon": 1.0, "noise_at": "local"}}
    fedcord.run("afl", out=root / "private", params=private, **SMALL)
    fedcord.run("afl", out=root / "masked", secure=0.6, params={"features": features}, **SMALL)
    return root


def test_models_are_attacked_by_their_loss_and_by_shadows(runs: Path, tmp_path: Path) -> None:
    done = command("audit", str(runs / "fedavg"), "--shadows", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    attacks = ["loss threshold", "shadow models", "likelihood ratio"]
    wanted = [(t, a) for t in ("final model", "a client's model") for a in attacks]
    assert [(f["target"], f["attack"]) for f in found["findings"]] == wanted
    assert {f["seen_by"] for f in found["findings"]} == {"whoever gets it", "server"}
    assert found["shadows"] == 2
    assert len(found["by_client"]) == 2 * len(wanted)
    for finding in found["findings"]:
        assert 0.4 < finding["rates"]["auc"] <= 1.0
        assert finding["rates"]["clients"] == 2


def test_encoders_of_accord_are_attacked_with_and_without_prototypes(runs: Path) -> None:
    found = audit_run(runs / "accord", num_shadows=2)
    targets = dict.fromkeys((f.target, f.seen_by) for f in found.findings)
    assert list(targets) == [
        ("final model", "whoever gets it"),
        ("a client's encoder", "server and all clients"),
        ("a client's encoder and prototypes", "server"),
        ("a client's sums", "server"),
        ("the sum over all clients", "server"),
    ]


def test_what_was_sent_in_different_rounds_is_never_taken_for_one_network(runs: Path) -> None:
    """Bodies of encoders and heads of averaging rounds; an averaged model hides no encoder."""
    more: dict[str, Any] = {
        "accord-rounds": {"rounds": 2, "tuning": {"epochs": 1}, "encoders": {"local": EPOCH}},
        "accord-student": {"student": {"rounds": 2}, "teacher": {"local": EPOCH}},
    }
    for method, params in more.items():
        fedcord.run(method, out=runs / method, params=params, **SMALL)
        found = audit_run(runs / method, num_shadows=0)
        assert [(f.target, f.seen_by) for f in found.findings] == [
            ("final model", "whoever gets it"),
            ("a client's model", "server"),
            ("a client's encoder", "server and all clients"),
            ("a client's encoder and prototypes", "server"),
        ]
        assert any(f"Sums were not attacked: {method}" in note for note in found.notes)
    alone = fedcord.run("fedavg", out=runs / "two", rounds=2, params={"local": {}}, **SMALL)
    assert alone["rounds"] == 2
    ours = {f.target: f.rates.auc for f in audit_run(runs / "accord-rounds", None, 0).findings}
    theirs = {f.target: f.rates.auc for f in audit_run(runs / "two", None, 0).findings}
    assert ours["a client's model"] == theirs["a client's model"]  # its rounds are FedAvg's


def test_encoders_that_are_not_chosen_are_seen_by_the_server_only(runs: Path) -> None:
    params = {"local": EPOCH, "selection": {"rule": "cka", "max_encoders": 1}}
    fedcord.run("accord", out=runs / "cka", params=params, **SMALL)
    found = audit_run(runs / "cka", num_shadows=0, parts=[MODELS])
    seen = [f.seen_by for _, f in found.by_client if f.target == "a client's encoder"]
    assert sorted(seen) == ["server", "server and all clients"]


def test_personal_heads_give_everybody_s_sums_to_everybody(runs: Path) -> None:
    fedcord.run("accord", out=runs / "p", params={"local": EPOCH, "personal": True}, **SMALL)
    seen = {f.target: f.seen_by for f in audit_run(runs / "p", parts=[SUMS]).findings}
    assert seen["the sum over all clients"] == "server and all clients"
    assert seen["a client's sums"] == "server"


def test_a_run_of_which_nothing_is_attacked_says_that_this_is_no_promise(runs: Path) -> None:
    fedcord.run("local", out=runs / "local", params={"local": EPOCH}, **SMALL)
    found = audit_run(runs / "local", num_shadows=2)
    assert not found.findings
    assert found.shadows == 0  # none was trained for nothing
    assert any("Nothing was attacked" in note for note in found.notes)


def test_sums_of_fewer_samples_than_features_give_everybody_away(runs: Path) -> None:
    for name, targets in (("afl", 2), ("masked", 1)):
        found = audit_run(runs / name, parts=[SUMS])
        assert len({f.target for f in found.findings}) == targets  # masks hide single ones
        for finding in found.findings:
            assert finding.rates.auc == 1.0
            assert finding.limit is None
    assert any("masked" in note for note in found.notes)


def test_sums_that_are_not_attacked_are_said_to_be_left_out(tmp_path: Path) -> None:
    """A head by conjugate gradients comes of sums, too: products, of which none are kept."""
    solve = {"by": "gradients", "exchanges": 2}
    params = {"local": {"epochs": 1}, "solve": solve}
    fedcord.run("accord", out=tmp_path / "run", params=params, **SMALL)
    found = audit_run(tmp_path / "run", num_shadows=0)
    assert not any("sum" in finding.target for finding in found.findings)
    (said,) = [note for note in found.notes if note.startswith("Sums were not attacked: accord")]
    assert said not in audit_run(tmp_path / "run", num_shadows=0, parts=[MODELS]).notes


def test_masked_models_are_seen_by_nobody_and_the_final_one_by_everybody(runs: Path) -> None:
    found = audit_run(runs / "masked-fedavg", num_shadows=0)
    assert {f.target for f in found.findings} == {"final model"}
    assert any("masked" in note for note in found.notes)


def test_noise_at_clients_hides_members_from_the_server_as_far_as_it_says(runs: Path) -> None:
    for finding in audit_run(runs / "private", parts=[SUMS]).findings:
        assert finding.limit is not None
        assert finding.rates.low <= finding.limit.auc


def test_the_text_explains_its_numbers(runs: Path, tmp_path: Path) -> None:
    done = command("audit", str(runs / "private"), "--only", "sums", cwd=tmp_path)
    assert done.returncode == 0
    assert "a client's sums (seen by server)" in done.stdout
    assert "0.5 is blind guessing" in " ".join(done.stdout.split())
    assert "limit" in done.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shadows", "3"], "must be an even number"),
        (["--shadows", "few"], "must be a whole number"),
        (["--only", "weights"], "unknown part 'weights'"),
        (["--only", "sums"], "fedavg with these settings holds no sums at its end"),
    ],
)
def test_bad_words_exit_2(runs: Path, tmp_path: Path, flags: list[str], words: str) -> None:
    done = command("audit", str(runs / "fedavg"), *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_model_that_is_not_the_run_s_is_not_spoken_about(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.audit.audit.SAME_MODEL", 0.0)
    audit_run(runs / "fedavg", num_shadows=0)  # trained again, it has the very bits
    monkeypatch.setattr("fedcord.audit.audit.SAME_MODEL", -1.0)
    with pytest.raises(CheckpointError, match=r"trained again, the model of .* is another"):
        audit_run(runs / "fedavg", num_shadows=0)


def test_runs_that_cannot_be_judged_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no finished run"):
        audit_run(tmp_path)
    few = {**SMALL, "subset": 60, "clients": 6}
    fedcord.run("afl", out=tmp_path / "few", params={"features": {"width": 20}}, **few)
    with pytest.raises(DataError, match="has 20 training samples with as many"):
        audit_run(tmp_path / "few")
    shutil.copytree(runs / "afl", tmp_path / "left")
    assert command("forget", "left", "--client", "0", "--in-place", cwd=tmp_path).returncode == 0
    with pytest.raises(ConfigError, match="audit the run it was made of"):
        audit_run(tmp_path / "left")
