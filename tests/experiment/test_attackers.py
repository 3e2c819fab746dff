"""The setting `attack`: how it is read, who it draws, and what a run says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from fedcord.experiment.api import run
from fedcord.experiment.attackers import AttackSpec, read_attack
from fedcord.experiment.compare import load_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_config

SMALL: dict[str, Any] = {"clients": 5, "partition": "iid", "subset": 300, "rounds": 1}
LEARNS: dict[str, Any] = {**SMALL, "clients": 10, "subset": 800, "rounds": 5}
LOCAL = {"epochs": 3, "lr": 0.3}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("label-flip:0.2", AttackSpec("label-flip", 0.2, (), 1.0)),
        ("sign-flip:0.3,factor=5", AttackSpec("sign-flip", 0.3, (), 5.0)),
        ("scaled:1", AttackSpec("scaled", 1.0, (), 10.0)),
        ("gaussian:clients=0+3,deviation=0.1", AttackSpec("gaussian", 0.0, (0, 3), 0.1)),
    ],
)
def test_reading(text: str, spec: AttackSpec) -> None:
    assert read_attack(text) == spec


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sing-flip:0.2", "did you mean 'sign-flip'"),
        ("sign-flip", "'' is not a number; write sign-flip:0.2"),
        ("sign-flip:1.2", "must be > 0 and <= 1"),
        ("sign-flip:0", "must be > 0 and <= 1"),
        ("sign-flip:nan", "'nan' is not a number"),
        ("sign-flip:clients=a", r"numbers with \+ between them"),
        ("sign-flip:0.2,deviation=2", "allowed: 'factor=NUMBER'"),
        ("label-flip:0.2,factor=2", "allowed: no option"),
        ("scaled:0.2,factor=-1", "factor must be a number > 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_loaded(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config({"attack": text})


def test_what_attackers_say_of_their_examples_is_not_what_is_refused() -> None:
    """Or an attack on a message that holds counts would be none."""
    params = {"local": {"epochs": 1}}
    settings = {**SMALL, "clients": 3, "rounds": None, "model": "mlp:4"}
    result = run("accord", params=params, attack="scaled:clients=1", **settings)
    assert result["refused"] == 0


def test_a_share_is_drawn_by_the_seed_and_a_smaller_one_within_it() -> None:
    few, many = read_attack("scaled:0.2"), read_attack("scaled:0.5")
    for seed in range(5):
        assert len(few.clients(seed, 10)) == 2
        assert set(few.clients(seed, 10)) < set(many.clients(seed, 10))
    assert len({many.clients(seed, 10) for seed in range(5)}) > 1


def test_nobody_and_strangers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"a share of 0\.01 of 10 clients is nobody"):
        read_attack("scaled:0.01").clients(0, 10)
    with pytest.raises(ConfigError, match="no client 12 among 10"):
        read_attack("scaled:clients=12").clients(0, 10)


def test_the_setting_is_part_of_a_run_and_old_runs_keep_their_identity() -> None:
    assert RunConfig().hash == RunConfig(attack=None).hash != RunConfig(attack="scaled:0.2").hash
    assert "attack" not in RunConfig().plain()


@pytest.mark.parametrize("attack", ["sign-flip:0.4", "label-flip:0.4", "gaussian:clients=1+2"])
def test_engines_agree_and_the_result_says_who(tmp_path: Path, attack: str) -> None:
    honest = run("fedavg", out=tmp_path / "honest", **SMALL)
    found = [
        run("fedavg", out=tmp_path / engine, engine=engine, attack=attack, **SMALL)
        for engine in ("sequential", "wire")
    ]
    assert found[0]["state_hash"] == found[1]["state_hash"] != honest["state_hash"]
    assert found[0]["partition_hash"] == honest["partition_hash"]
    assert found[0]["attack"]["what"] == attack
    who = found[0]["attack"]["clients"]
    assert len(who) == 2
    assert "attack" not in honest
    (note,) = [note for note in found[0]["notes"] if "attack" in note]
    assert f"client {who[0]}, {who[1]} did not" in note


def test_worker_processes_attack_too(tmp_path: Path) -> None:
    how: dict[str, Any] = {"attack": "sign-flip:0.4", **SMALL}
    one = run("fedavg", out=tmp_path / "one", **how)
    other = run("fedavg", out=tmp_path / "other", engine="processes", workers=1, **how)
    assert one["state_hash"] == other["state_hash"]


def test_masks_hide_an_attack_from_the_server_but_do_not_stop_it(tmp_path: Path) -> None:
    how: dict[str, Any] = {"attack": "scaled:clients=0,factor=100", **SMALL}
    masked = run("fedavg", out=tmp_path / "masked", secure=0.6, **how)
    clear = run("fedavg", out=tmp_path / "open", **how)
    honest = run("fedavg", out=tmp_path / "honest", secure=0.6, **SMALL)
    assert masked["loss"] == pytest.approx(clear["loss"], rel=1e-3)
    assert masked["loss"] != pytest.approx(honest["loss"], rel=1e-3)


def test_the_median_withstands_what_the_mean_does_not(tmp_path: Path) -> None:
    accuracy = {
        rule: run(
            "fedavg",
            out=tmp_path / rule,
            attack="sign-flip:0.3,factor=3",
            params={"combine": {"rule": rule}, "local": LOCAL},
            **LEARNS,
        )["accuracy"]
        for rule in ("mean", "median")
    }
    assert accuracy["median"] > 0.7 > 0.5 > accuracy["mean"]


def test_the_flag_and_a_study_file_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--clients 5 --partition iid --subset 300 --rounds 1 --attack sign-flip:0.4 --json"
    assert main(["run", "fedavg", *flags.split(), "--out", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["attack"]["what"] == "sign-flip:0.4"
    file = tmp_path / "study.toml"
    file.write_text(
        'algorithms = ["fedavg"]\n[settings]\nattack = "sign-flip:0.4"\n'
        '[variants.calm]\nalgorithm = "fedavg"\nattack = "none"\n'
    )
    study = load_study(file, {}, [])
    attacks = {label: config.attack for label, config in study.contenders.items()}
    assert attacks == {"fedavg": "sign-flip:0.4", "calm": None}


def test_real_clients_are_not_told_to_attack(tmp_path: Path) -> None:
    config = load_config({"attack": "sign-flip:0.4"})
    sites: Any = object()
    with pytest.raises(ConfigError, match="attacks are simulated, and these clients are not"):
        run_config(config, Place(tmp_path / "run"), sites=sites)
    with pytest.raises(ConfigError, match="lies at sites, each of which has its own"):
        load_config({"dataset": "sites:eyes", "attack": "sign-flip:0.4"})
    assert not (tmp_path / "run").exists()
