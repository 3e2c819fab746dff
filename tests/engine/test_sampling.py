"""Whom a round visits: its own draw, or that of the exchange it is a phase of."""

import json
from pathlib import Path
from typing import Any

import pytest

import fedcord
from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.engine.sampling import exchange_at, sample_clients
from fedcord.experiment.config import ENGINES
from tests.algorithms.oneshot.small_runs import preset


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
