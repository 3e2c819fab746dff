import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.engine.population import Population
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config
from fedcord.store.run_folder import RunFolder


def _own(seed: int = 0, num: int = 90) -> Dataset:
    generator = np.random.default_rng(seed)
    labels = np.arange(num) % 3
    inputs = (generator.normal(size=(num, 5)) + 3 * labels[:, None]).astype(np.float32)
    half = 2 * num // 3
    return Dataset(
        "mine",
        "vector",
        Split(inputs[:half], labels[:half], {"site": labels[:half]}),
        Split(inputs[half:], labels[half:], {"site": labels[half:]}),
        ("a", "b", "c"),
        group_names={"site": ("north", "south", "west")},
    )


def test_every_example_lands_once_in_its_clients_block() -> None:
    config = load_config({"algorithm": "fedavg", "clients": 7})
    made = build_experiment(config)
    people, labels = made.population, made.dataset.train.labels
    assert len(people.labels) == len(labels)
    for client, indices in enumerate(made.partition.clients):
        data = people.client(client)
        parts = [data.train, data.validation, data.test]
        assert sum(map(len, parts)) == len(indices)
        held = torch.cat([part.labels for part in parts]).sort().values
        assert torch.equal(held, torch.from_numpy(np.sort(labels[indices])))
    assert people.inputs.dtype == torch.uint8


def test_visiting_a_client_copies_nothing() -> None:
    made = build_experiment(load_config({"algorithm": "fedavg"}))
    start = made.population.inputs.untyped_storage().data_ptr()
    for client in range(made.population.num_clients):
        inputs = made.population.client(client).train.inputs
        assert inputs.untyped_storage().data_ptr() == start


def test_population_bounds_are_checked() -> None:
    good = build_experiment(load_config({"algorithm": "fedavg"})).population
    with pytest.raises(DataError, match="bounds must rise"):
        Population(good.inputs, good.labels, good.bounds.flip(1), good.test)
    with pytest.raises(DataError, match="stay within"):
        Population(good.inputs, good.labels, good.bounds + 10**6, good.test)


def test_own_data_object_and_natural_groups(tmp_path: Path) -> None:
    result = fedcord.run(
        "fedavg",
        dataset=_own(),
        partition="natural:site",
        clients=0,
        rounds=15,
        out=tmp_path / "run",
        params={"local": {"epochs": 3}},
    )
    assert result["clients"] == 3
    assert result["dataset"] == "own:mine"
    assert result["per_site"].keys() == {"north", "south", "west"}
    again = fedcord.run(
        "fedavg",
        dataset=_own(),
        partition="natural:site",
        clients=0,
        rounds=15,
        out=tmp_path / "run",
        params={"local": {"epochs": 3}},
        resume=True,
    )
    assert again == result


def test_resuming_on_other_data_is_refused(tmp_path: Path) -> None:
    settings = {"rounds": 2, "clients": 3, "out": tmp_path / "run"}
    fedcord.run("fedavg", dataset=_own(0), **settings)  # type: ignore[arg-type]
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(CheckpointError, match="the data is not what the run"):
        fedcord.run("fedavg", dataset=_own(1), resume=True, **settings)  # type: ignore[arg-type]


def test_resuming_own_images_with_another_normalisation_is_refused(tmp_path: Path) -> None:
    def images(mean: float) -> Dataset:
        labels = np.arange(24) % 2
        pixels = np.random.default_rng(0).integers(0, 255, (24, 1, 8, 8)).astype(np.uint8)
        parts = Split(pixels[:16], labels[:16]), Split(pixels[16:], labels[16:])
        return Dataset("mine", "image", *parts, ("a", "b"), (mean,), (0.5,))

    settings = {"rounds": 1, "clients": 2, "model": "mlp:4", "out": tmp_path / "run"}
    fedcord.run("fedavg", dataset=images(0.5), **settings)  # type: ignore[arg-type]
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(CheckpointError, match="the data is not what the run"):
        fedcord.run("fedavg", dataset=images(0.1), resume=True, **settings)  # type: ignore[arg-type]


def test_an_algorithm_object_runs_as_it_is(tmp_path: Path) -> None:
    algorithm = fedcord.FedProx(0.5, fedcord.LocalSGD(lr=0.1))
    one = fedcord.run(algorithm, rounds=2, clients=4, out=tmp_path / "one")
    two = fedcord.run(
        "fedprox",
        rounds=2,
        clients=4,
        out=tmp_path / "two",
        params={"proximal_weight": 0.5, "local": {"lr": 0.1}},
    )
    assert one["state_hash"] == two["state_hash"]


def test_partial_participation_visits_a_share_and_is_recorded(tmp_path: Path) -> None:
    result = fedcord.run("fedavg", participation=0.3, rounds=3, out=tmp_path / "run")
    everyone = fedcord.run("fedavg", rounds=3, out=tmp_path / "all")
    assert result["bytes_down"] * 10 == everyone["bytes_down"] * 3
    assert result["state_hash"] != everyone["state_hash"]


def test_compare_from_python(tmp_path: Path) -> None:
    found = fedcord.compare(
        ["fedavg", "fedprox"], seeds=2, rounds=2, clients=4, out=tmp_path / "study"
    )
    assert found.report.exists()
    assert {row.name for row in found.leaderboard.rows} == {"fedavg", "fedprox"}
    with pytest.raises(ConfigError, match="add --resume"):
        fedcord.compare(["fedavg"], seeds=1, rounds=2, clients=4, out=tmp_path / "study")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_settings_read_back_from_a_run_folder_are_the_same(name: str, tmp_path: Path) -> None:
    config = load_config({"algorithm": name})
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_start(config.plain(), {}, {})
    assert config.differences(folder.read_config()) == []


