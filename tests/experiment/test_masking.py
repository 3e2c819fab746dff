"""A masked run from its settings to its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from fedcord.experiment.api import run
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.secure import availability

SMALL: dict[str, Any] = {"clients": 4, "partition": "iid", "subset": 300}


def test_a_masked_run_ends_as_the_open_one_and_counts_what_masks_cost(tmp_path: Path) -> None:
    exact: dict[str, Any] = {
        "params": {"wire": "fixed64", "ridge": 1.0, "features": {"width": 64}},
        **SMALL,
    }
    found = {
        (engine, secure): run(
            "afl", out=tmp_path / f"{engine}-{secure}", engine=engine, secure=secure, **exact
        )
        for engine, secure in (("sequential", None), ("sequential", 0.6), ("wire", 0.6))
    }
    open_, masked, wire = found.values()
    assert open_["accuracy"] == masked["accuracy"] > 0.6
    assert masked["state_hash"] == wire["state_hash"]
    n = 4
    more_up = 64 * n + 94 * n * (n - 1) + 8 * n + 33 * n * n
    assert masked["bytes_up"] - open_["bytes_up"] == more_up
    assert set(masked["traffic"]) - set(open_["traffic"]) == {
        "key exchange",
        "key shares",
        "unmasking",
    }
    (note,) = [note for note in masked["notes"] if "masked" in note]
    assert "at least 60% of a round's clients, and no single one" in note


def test_the_setting_is_part_of_a_run_and_old_runs_keep_their_identity() -> None:
    assert RunConfig().hash == RunConfig(secure=None).hash != RunConfig(secure=0.6).hash
    assert "secure" not in RunConfig().plain()


@pytest.mark.parametrize("share", [0.5, 0.0, 1.1, "many"])
def test_shares_that_make_no_sense_are_refused(share: object) -> None:
    with pytest.raises(ConfigError, match=r"secure = .*must be"):
        load_config({"algorithm": "afl", "secure": share})


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("fedproto", {}),
        ("afl-aa", {}),
        ("afl", {"wire": "rfactor"}),
        ("fedhip", {"personalize_at": "server", "alpha": 1.0}),
        ("fedrcl", {"server_mean": "uniform"}),
    ],
)
def test_methods_that_need_single_updates_say_so(
    tmp_path: Path, algorithm: str, params: dict[str, object]
) -> None:
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match=rf"secure = 0\.6: .* {algorithm} needs single clients'"):
        run(algorithm, out=out, secure=0.6, params=params, **SMALL)
    assert not out.exists()


def test_one_client_in_a_round_cannot_be_masked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its sum would be that client's update"):
        run("fedavg", out=tmp_path / "run", secure=0.6, rounds=1, participation=0.3, **SMALL)


def test_what_is_missing_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(availability, "LIBRARY", "no_such_package")
    out = tmp_path / "run"
    flags = ["--clients", "4", "--subset", "300", "--secure", "0.6", "--out", str(out)]
    assert main(["run", "afl", *flags]) == 2
    assert "pip install 'fedcord[secure]'" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_masked_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"secure": 0.6, "rounds": 3, **SMALL}
    whole = run("fedavg", out=tmp_path / "whole", **settings)
    out = tmp_path / "stopped"
    run("fedavg", out=out, **settings)
    (out / "result.json").unlink()
    newest = max((out / "checkpoints").iterdir(), key=lambda path: path.name)
    assert newest.exists()
    again = run("fedavg", out=out, resume=True, **settings)
    assert again["state_hash"] == whole["state_hash"]


def test_masked_and_open_variants_can_be_compared(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        """
        seeds = 1
        [settings]
        clients = 4
        subset = 300
        rounds = 1
        [variants.open]
        algorithm = "fedavg"
        [variants.masked]
        algorithm = "fedavg"
        secure = 0.6
        """
    )
    assert main(["compare", str(study), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    found = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("result.json")]
    assert len({result["state_hash"] for result in found}) == 1
    assert len({result["bytes_up"] for result in found}) == 2
