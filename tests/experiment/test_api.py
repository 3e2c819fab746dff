"""The calls of a script: what may be passed, and what is said about the rest."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcord
from fedcord import ConfigError, FedAvg, FedProx, LocalSGD
from fedcord.store.run_folder import RunFolder

QUICK: dict[str, Any] = {"clients": 3, "rounds": 1, "subset": 60, "partition": "iid"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_name_an_object_and_a_class_are_the_same_run() -> None:
    results = [fedcord.run(choice, **QUICK) for choice in ("fedavg", FedAvg(), FedAvg)]
    assert len({result["state_hash"] for result in results}) == 1


def test_parameters_go_on_top_of_an_objects_own() -> None:
    own = FedAvg(local=LocalSGD(lr=0.2, batch_size=8))
    fedcord.run(own, params={"local": {"lr": 0.1}}, out="run", **QUICK)
    local = RunFolder(Path("run")).read_config()["params"]["local"]
    assert (local["lr"], local["batch_size"]) == (0.1, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: fedcord.run("fedavg", lr=0.1),
            r"'lr' is not a setting .* params=\{'local': \{'lr",
        ),
        (
            lambda: fedcord.run("fedavg", roundz=1),
            "unknown setting 'roundz'; did you mean 'rounds'",
        ),
        (lambda: fedcord.run("fedavg", params=3), "params = 3: must be a table"),
        (lambda: fedcord.run("fedavg", model=[]), "name at least one network"),
        (lambda: fedcord.run("fedavg", workers=0), "workers = 0"),
        (lambda: fedcord.run("fedavg", engine="quantum"), "unknown engine 'quantum'"),
        (lambda: fedcord.run("fedavg", dataset="own\ud800"), "bytes that are not UTF-8"),
        (lambda: fedcord.run("fedavg", dataset=np.zeros(3)), "a fedcord.Dataset made of your"),  # type: ignore[arg-type]
        (lambda: fedcord.run(3), "3 is no algorithm; give a name"),  # type: ignore[arg-type]
        (lambda: fedcord.run(LocalSGD), "is no algorithm; give a name"),
        (lambda: fedcord.run(["fedavg"]), "is no algorithm; give a name"),  # type: ignore[arg-type]
        (lambda: fedcord.compare([FedAvg(), 3]), "3 is no algorithm"),  # type: ignore[list-item]
        (lambda: fedcord.compare(3), "3 is no algorithm"),  # type: ignore[arg-type]
        (lambda: fedcord.compare([]), "nothing to compare"),
        (
            lambda: fedcord.compare([FedProx(), FedProx()]),
            "two contenders are called fedprox; give",
        ),
        (lambda: fedcord.compare({"../x": FedAvg()}), "contender '../x': must be without"),
        (lambda: fedcord.compare({3: FedAvg()}), "contender 3: must be text"),  # type: ignore[dict-item]
        (lambda: fedcord.compare("fedavg", seeds="3"), "seeds = '3': must be a whole"),  # type: ignore[arg-type]
        (lambda: fedcord.compare("fedavg", lr=0.1), "'lr' is not a setting but local.lr of fedavg"),
        (lambda: fedcord.resume("nowhere"), "'nowhere' holds no run"),
    ],
)
def test_mistakes_say_what_to_write(call: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
    assert list(tmp_path.iterdir()) == []


def test_names_objects_and_classes_are_compared_under_short_names() -> None:
    mixed = fedcord.compare([FedAvg, FedProx(proximal_weight=2.0)], seeds=1, **QUICK)
    assert {row.name for row in mixed.leaderboard.rows} == {"fedavg", "FedProx"}
    one = fedcord.compare("fedavg", seeds=1, out="one", **QUICK)
    assert [row.name for row in one.leaderboard.rows] == ["fedavg"]
    labelled = fedcord.compare(
        {"weak": FedProx(proximal_weight=0.01), "strong": FedProx(proximal_weight=1.0)},
        seeds=1,
        **QUICK,
    )
    assert {row.name for row in labelled.leaderboard.rows} == {"weak", "strong"}


def test_compare_takes_places_as_the_command_line_does(tmp_path: Path) -> None:
    fedcord.compare(
        "fafi",
        seeds=1,
        out="study",
        reuse="work",
        workers=1,
        data_dirs=["data"],
        assignments="local.epochs=1",
        **{**QUICK, "rounds": None},
    )
    assert any((tmp_path / "work").iterdir())


def test_resume_takes_settings_from_the_folder_and_ends_with_the_same_bits() -> None:
    whole = fedcord.run("fedprox", out="run", seed=3, params={"proximal_weight": 0.5}, **QUICK)
    (Path("run") / "result.json").unlink()
    again = fedcord.resume("run")
    assert again["state_hash"] == whole["state_hash"]
    assert fedcord.resume(Path("run")) == again


def test_resume_asks_for_own_data_again() -> None:
    inputs = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    labels = np.arange(30) % 3
    split = fedcord.Split(inputs, labels)
    data = fedcord.Dataset(
        name="mine", kind="vector", train=split, test=split, class_names=("a", "b", "c")
    )
    fedcord.run("fedavg", dataset=data, out="run", clients=3, rounds=1, partition="iid")
    (Path("run") / "result.json").unlink()
    with pytest.raises(ConfigError, match="began with your own data; pass it again as dataset="):
        fedcord.resume("run")
    assert 0 <= fedcord.resume("run", dataset=data)["accuracy"] <= 1


def test_a_report_is_written_anew_from_folders() -> None:
    first = fedcord.compare(["fedavg", "fedprox"], seeds=2, out="study", **QUICK)
    first.report.unlink()
    again = fedcord.write_report("study")
    assert again.report.is_file()
    assert again.leaderboard.to_json() == first.leaderboard.to_json()
    assert again.root == Path("study")
