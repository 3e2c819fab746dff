from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.store.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


def test_config_round_trip_and_foreign_versions(folder: RunFolder) -> None:
    folder.write_config({"algorithm": "fedavg", "params": {"local": {"lr": 0.1}}})
    assert folder.read_config() == {"algorithm": "fedavg", "params": {"local": {"lr": 0.1}}}
    (folder.path / "config.toml").write_text("schema = 99\n")
    with pytest.raises(CheckpointError, match="not written by this version"):
        folder.read_config()
    (folder.path / "config.toml").write_text("= broken")
    with pytest.raises(CheckpointError, match=r"config.toml' cannot be read"):
        folder.read_config()


def test_two_runs_refuse_each_other(folder: RunFolder) -> None:
    with (
        folder.lock(),
        pytest.raises(CheckpointError, match="another run is writing"),
        RunFolder(folder.path).lock(),
    ):
        pass
    with folder.lock():
        pass  # free again


def test_a_torn_last_line_is_dropped_a_torn_middle_is_an_error(folder: RunFolder) -> None:
    for number in (1, 2, 3):
        folder.append_metrics({"round": number, "accuracy": number / 10})
    with folder.metrics_file.open("a") as file:
        file.write('{"round": 4, "accu')
    assert [r["round"] for r in folder.read_metrics()] == [1, 2, 3]
    assert [r["round"] for r in folder.rewind_metrics(2)] == [1, 2]
    assert folder.metrics_file.read_text().count("\n") == 2
    folder.metrics_file.write_text('{"round": 1}\n{"rou\n{"round": 3}\n')
    with pytest.raises(CheckpointError, match="line 2 of"):
        folder.read_metrics()


def test_metrics_that_do_not_reach_the_checkpoint_are_an_error(folder: RunFolder) -> None:
    folder.append_metrics({"round": 1})
    with pytest.raises(CheckpointError, match="holds 1 of the 3 rounds"):
        folder.rewind_metrics(3)


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another folder with --out"):
        RunFolder(tmp_path / "file" / "run").create()


def test_leftovers_of_a_killed_run_are_removed(folder: RunFolder) -> None:
    (folder.path / ".result.json.abc").write_text("half")
    (folder.checkpoints / ".round-000001.safetensors.abc").write_text("half")
    folder.remove_leftovers()
    assert sorted(p.name for p in folder.path.rglob("*")) == ["checkpoints"]
