"""Whom a round visits: its own draw, or for probes that of the exchange to come."""

import json
from pathlib import Path
from typing import Any

import fedcord
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.engine.sampling import exchange_at, sample_clients
from fedcord.experiment.run import ENGINES
from tests import federation
from tests.algorithms.oneshot.small_runs import preset


def test_rounds_are_exchanges_and_probes_belong_to_the_next_one() -> None:
    env = federation.env(rounds=4)
    assert [exchange_at(FedAvg(), env, r) for r in range(4)] == [0, 1, 2, 3]
    assert [exchange_at(preset("fafi", {"checkpoints": 4}), env, r) for r in range(4)] == [0] * 4


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
        assert [set(line["client_metrics"]) for line in rounds] == [chosen] * 4
        assert result["state_hash"] == found["sequential"][0]["state_hash"]
    whole, _ = run("whole", 1)
    looked_at, _ = found["sequential"]
    assert [whole["accuracy"], whole["loss"]] == [looked_at["accuracy"], looked_at["loss"]]
