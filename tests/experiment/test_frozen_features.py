"""Frozen networks: features are computed once, equal the network's, and are found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from fedcord.algorithms.analytic.features import network_features
from fedcord.core.errors import DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.data.facts import DataFacts
from fedcord.experiment import feature_store
from fedcord.experiment.build import build_experiment
from fedcord.experiment.feature_store import FeatureStore, feature_folder
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.task_values import task_from_values, task_values

ENCODER = "frozen:random-conv,filters=4"


def _images(seed: int = 0, num: int = 150) -> Dataset:
    generator = np.random.default_rng(seed)
    labels = np.arange(num) % 3
    inputs = generator.integers(0, 100, (num, 1, 8, 8)).astype(np.uint8)
    inputs += (50 * labels).astype(np.uint8)[:, None, None, None]
    half = 2 * num // 3
    return Dataset(
        "mine",
        "image",
        Split(inputs[:half], labels[:half]),
        Split(inputs[half:], labels[half:]),
        ("a", "b", "c"),
        mean=(0.3,),
        std=(0.2,),
    )


def _config(**more: Any) -> Any:
    values = {"algorithm": "afl", "clients": 3, "partition": "iid", "model": [ENCODER]}
    return load_config({**values, "dataset": "own:mine", **more})


def _pixel_sums(inputs: Tensor) -> Tensor:
    return inputs.flatten(1).float().sum(1, keepdim=True)


@pytest.fixture
def keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_store, "WORTH_KEEPING", 0.0)


def test_clients_hold_the_bits_the_network_computes(tmp_path: Path) -> None:
    data = _images()
    made = build_experiment(_config(), data, [tmp_path])
    values = task_values(DataFacts.of(data), [ENCODER])
    task = task_from_values(values)
    plain = build_experiment(_config(params={"features": {"source": "pixels"}}), data, [tmp_path])
    assert plain.population.inputs.dtype == torch.uint8  # somebody looks past the network
    for seen, stored in (
        (made.population.inputs, plain.population.inputs),
        (made.population.test.inputs, plain.population.test.inputs),
    ):
        wanted = network_features(task.scratch_network(), task.prepare(stored))
        assert torch.equal(seen.double(), wanted)
    assert torch.equal(made.population.labels, plain.population.labels)
    assert made.task.input_shape == (16,)
    # one sample at a time and in float64 sums, the same numbers up to rounding
    alone = task.scratch_network().double()  # the head only
    one = alone.features(task.prepare(plain.population.inputs[7:8]))  # type: ignore[operator]
    torch.testing.assert_close(made.population.inputs[7:8], one.float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["sequential", "wire"])
def test_result_is_that_of_looking_through_the_network(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very bits of the model, though the network is asked once instead of at every look."""
    data = _images()
    ahead = run(_config(), Place(tmp_path / "ahead", engine, data_dirs=[tmp_path]), dataset=data)
    monkeypatch.setattr("fedcord.experiment.build.is_applicable", lambda algorithm, task: False)
    live = run(_config(), Place(tmp_path / "live", engine, data_dirs=[tmp_path]), dataset=data)
    assert ahead["accuracy"] == live["accuracy"] > 0.8
    assert ahead["client_accuracy"] == live["client_accuracy"]
    model = [_weight(tmp_path / name) for name in ("ahead", "live")]
    assert torch.equal(*model)


def _weight(folder: Path) -> Tensor:
    (path,) = sorted(folder.glob("checkpoints/**/*.safetensors"))[-1:]
    stored = safetensors.torch.load_file(path)
    found = [stored[name] for name in sorted(stored) if name.endswith("head.weight")]
    return torch.cat(found)  # the server's, or those that clients keep


@pytest.mark.parametrize("algorithm", ["fedavg", "ditto", "fedrod", "pfedme", "per-fedavg"])
def test_trained_heads_agree_up_to_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    """Gradient methods give the network other batches than the store does."""
    data, weights = _images(), []
    config = _config(algorithm=algorithm, rounds=2)
    assert build_experiment(config, data, [tmp_path]).population.inputs.dtype == torch.float32
    for name in ("ahead", "live"):
        run(config, Place(tmp_path / name, data_dirs=[tmp_path]), dataset=data)
        weights.append(_weight(tmp_path / name))
        monkeypatch.setattr("fedcord.experiment.build.is_applicable", lambda algorithm, task: False)
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)
    changed = _config(algorithm=algorithm, params={"local": {"augment": "flip"}})
    monkeypatch.undo()
    assert build_experiment(changed, data, [tmp_path]).population.inputs.dtype == torch.uint8


