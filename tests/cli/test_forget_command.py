"""Exact unlearning and the invariance certificate from the command line."""

import json
from pathlib import Path

from tests.cli.command import fedcord, result_of


def test_forgetting_equals_training_without_the_client(tmp_path: Path) -> None:
    before = result_of("run", "afl", "--clients", "6", "--out", "run", cwd=tmp_path)
    first = result_of("forget", "run", "--client", "2", cwd=tmp_path)
    second = result_of("forget", "run", "--client", "4", cwd=tmp_path)
    for done in (first, second):
        assert done["difference"] <= 1e-8
    assert first["accuracy_before"] == before["accuracy"]
    assert second["accuracy_before"] == first["accuracy_after"]
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["forgotten"] == [2, 4]
    assert stored["state_hash"] != before["state_hash"]


def test_what_cannot_be_forgotten_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    result_of("run", "afl", "--clients", "4", "--out", "run", cwd=tmp_path)
    result_of("forget", "run", "--client", "1", cwd=tmp_path)
    kept = (tmp_path / "run" / "result.json").read_bytes()
    again = fedcord("forget", "run", "--client", "1", cwd=tmp_path)
    assert again.returncode == 1
    assert "client 1 is not in the sums" in again.stderr
    missing = fedcord("forget", "run", "--client", "77", cwd=tmp_path)
    assert missing.returncode == 2
    assert "client 77 does not exist; this run has clients 0 to 3" in missing.stderr
    assert (tmp_path / "run" / "result.json").read_bytes() == kept
    result_of("run", "fedavg", "--clients", "4", "--rounds", "1", "--out", "avg", cwd=tmp_path)
    averaged = fedcord("forget", "avg", "--client", "1", cwd=tmp_path)
    assert averaged.returncode == 2
    assert "fedavg does not keep sums" in averaged.stderr
    nowhere = fedcord("forget", "nowhere", "--client", "1", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert "holds no finished run" in nowhere.stderr


def test_the_certificate_of_invariance(tmp_path: Path) -> None:
    for algorithm in ("afl", "fedhip"):
        found = result_of("check-invariance", algorithm, "--clients", "6", cwd=tmp_path)
        assert len(found["dealings"]) >= 3
        assert found["difference"] < 1e-7
    refused = fedcord("check-invariance", "fedavg", cwd=tmp_path)
    assert refused.returncode == 2
    assert "is not invariant" in refused.stderr
