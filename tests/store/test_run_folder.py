import math
import threading
from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.store.run_folder import RunFolder

PARTITION, PROVENANCE = {"spec": "iid"}, {"commit": None}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create()
    made.checkpoints.mkdir()
    return made


def test_config_round_trip_and_foreign_versions(folder: RunFolder) -> None:
    config = {"algorithm": "fedavg", "params": {"local": {"lr": 0.1}}}
    folder.write_start(config, PARTITION, PROVENANCE)
    assert folder.read_config() == config
    (folder.path / "config.toml").write_text("schema = 99\n")
    with pytest.raises(CheckpointError, match="not written by this version"):
        folder.read_config()
    for text, why in {"= broken": "Invalid", "a = " + "[" * 5000: "nested too deeply"}.items():
        (folder.path / "config.toml").write_text(text)
        with pytest.raises(CheckpointError, match=rf"toml' is not TOML \(.*{why}.*run again"):
            folder.read_config()
    (folder.path / "config.toml").unlink()
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


def test_a_folder_is_waited_for_until_it_is_free(folder: RunFolder) -> None:
    told: list[str] = []
    folder.wait_until_free(0.0, told.append)
    assert not told
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with RunFolder(folder.path).lock():
            held.set()
            ended.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with pytest.raises(CheckpointError, match="another run is writing"):
        folder.wait_until_free(0.0, told.append)
    assert told == [f"waiting for whoever still writes to '{folder.path}'"]
    folder.wait_until_free(60.0, lambda text: ended.set())
    holder.join()
    with folder.lock():
        pass  # not kept by waiting


def test_a_torn_last_line_is_dropped_a_torn_middle_is_an_error(folder: RunFolder) -> None:
    for number in (1, 2, 3):
        folder.append_metrics({"round": number, "accuracy": number / 10}, to_disk=False)
    with folder.metrics_file.open("a") as file:
        file.write('{"round": 4, "accu')
    assert [r["round"] for r in folder.read_metrics()] == [1, 2, 3]
    folder.rewind_metrics(2)
    assert [r["round"] for r in folder.read_metrics()] == [1, 2]
    assert folder.metrics_file.read_text().count("\n") == 2
    folder.metrics_file.write_text('{"round": 1}\n{"rou\n{"round": 3}\n')
    with pytest.raises(CheckpointError, match="line 2 of"):
        folder.read_metrics()


def test_metrics_that_do_not_reach_the_checkpoint_are_an_error(folder: RunFolder) -> None:
    folder.append_metrics({"round": 1}, to_disk=True)
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


def test_rounds_that_say_something_else_than_at_the_checkpoint_are_an_error(
    folder: RunFolder,
) -> None:
    for number in (1, 2):
        folder.append_metrics({"round": number, "accuracy": 0.5}, to_disk=False)
    known = folder.metrics_hash()
    folder.append_metrics({"round": 3, "accuracy": 0.5}, to_disk=False)
    folder.rewind_metrics(2, known)
    folder.metrics_file.write_text(folder.metrics_file.read_text().replace("0.5", "0.6"))
    with pytest.raises(CheckpointError, match="does not say of the first 2 rounds what it said"):
        folder.rewind_metrics(2, known)


@pytest.mark.parametrize("line", [b"[1]", b'"text"', b'{"rounds": 1}', b"\xff\xfe", b"[" * 99_999])
def test_lines_that_are_no_rounds_are_an_error_with_words(folder: RunFolder, line: bytes) -> None:
    folder.metrics_file.write_bytes(line + b'\n{"round": 2}\n')
    with pytest.raises(CheckpointError, match=r"line 1 of .* is not a round"):
        folder.read_metrics()


def test_numbers_that_are_not_finite_are_null(folder: RunFolder) -> None:
    nan = float("nan")
    folder.write_json("x.json", {"a": [nan, 1.5], "b": {"c": (-math.inf,)}})
    assert folder.read_json("x.json") == {"a": [None, 1.5], "b": {"c": [None]}}
    folder.append_metrics({"round": 1, "loss": nan}, to_disk=False)
    assert folder.metrics_file.read_text() == '{"round": 1, "loss": null}\n'


def test_a_start_that_was_killed_is_cleared_and_what_others_left_is_not(folder: RunFolder) -> None:
    (folder.path / "partition.json").write_text("{")
    assert folder.strangers() == ["checkpoints", "partition.json"]  # nobody has taken the lock here
    with folder.lock():
        (folder.checkpoints / "round-000001.safetensors").write_text("half")
        (folder.path / ".config.toml.abc.tmp").write_text("half")
        assert folder.strangers() == []
        folder.write_start({"algorithm": "fedavg"}, PARTITION, PROVENANCE)
    assert folder.check()
    assert [*folder.checkpoints.iterdir()] == []
    names = {path.name for path in folder.path.iterdir()}
    start = {"partition.json", "provenance.json", "config.toml"}
    assert names == {".lock", "checkpoints", "SHA256SUMS", *start}


def test_strangers_are_named_even_beside_a_lock(folder: RunFolder) -> None:
    with folder.lock():
        (folder.path / "thesis.txt").write_text("")
        assert folder.strangers() == ["thesis.txt"]