def _table(scale: str = "standard") -> Dataset:
    """Features of very different scales and one that is constant."""
    mine = _own(num=900)
    factor = np.array([1, 1e5, 1e-3, 1, 0], np.float32)
    shift = np.array([0, 1e6, 0, -9, 7], np.float32)
    train, test = (
        dataclasses.replace(split, inputs=split.inputs * factor + shift)
        for split in (mine.train, mine.test)
    )
    return dataclasses.replace(mine, train=train, test=test, scale=scale)  # type: ignore[arg-type]


def test_vectors_are_standardised_by_the_clients_training_parts() -> None:
    settings = {"algorithm": "fedavg", "dataset": "own:mine", "clients": 4, "partition": "iid"}
    made = build_experiment(load_config(settings), _table())
    people = made.population
    rows = torch.cat([people.client(k).train.inputs for k in range(4)])
    assert len(rows) < len(people.inputs)  # validation and test parts have no say
    prepared = made.task.prepare(rows).double()
    torch.testing.assert_close(prepared.mean(0), torch.zeros(5).double(), rtol=0, atol=1e-5)
    spread = torch.tensor([1.0, 1, 1, 1, 0]).double()
    torch.testing.assert_close(prepared.std(0, correction=0), spread, rtol=1e-4, atol=1e-6)
    plain = build_experiment(load_config(settings), _table("none"))
    assert torch.equal(plain.task.prepare(rows), rows)


def test_resuming_with_another_scale_is_refused(tmp_path: Path) -> None:
    words: dict[str, Any] = {"clients": 3, "rounds": 2, "partition": "iid"}
    out = tmp_path / "run"
    fedcord.run("fedavg", dataset=_table("standard"), out=out, **words)
    (out / "result.json").unlink()
    with pytest.raises(CheckpointError, match=r"the data is not what the run in .* began with"):
        fedcord.run("fedavg", dataset=_table("none"), out=out, resume=True, **words)
    fedcord.run("fedavg", dataset=_table("standard"), out=out, resume=True, **words)


def test_a_table_of_mixed_scales_is_learnt(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"clients": 4, "partition": "iid", "rounds": 5, "model": "logistic"}
    reached = {
        scale: fedcord.run("fedavg", dataset=_table(scale), out=tmp_path / scale, **settings)
        for scale in ("standard", "none")
    }
    assert reached["standard"]["accuracy"] > 0.85
    assert reached["none"]["accuracy"] < 0.7


def test_standardised_vectors_have_equal_bits_when_the_task_is_rebuilt(tmp_path: Path) -> None:
    hashes = {
        fedcord.run(
            "fedavg",
            dataset=_table(),
            out=tmp_path / engine,
            engine=engine,
            clients=3,
            rounds=2,
            partition="iid",
        )["state_hash"]
        for engine in ("sequential", "wire")
    }
    assert len(hashes) == 1


def _untested() -> Dataset:
    mine = _own()
    return dataclasses.replace(mine, test=Split(mine.test.inputs[:0], mine.test.labels[:0]))


def test_data_that_nobody_keeps_a_test_part_of_is_refused() -> None:
    config = load_config({"algorithm": "afl", "dataset": "own:mine", "clients": 2, "test": 0})
    with pytest.raises(DataError, match="'mine' has no test examples, and no client keeps any"):
        build_experiment(config, _untested())


@pytest.mark.parametrize("name", ["fedavg", "fedproto", "fedhip"])
def test_without_a_common_test_set_clients_test_on_their_own_parts(
    name: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"partition": "iid", "clients": 3, "test": 0.3, "model": "mlp:8"}
    people = build_experiment(load_config(settings), _untested()).population
    tests = [people.sizes(client)[2] for client in people.clients]
    if name != "fedhip":
        settings["rounds"] = 2
    found = [
        fedcord.run(name, dataset=_untested(), out=tmp_path / engine, engine=engine, **settings)
        for engine in ("sequential", "wire")
    ]
    assert found[0]["state_hash"] == found[1]["state_hash"]
    for result in found:
        assert result["accuracy_on"] == "clients' own test parts"
        assert sum(result["test_counts"]) == sum(tests)
        if name == "fedavg":  # one shared model: the mean over clients by their examples
            own = zip(result["client_accuracy"], tests, strict=True)
            mean = sum(accuracy * size for accuracy, size in own) / sum(tests)
            assert result["accuracy"] == pytest.approx(mean)


def test_clients_that_are_all_empty_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "clients.json"
    path.write_text('{"clients": [[], []]}')
    settings = {"algorithm": "afl", "dataset": "own:mine", "partition": f"file:{path}"}
    with pytest.raises(DataError, match="leaves every client without examples"):
        build_experiment(load_config(settings), _own())


def test_inputs_are_held_once() -> None:
    made = build_experiment(load_config({"subset": 100, "clients": 3}))
    for split in (made.dataset.train, made.dataset.test):
        assert set(split.inputs.strides) == {0}  # one zero stands for all of them
    assert made.dataset.train.inputs.shape[1:] == tuple(made.population.inputs.shape[1:])
    assert len(made.population.inputs) == 100
