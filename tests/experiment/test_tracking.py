"""Numbers are mirrored to the real libraries, where these are installed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment import job, tracking
from fedcord.experiment.run import Place, Progress, run
from fedcord.experiment.tracking import Mirror, Subject, numbers_of, subject_of, tracker_problems
from fedcord.store.run_folder import RunFolder
from tests.cli.command import fedcord
from tests.faults.small_runs import AVERAGING, config, quick

__all__ = ["quick"]  # a fixture

pytestmark = pytest.mark.usefixtures("quick")


def lines(folder: Path) -> list[dict[str, Any]]:
    return RunFolder(folder).read_metrics()


# --- what is mirrored ----------------------------------------------------------------------------


def test_only_finite_numbers_about_all_clients_leave() -> None:
    line = {
        **{"round": 3, "clients": [0, 1], "bytes_up": 10, "accuracy": 0.5, "loss": float("inf")},
        **{"probe": True, "notes": ["n"], "per_client": {"Bonn": 0.1}, "train_loss": None},
        **{"client_metrics": {"0": {"loss": 1.0}}, "server_metrics": {"weight": 0.25}},
    }
    assert numbers_of(line) == {"bytes_up": 10.0, "accuracy": 0.5, "server/weight": 0.25}


def test_a_run_keeps_its_identity_and_another_in_its_folder_does_not(tmp_path: Path) -> None:
    settings = config(**AVERAGING)
    first = subject_of(tmp_path / "study/fedavg/seed-0", settings, "noon")
    assert first.name == "study/fedavg/seed-0"
    assert first.settings["params.local.lr"] == settings.params["local"]["lr"]
    assert first == subject_of(tmp_path / "study/fedavg/seed-0", settings, "noon")
    assert first.identity != subject_of(tmp_path / "study/fedavg/seed-0", settings, "one").identity
    other = dataclasses.replace(settings, seed=1)
    assert first.identity != subject_of(tmp_path / "study/fedavg/seed-0", other, "noon").identity


class _Breaks:
    """A tracker whose disk is full in the second round."""

    closed: bool | None = None
    steps: tuple[int, ...] = ()

    def log(self, step: int, values: object) -> None:
        if step == 2:
            raise OSError("no space left")
        self.steps += (step,)

    def close(self, is_finished: bool) -> None:
        self.closed = is_finished


def test_a_tracker_that_breaks_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = _Breaks()
    monkeypatch.setitem(tracking.TRACKERS, "broken", tracking._Kind("json", lambda subject: broken))
    notes: list[str] = []
    settings = config(**AVERAGING | {"rounds": 3})
    tracked = run(settings, Place(tmp_path / "a", track=["broken"]), Progress(note=notes.append))
    plain = run(settings, Place(tmp_path / "b"))
    assert tracked["state_hash"] == plain["state_hash"]
    assert notes == ["--track broken: no space left; the run goes on without it"]
    assert broken.steps == (1,)


def test_a_tracker_hears_whether_the_run_ended(tmp_path: Path) -> None:
    kept = _Breaks()
    subject = Subject(tmp_path, "run", "id", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tracking.TRACKERS, "kept", tracking._Kind("json", lambda subject: kept))
        with Mirror(subject, ["kept"], print) as mirror:
            mirror.round({"round": 1, "accuracy": 0.5})
        assert kept.closed is False
        with Mirror(subject, ["kept"], print) as mirror:
            mirror.result({"validation_accuracy": 0.5})
        assert kept.closed is True


# --- the flag ------------------------------------------------------------------------------------


def test_a_tracker_that_is_unknown_or_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        tracking.TRACKERS, "mlflow", tracking._Kind("no_such_package", tracking.MLflow)
    )
    unknown, absent = tracker_problems(["tensorbord", "mlflow"])
    assert "did you mean 'tensorboard'?" in unknown
    assert "pip install 'fedcord[mlflow]'" in absent
    with pytest.raises(ConfigError, match="unknown tracker 'x'"):
        Place(None, track=["x"])


def test_a_misspelt_tracker_is_told_before_anything_is_written(tmp_path: Path) -> None:
    done = fedcord("run", "fedavg", "--track", "tensorbord", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'tensorboard'?" in done.stderr
    assert not (tmp_path / "run").exists()


def test_runs_in_other_processes_are_tracked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        tracking.TRACKERS, "kept", tracking._Kind("json", lambda subject: _Breaks())
    )
    place = Place(Path("run"), track=["kept"])
    assert b'"track": ["kept"]' in job.message(config(**AVERAGING), place, None)


# --- the real libraries --------------------------------------------------------------------------


def events(folder: Path) -> list[tuple[str, int, float]]:
    """What event files hold, by the format's own records: length, check, content, check."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for file in sorted(folder.iterdir()):
        rest = file.read_bytes()
        while rest:
            size = int.from_bytes(rest[:8], "little")
            event = proto.Event.FromString(rest[12 : 12 + size])
            rest = rest[16 + size :]
            found += [
                (value.tag, event.step, value.simple_value)
                for value in event.summary.value
                if value.HasField("simple_value")
            ]
    return found


def test_tensorboard_gets_every_round_once_also_of_a_run_that_was_interrupted(
    tmp_path: Path,
) -> None:
    pytest.importorskip("tensorboardX")
    settings = config(**AVERAGING | {"rounds": 3})
    place = Place(tmp_path / "run", track=["tensorboard"], resume=True)

    def stop(record: object) -> None:
        if len(lines(tmp_path / "run")) == 2:
            raise KeyboardInterrupt("stopped")

    with pytest.raises(KeyboardInterrupt, match="stopped"):
        run(settings, place, Progress(round=stop))
    result = run(settings, place)
    curve = [(s, v) for tag, s, v in events(tmp_path / "run/tensorboard") if tag == "accuracy"]
    assert [step for step, _ in curve] == [1, 2, 3]
    assert [value for _, value in curve] == pytest.approx(
        [line["accuracy"] for line in lines(tmp_path / "run")]
    )
    ends = {tag: (s, v) for tag, s, v in events(tmp_path / "run/tensorboard")}
    step, value = ends["client_accuracy_mean"]
    assert step == 4
    assert value == pytest.approx(result["client_accuracy_mean"])


@pytest.mark.filterwarnings("default")  # theirs
def test_mlflow_gets_every_round_once_and_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    settings = config(**AVERAGING | {"rounds": 2})
    run(settings, Place(tmp_path / "run", track=["mlflow"]))
    again = tracking.mirror_of(RunFolder(tmp_path / "run"), settings, ["mlflow"], pytest.fail)
    with again:
        for line in lines(tmp_path / "run"):
            again.round(line)
        again.result({})
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("fedcord")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params["rounds"] == "2"
    history = client.get_metric_history(found.info.run_id, "accuracy")
    wanted = {line["round"]: line["accuracy"] for line in lines(tmp_path / "run")}
    assert [point.step for point in history] == list(wanted)
    assert [point.value for point in history] == pytest.approx(list(wanted.values()))


@pytest.mark.filterwarnings("default")  # theirs
def test_weights_and_biases_writes_offline_below_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    notes: list[str] = []
    place = Place(tmp_path / "run", track=["wandb"])
    run(config(**AVERAGING | {"rounds": 2}), place, Progress(note=notes.append))
    assert notes == []
    wandb.teardown()  # its own process writes the file, and is done when it has ended
    (file,) = (tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert b"accuracy" in content
    assert b"params.local.lr" in content
