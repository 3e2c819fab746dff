"""What a run leaves in its folder, and how it is gone on with."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import CheckpointError, ConfigError, FailedRunError, NumericalError
from fedcord.experiment import folders
from fedcord.experiment import run as run_module
from fedcord.experiment.run import Place, Progress, run
from fedcord.store import provenance
from fedcord.store.checkpoint import load_final, load_newest
from tests.faults.small_runs import AVERAGING, PERSONAL, config, content, quick

__all__ = ["quick"]  # a fixture

pytestmark = pytest.mark.usefixtures("quick")


def test_personal_models_are_on_disk_and_have_the_hash_of_the_result(tmp_path: Path) -> None:
    settings = config(**PERSONAL)
    result = run(settings, Place(tmp_path / "run"))
    final = load_final(tmp_path / "run", settings.hash)
    newest = load_newest(tmp_path / "run" / "checkpoints", settings.hash)
    assert final is not None
    assert newest is not None
    assert final.hash == result["state_hash"] != newest.hash
    assert sorted(final.memories) == [0, 1, 2]
    assert all(final.memories[client] for client in final.memories)


def test_a_method_without_personal_models_leaves_no_file_for_them(tmp_path: Path) -> None:
    result = run(config(**AVERAGING), Place(tmp_path / "run"))
    final = load_final(tmp_path / "run", config(**AVERAGING).hash)
    assert final is not None
    assert final.hash == result["state_hash"]
    assert not (tmp_path / "run" / "personal.safetensors").exists()


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(folders, "datetime", _Noon)
    with ThreadPoolExecutor(4) as pool:
        names = pool.map(lambda _: folders.make_new_folder(tmp_path / "runs", config()), range(8))
        assert len(set(names)) == 8
    result = run(config(**PERSONAL), Place(None))
    assert Path(result["run_dir"]).name == "noon-apfl-own-seed0"


class _Noon:
    @staticmethod
    def now() -> _Noon:
        return _Noon()

    def strftime(self, _: str) -> str:
        return "noon"


def test_a_failure_is_on_record_and_tried_again_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(config(**AVERAGING), Place(tmp_path / "whole"))
    place = Place(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "end_with_clients", _fail)
        with pytest.raises(NumericalError, match="diverged"):
            run(config(**AVERAGING), place)
    record = json.loads((tmp_path / "run" / "failure.json").read_text())
    reason = {"error": "NumericalError", "message": "diverged"}
    assert record == {"algorithm": "fedavg", "seed": 0, **reason}
    assert not (tmp_path / "run" / "result.json").exists()
    with pytest.raises(ConfigError, match=r"\(failed\); add --retry-failed"):
        run(config(**AVERAGING), place)
    with pytest.raises(FailedRunError, match=r"failed before \(NumericalError: diverged\)"):
        run(config(**AVERAGING), Place(tmp_path / "run", resume=True))
    shutil.copytree(tmp_path / "run", tmp_path / "changed")
    failure = tmp_path / "changed" / "failure.json"
    failure.write_text(failure.read_text().replace("diverged", "was bored"))
    for retry in (False, True):
        with pytest.raises(CheckpointError, match=r"failure\.json' is not as fedcord wrote it"):
            run(config(**AVERAGING), Place(failure.parent, resume=True, retry_failed=retry))
    again = run(config(**AVERAGING), Place(tmp_path / "run", resume=True, retry_failed=True))
    assert again["state_hash"] == whole["state_hash"]
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def _fail(*_: object) -> None:
    raise NumericalError("diverged")


def test_a_bug_leaves_its_trace_and_a_full_disk_is_no_failure_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(error: Exception) -> Any:
        def fail(*_: object) -> None:
            raise error

        return fail

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "end_with_clients", stumble(KeyError("oops")))
        with pytest.raises(KeyError, match="oops"):
            run(config(**AVERAGING), Place(tmp_path / "bug"))
        patch.setattr(run_module, "end_with_clients", stumble(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match="full"):
            run(config(**AVERAGING), Place(tmp_path / "full"))
    record = json.loads((tmp_path / "bug" / "failure.json").read_text())
    assert "in stumble" not in record["message"]
    assert any("oops" in line for line in record["traceback"])
    assert not (tmp_path / "full" / "failure.json").exists()
    run(config(**AVERAGING), Place(tmp_path / "full", resume=True))


def test_a_folder_with_files_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "partition.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds other files \(partition.json\)"):
        run(config(**AVERAGING), Place(tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["partition.json"]
    assert (tmp_path / "partition.json").read_text() == "mine"
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "checkpoints" / "mine").write_text("")
    with pytest.raises(ConfigError, match=r"holds other files \(checkpoints\)"):
        run(config(**AVERAGING), Place(tmp_path / "other"))
    with pytest.raises(ConfigError, match=r"a file is in the way of .* with --out"):
        run(config(**AVERAGING), Place(tmp_path / "partition.json"))


def test_checkpoints_that_cannot_be_read_do_not_mean_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(config(**AVERAGING), Place(tmp_path / "run"))
    (tmp_path / "run" / "result.json").unlink()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    look = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "checkpoints":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        run(config(**AVERAGING), Place(tmp_path / "run", resume=True))
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_other_versions_are_named_when_a_run_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    for path in (whole, folder):
        run(config(**AVERAGING), Place(path))
        (path / "result.json").unlink()
        sorted((path / "checkpoints").iterdir())[-1].unlink()  # back to the round before
    heard: list[str] = []
    watch = Progress(note=heard.append)
    run(config(**AVERAGING), Place(whole, resume=True), watch)
    assert heard == []
    now = provenance._here()
    other = {**now, "python": "3.99.0", "packages": {**now["packages"], "torch": "9.9"}}
    monkeypatch.setattr(provenance, "_here", lambda: other)
    run(config(**AVERAGING), Place(folder, resume=True), watch)
    (text,) = heard
    assert f"python {now['python']} → 3.99.0, torch {now['packages']['torch']} → 9.9" in text
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("notes") for line in lines] == [None, None, [text]]


def test_a_run_of_the_version_before_is_taken_with_a_word(tmp_path: Path) -> None:
    result = run(config(**AVERAGING), Place(tmp_path / "run"))
    (tmp_path / "run" / "SHA256SUMS").unlink()
    heard: list[str] = []
    again = run(
        config(**AVERAGING), Place(tmp_path / "run", resume=True), Progress(note=heard.append)
    )
    assert again == result
    assert len(heard) == 1
    assert "of a version that wrote no checksums" in heard[0]


def test_a_result_that_was_edited_is_refused(tmp_path: Path) -> None:
    run(config(**AVERAGING), Place(tmp_path / "run"))
    path = tmp_path / "run" / "result.json"
    path.write_text(path.read_text().replace('"loss": ', '"loss": 1'))
    with pytest.raises(CheckpointError, match=r"result.json' is not as fedcord wrote it"):
        run(config(**AVERAGING), Place(tmp_path / "run", resume=True))


def test_losses_that_are_not_finite_are_null_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedcord.metrics.sums import Evaluation

    monkeypatch.setattr(Evaluation, "loss", property(lambda self: math.inf))
    result = run(config(**AVERAGING), Place(tmp_path / "run"))
    assert result["loss"] is None
    for name in ("result.json", "metrics.jsonl"):
        text = (tmp_path / "run" / name).read_text()
        assert '"loss": null' in text
        assert "Infinity" not in text
        assert "NaN" not in text


def test_metrics_reach_the_disk_before_the_checkpoint_that_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    run(config(**AVERAGING), Place(tmp_path / "run"))
    order = [Path(path).name for path in synced]
    checkpoints = [i for i, name in enumerate(order) if name.startswith(".round-")]
    assert len(checkpoints) == 3
    assert all(order[i - 1] == "metrics.jsonl" for i in checkpoints)


def test_what_clients_were_taken_out_of_is_not_trained_on(tmp_path: Path) -> None:
    from fedcord.experiment.forget import forget_client

    run(config(**PERSONAL), Place(tmp_path / "run"))
    made = Path(forget_client(tmp_path / "run", 1).run_dir)
    (made / "result.json").unlink()
    with pytest.raises(CheckpointError, match="holds a model that clients were taken out of"):
        run(config(**PERSONAL), Place(made, resume=True))
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(ConfigError, match="no run with these settings"):
        folders.find_run_to_resume(tmp_path, config(**PERSONAL))


def test_folders_of_own_classes_have_names_that_every_file_system_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "datetime", _Noon)
    own = dataclasses.replace(config(), algorithm="my_methods:Own" + "n" * 300)
    name = folders.make_new_folder(tmp_path / "runs", own).name
    assert name.startswith("noon-my_methods.Ownn")
    assert name.endswith("n-own-seed0")
    assert len(name) < 130