@pytest.mark.usefixtures("keep_all")
def test_every_example_is_computed_once(tmp_path: Path) -> None:
    todo: list[int] = []
    data = _images()

    def noted(done: int, total: int) -> None:
        if done == 0:
            todo.append(total)

    for changes in ({}, {"seed": 1, "partition": "dirichlet:0.5"}, {"algorithm": "fedhip"}):
        build_experiment(_config(**changes), data, [tmp_path], on_feature=noted)
    assert todo == [150]
    build_experiment(_config(model=[ENCODER + ",seed=1"]), data, [tmp_path], on_feature=noted)
    assert todo == [150, 150]  # other weights are another encoder
    build_experiment(_config(), _images(seed=1), [tmp_path], on_feature=noted)
    assert todo == [150, 150, 150]  # other data


@pytest.mark.usefixtures("keep_all")
def test_a_subset_pays_for_itself_only(tmp_path: Path) -> None:
    todo: list[tuple[int, int]] = []
    for subset in (20, None):
        build_experiment(
            _config(subset=subset),
            _images(),
            [tmp_path],
            on_feature=lambda d, t: todo.append((d, t)),
        )
    assert todo == [(0, 70), (70, 70), (0, 80), (80, 80)]  # 50 of them are the test set


def test_little_work_leaves_no_files(tmp_path: Path) -> None:
    build_experiment(_config(), _images(), [tmp_path])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("keep_all")
def test_an_interrupted_extraction_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_store, "BLOCK", 4)
    monkeypatch.setattr(feature_store, "SECONDS_PER_FILE", 0.0)
    inputs = torch.arange(40, dtype=torch.uint8).view(20, 1, 1, 2)

    def stopped(done: int, total: int) -> None:
        if done == 12:
            raise KeyboardInterrupt

    store = FeatureStore(tmp_path, 1, _pixel_sums)
    with pytest.raises(KeyboardInterrupt):
        store.features(inputs, stopped)
    todo: list[int] = []
    found = store.features(inputs, lambda done, total: todo.append(total))
    assert set(todo) == {12}  # two blocks of four were kept
    assert torch.equal(found, _pixel_sums(inputs))


@pytest.mark.usefixtures("keep_all")
def test_equal_examples_share_a_row_and_order_does_not_matter(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute(inputs: Tensor) -> Tensor:
        calls.append(len(inputs))
        return _pixel_sums(inputs)

    inputs = torch.tensor([[1, 2], [3, 4], [1, 2], [2, 1]], dtype=torch.uint8)
    store = FeatureStore(tmp_path, 1, compute)
    assert store.features(inputs).flatten().tolist() == [3, 7, 3, 3]
    assert calls == [3]
    assert store.features(inputs.flip(0)).flatten().tolist() == [3, 3, 7, 3]
    assert store.features(inputs[:0]).shape == (0, 1)
    assert calls == [3]


@pytest.mark.usefixtures("keep_all")
def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    inputs = torch.arange(6, dtype=torch.uint8).view(3, 2)
    FeatureStore(tmp_path, 1, _pixel_sums).features(inputs)
    (path,) = tmp_path.iterdir()
    with pytest.raises(DataError, match=r"features are \[3, 1\].*delete it"):
        FeatureStore(tmp_path, 5, _pixel_sums).features(inputs)
    content = bytearray(path.read_bytes())
    content[-2] ^= 1  # a bit of a feature, which is as good a number as before
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"its checksum.*delete it, and what it held is computed"):
        FeatureStore(tmp_path, 1, _pixel_sums).features(inputs)
    path.unlink()
    found = FeatureStore(tmp_path, 1, _pixel_sums).features(inputs)
    assert torch.equal(found, _pixel_sums(inputs))


@pytest.mark.usefixtures("keep_all")
def test_files_of_older_versions_carry_no_checksum_and_are_not_read(tmp_path: Path) -> None:
    inputs = torch.arange(6, dtype=torch.uint8).view(3, 2)
    FeatureStore(tmp_path, 1, _pixel_sums).features(inputs)
    (path,) = tmp_path.iterdir()
    path.rename(tmp_path / "0123456789abcdef.safetensors")
    todo: list[int] = []
    store = FeatureStore(tmp_path, 1, _pixel_sums)
    store.features(inputs, lambda done, total: todo.append(total))
    assert set(todo) == {3}


def test_features_go_to_the_first_folder_that_can_be_written(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    new = tmp_path / "new" / "data"
    assert feature_folder("a" * 64, [taken, new]) == new / "features" / ("a" * 16)
    assert feature_folder("a" * 64, [taken]) is None
    inputs = torch.arange(6, dtype=torch.uint8).view(3, 2)
    kept_nowhere = FeatureStore(None, 1, _pixel_sums).features(inputs)
    assert torch.equal(kept_nowhere, _pixel_sums(inputs))


@pytest.mark.parametrize("model", ["frozen:pixels", "mlp:8"])
def test_other_networks_are_left_alone(tmp_path: Path, model: str) -> None:
    made = build_experiment(_config(model=[model]), _images(), [tmp_path])
    assert made.population.inputs.dtype == torch.uint8
