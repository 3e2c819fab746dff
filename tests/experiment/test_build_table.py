"""Tables in experiments: prepared by what clients train on, recorded in the task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedcord
from fedcord.core.errors import ConfigError
from fedcord.data.formats.delimited import read_csv
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.rows import prepare_rows
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.load import load_config


def write(folder: Path, rows: int = 400) -> Path:
    """Columns of very different scales, of which two and a word tell the class."""
    rng = np.random.default_rng(0)
    dose, income = rng.normal(size=rows), rng.normal(size=rows)
    ward = rng.choice(["A", "B", "C"], rows)
    score = dose + income + 1.5 * (ward == "C")
    frame = pd.DataFrame(
        {
            "site": rng.choice(["n", "s"], rows),
            "dose": 1e-6 * dose + 3e-6,
            "income": 1e6 * income + 5e7,
            "ward": ward,
            "ill": np.where(score > 0.5, "yes", "no"),
        }
    )
    frame.loc[0, "site"] = "single"
    frame.loc[rng.random(rows) < 0.1, "income"] = None
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    return path


def build(path: Path, **settings: object) -> Experiment:
    return build_experiment(
        load_config(
            {
                "algorithm": "fedavg",
                "dataset": f"csv:{path}?target=ill&client=site",
                "partition": "natural:site",
                "clients": 0,
                **settings,
            }
        )
    )


def test_constants_are_those_of_what_clients_train_on(tmp_path: Path) -> None:
    path = write(tmp_path)
    made = build(path, validation=0.2, test=0.2)
    preparation = TablePreparation.from_json(made.blueprint.task_values["preparation"])
    trained = [made.population.client(k).train.inputs for k in range(3)]
    assert [len(part) for part in trained].count(1) == 1
    inputs = torch.cat(trained).double().numpy()
    names = list(preparation.input_names)
    assert names == [
        *("dose", "income", "income is missing"),
        *("ward = A", "ward = B", "ward = C"),
    ]
    dose = inputs[:, 0]
    assert dose.mean() == pytest.approx(0, abs=1e-6)  # of the training rows, not of the file
    assert dose.std() == pytest.approx(1, rel=1e-6)
    there = inputs[inputs[:, 2] == 0, 1]
    assert there.mean() == pytest.approx(0, abs=1e-6)
    assert there.std() == pytest.approx(1, rel=1e-6)
    assert (inputs[inputs[:, 2] == 1, 1] == 0).all()
    kept_out = torch.cat([made.population.client(k).validation.inputs for k in range(3)])
    assert abs(float(kept_out[:, 0].mean())) > 1e-3


def test_the_task_prepares_the_file_as_training_did(tmp_path: Path) -> None:
    path = write(tmp_path)
    made = build(path)
    values = json.loads(json.dumps(made.blueprint.task_values))  # nothing but plain values
    done = prepare_rows(TablePreparation.from_json(values["preparation"]), read_csv(path))
    for part, held in (
        (made.dataset.test.rows, made.population.test.inputs),
        (made.dataset.train.rows, None),
    ):
        assert part is not None
        if held is not None:
            np.testing.assert_array_equal(done.inputs[part - 1], held.numpy())
    mine = np.concatenate([part.rows for part in (made.dataset.train, made.dataset.test)])
    assert sorted(mine) == list(range(1, 401))
    assert (values["kind"], values["input_shape"]) == ("vector", [6])
    assert (values["mean"], values["std"]) == ([], [])


@pytest.mark.parametrize("algorithm", ["fedavg", "afl", "fedproto"])
def test_unscaled_columns_are_learnt_by_default(tmp_path: Path, algorithm: str) -> None:
    path = write(tmp_path)
    result = fedcord.run(
        algorithm,
        dataset=f"csv:{path}?target=ill&client=site",
        partition="natural:site",
        clients=0,
        rounds=1 if algorithm == "afl" else 10,
    )
    assert result["accuracy"] > 0.8


def test_every_engine_has_the_same_bits(tmp_path: Path) -> None:
    path = write(tmp_path, 60)
    hashes = {
        fedcord.run(
            "fedavg",
            dataset=f"csv:{path}?target=ill&client=site",
            partition="natural:site",
            clients=0,
            rounds=2,
            engine=engine,
        )["state_hash"]
        for engine in ("sequential", "wire")
    }
    assert len(hashes) == 1


def test_other_training_rows_make_other_data(tmp_path: Path) -> None:
    path = write(tmp_path)
    hashes = {build(path, seed=seed).data_hash for seed in (0, 0, 1)}
    assert len(hashes) == 2


def test_a_network_for_images_does_not_take_a_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="image"):
        build(write(tmp_path), model=["cnn"])
