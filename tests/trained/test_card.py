"""The model card says what the run has recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fedcord.experiment.finished_run import read_finished
from fedcord.statistics import share_interval
from fedcord.trained.card import model_card
from fedcord.trained.model import model_of
from tests.trained.runs import VECTOR, finished, own_data


def _card(run: Path) -> tuple[dict[str, object], str]:
    done = read_finished(run)
    _, header, text = model_card(done, model_of(done)).split("---\n", 2)
    entries = (line.split(": ", 1) for line in header.splitlines())
    return {key: json.loads(value) for key, value in entries}, text


def test_a_card_of_one_run(tmp_path: Path) -> None:
    result = finished(tmp_path / "run", "afl", secure=0.6)
    header, text = _card(tmp_path / "run")
    assert header["library_name"] == "fedcord"
    assert header["pipeline_tag"] == "image-classification"
    index = header["model-index"]
    assert index[0]["results"][0]["metrics"][0]["value"] == result["accuracy"]  # type: ignore[index]
    assert "CC BY 4.0; Alpaydin and Kaynak 1998" in text
    assert f"| Accuracy | {100 * result['accuracy']:.2f} % |" in text
    assert "| class | test examples | precision % | recall % | F1 % |" in text
    assert "Updates were masked by secure aggregation: the server read their sum" in text
    assert "no guarantee of differential privacy" in text
    assert "torch.zeros(2, 1, 8, 8, dtype=torch.uint8)" in text


def test_noise_is_told_with_its_guarantee(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "afl", data, params={"privacy": {"epsilon": 3.0}})
    _, text = _card(tmp_path / "run")
    assert "asked for with ε = 3 and δ = 1e-05" in text
    assert "Updates were not masked" in text
    assert "Licence of the data: its owners'" in text


def test_intervals_are_over_the_seeds_of_the_study(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    values = [
        finished(tmp_path / f"afl/seed-{seed}", "afl", data, seed=seed, test=0.3)["accuracy"]
        for seed in (0, 1)
    ]
    finished(tmp_path / "afl/seed-2", "afl", data, seed=2, test=0.1)  # with other settings
    _, text = _card(tmp_path / "afl/seed-1")
    interval = share_interval(np.array(values))
    assert "| metric | this model | mean over 2 seeds | 95 % interval |" in text
    mean = f"| Accuracy | {100 * values[1]:.2f} % | {100 * interval.mean:.2f} % |"
    assert mean in text
