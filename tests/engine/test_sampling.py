"""Whom a round visits: its own draw, or that of the exchange it is a phase of."""

import json
from pathlib import Path
from typing import Any

import pytest

import fedcord
from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.core.errors import ConfigError
from fedcord.engine.sampling import (
    clients_of_round,
    exchange_at,
    least_in_a_round,
    num_in_round,
    sample_clients,
)
from fedcord.experiment.config import ENGINES
from fedcord.experiment.finished_run import read_finished
from fedcord.report.load import load_run
from tests.algorithms.oneshot.small_runs import preset
from tests.cli.command import fedcord as command


def test_rounds_are_exchanges_but_phases_of_a_method_are_one() -> None:
    assert [exchange_at(FedAvg(), r) for r in range(4)] == [0, 1, 2, 3]
    assert [exchange_at(preset("fafi", {"checkpoints": 4}), r) for r in range(4)] == [0] * 4
    assert [exchange_at(Accord(), r) for r in range(3)] == [0] * 3


@pytest.mark.parametrize("name", ["accord", "fens"])
def test_methods_in_phases_finish_with_the_few_clients_that_are_drawn(
    name: str, tmp_path: Path
) -> None:
    """Drawn anew per phase, those who hold encoders and those who send sums need not meet."""
    quick = {"local": {"epochs": 1}}
    more = {"aggregator_rounds": 2} if name == "fens" else {}
    result = fedcord.run(
        name,
        clients=8,
        participation=0.25,
        subset=200,
        partition="iid",
        model="mlp:12",
        out=tmp_path / "run",
        params={**quick, **more},
    )
    assert result["accuracy"] > 0.1


def test_a_one_shot_client_does_all_of_its_training_or_none(tmp_path: Path) -> None:
    """Chunks of local training are looks at one exchange, for which clients are drawn once."""

    def run(name: str, checkpoints: int, engine: str = "sequential") -> tuple[Any, list[Any]]:
        result = fedcord.run(
            "flare",
            clients=6,
            participation=0.5,
            subset=200,
            model="mlp:12",
            engine=engine,
            out=tmp_path / name,
            params={"checkpoints": checkpoints, "local": {"epochs": 4}},
        )
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        return result, [json.loads(line) for line in lines]

    chosen = {str(client) for client in sample_clients(0, 0, range(6), 3)}
    found = {engine: run(engine, 4, engine) for engine in ENGINES}
    for result, rounds in found.values():
        assert result["rounds"] == 1  # three of the four were looks
        assert [line.get("probe", False) for line in rounds] == [True] * 3 + [False]
        assert [set(line["client_metrics"]) for line in rounds] == [chosen] * 4
        assert result["state_hash"] == found["sequential"][0]["state_hash"]
    whole, _ = run("whole", 1)
    looked_at, _ = found["sequential"]
    assert [whole["accuracy"], whole["loss"]] == [looked_at["accuracy"], looked_at["loss"]]


def test_one_share_draws_the_clients_of_an_exchange_and_several_those_of_every_round() -> None:
    everybody = range(20)

    def drawn(method: Accord | FedAvg, participation: float | tuple[float, ...]) -> list[list[int]]:
        return [clients_of_round(method, participation, 3, r, everybody) for r in range(4)]

    once = sample_clients(3, 0, everybody, 10)
    assert drawn(Accord(), 0.5) == [once] * 4
    assert drawn(Accord(), (1.0, 0.5)) == [list(everybody), *drawn(FedAvg(), 0.5)[1:]]
    assert drawn(Accord(), (0.5, 0.5))[1] != once
    assert [num_in_round((0.1, 0.7), r, 20) for r in range(4)] == [2, 14, 14, 14]
    assert num_in_round(0.01, 0, 20) == 1
    assert least_in_a_round((0.9, 0.2, 0.5), 2, 20) == least_in_a_round((0.9, 0.2), 10**9, 20) == 4


@pytest.mark.parametrize(
    ("participation", "encoders", "senders"), [((1.0, 1.0, 0.5), 6, 3), ((1.0, 0.5, 1.0), 3, 6)]
)
def test_clients_can_be_missing_when_encoders_are_made_or_when_sums_are(
    participation: tuple[float, ...], encoders: int, senders: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fedcord.run(
        "accord",
        clients=6,
        participation=participation,
        subset=200,
        partition="iid",
        model="mlp:12",
        out=run,
        params={"local": {"epochs": 1}},
    )
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["clients"] for line in lines] == [6, encoders, senders]
    assert lines[1]["server_metrics"]["encoders"] == encoders
    assert load_run(run).config["participation"] == list(participation)
    assert read_finished(run).config.participation == participation


def test_shares_by_round_are_written_with_commas(tmp_path: Path) -> None:
    flags = ["--participation", "1,0.5", "--rounds", "2", "--clients", "4", "--subset", "200"]
    done = command("run", "fedavg", *flags, "--quiet", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0
    assert read_finished(tmp_path / "run").config.participation == (1.0, 0.5)
    done = command("run", "fedavg", "--participation", "1,2", cwd=tmp_path)
    assert done.returncode == 2
    assert "must be > 0 and <= 1" in done.stderr


def test_rounds_that_only_look_have_no_clients_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"participation = \[1.0, 0.5\]: fafi exchanges once"):
        fedcord.run("fafi", participation=[1.0, 0.5], model="mlp:12", out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"participation = \[\]: give at least one"):
        fedcord.run("fedavg", participation=[], out=tmp_path / "run")
