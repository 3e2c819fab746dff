"""What a run measures: against scikit-learn, in rounds as far as asked, and after every ending."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.experiment import run as run_module
from fedcord.experiment.api import compare, run
from fedcord.experiment.load import load_config
from fedcord.experiment.measured import (
    detail_of_result,
    detail_of_rounds,
    measured_record,
    over_clients,
)
from fedcord.experiment.run import Place
from fedcord.metrics.per_class import ClassCounts
from fedcord.metrics.registry import METRICS
from fedcord.metrics.sums import Detail, Evaluation

SMALL: dict[str, Any] = {"dataset": "digits", "subset": 200, "clients": 3, "rounds": 2}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run("fedavg", out=tmp_path_factory.mktemp("measured") / "run", metric="auroc", **SMALL)


def test_numbers_of_a_run_agree_with_its_confusion_matrix(result: dict[str, Any]) -> None:
    matrix = np.array(result["confusion_matrix"])
    truth = np.repeat(np.arange(10), matrix.sum(axis=1))
    answers = np.concatenate([np.repeat(np.arange(10), row) for row in matrix])
    found = result["metrics"]
    assert found["accuracy"] == result["accuracy"] == sk.accuracy_score(truth, answers)
    macro: dict[str, Any] = {"average": "macro", "zero_division": 0}
    assert found["macro_f1"] == pytest.approx(sk.f1_score(truth, answers, **macro))
    assert found["macro_precision"] == pytest.approx(sk.precision_score(truth, answers, **macro))
    assert found["log_loss"] == result["loss"]
    assert found.keys() == METRICS.keys()
    assert result["metric"] == "auroc"
    assert [own["examples"] for own in result["classes"]] == result["test_counts"]
    aurocs = [own["auroc"] for own in result["classes"]]
    assert np.mean(aurocs) == pytest.approx(found["auroc"])
    assert 0 <= result["metric_errors"]["auroc"] < 0.001


def test_clients_differ_as_their_accuracies_say(result: dict[str, Any]) -> None:
    own = result["client_metrics"]["accuracy"]
    values = [value for value in result["client_accuracy"] if value is not None]
    assert own["by_client"] == result["client_accuracy"]
    assert own["worst"] == min(values) == result["metrics"]["worst_client"]
    assert own["standard_deviation"] == pytest.approx(np.std(values))
    assert own["worst_tenth"] == pytest.approx(np.percentile(values, 10))
    assert own["mean"] == result["client_accuracy_mean"] == result["metrics"]["client_accuracy"]
    assert result["validation_metrics"]["accuracy"] == result["validation_accuracy"]


def test_rounds_measure_what_was_asked_and_no_matrix(
    result: dict[str, Any], tmp_path: Path
) -> None:
    lines = (Path(result["run_dir"]) / "metrics.jsonl").read_text().splitlines()
    assert all("auroc" in json.loads(line) for line in lines)
    assert not any("confusion" in line for line in lines)
    plain = run("fedavg", out=tmp_path / "run", **SMALL)
    first, last = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert "auroc" not in first
    assert "auroc" in last
    assert plain["state_hash"] == result["state_hash"]
    assert plain["config_hash"] == result["config_hash"]
    assert {**plain["metrics"]} == result["metrics"]


def test_a_run_stopped_before_its_result_measures_the_same(
    result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config({**SMALL, "algorithm": "fedavg"})

    def stop(*_: object) -> None:
        raise OSError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "end_with_clients", stop)
        with pytest.raises(OSError, match="stopped"):
            run_module.run(config, Place(tmp_path / "run", metric="auroc"))
    again = run_module.run(config, Place(tmp_path / "run", resume=True, metric="auroc"))
    same = ("metrics", "metric_errors", "classes", "confusion_matrix", "client_metrics", "traffic")
    assert {name: again[name] for name in same} == {name: result[name] for name in same}


def test_a_comparison_is_by_the_metric_it_names(tmp_path: Path) -> None:
    study: dict[str, Any] = {**SMALL, "rounds": 1, "seeds": 1}
    found = compare(["fedavg", "fedprox"], out=tmp_path, metric="calibration_error", **study)
    assert found.leaderboard.metric.name == "calibration_error"
    assert json.loads((tmp_path / "fedavg/seed-0/result.json").read_text())["metric"] == (
        "calibration_error"
    )
    with pytest.raises(ConfigError, match="unknown metric 'macrof1'; did you mean 'macro_f1'"):
        compare(["fedavg"], out=tmp_path / "other", metric="macrof1", **study)
    assert not (tmp_path / "other").exists()


def test_many_classes_are_ranked_where_asked_and_confused_up_to_a_limit() -> None:
    assert detail_of_result("accuracy", 20) == Detail(confusion=True, scores=True)
    assert detail_of_result("accuracy", 21) == Detail(confusion=True, scores=False)
    assert detail_of_result("auroc", 201) == Detail(confusion=False, scores=True)
    assert detail_of_rounds("macro_f1") == Detail()
    assert detail_of_rounds("average_precision") == Detail(scores=True)


def test_the_worst_end_of_a_scale_depends_on_the_metric() -> None:
    values = {client: client / 10 for client in range(11)}
    found = over_clients({"accuracy": values, "log_loss": values}, 12)
    assert (found["accuracy"]["worst_client"], found["log_loss"]["worst_client"]) == (0, 10)
    assert found["accuracy"]["worst_tenth"] == pytest.approx(0.1)
    assert found["log_loss"]["worst_tenth"] == pytest.approx(0.9)
    assert found["accuracy"]["by_client"][11] is None


def test_classes_that_are_none_are_refused() -> None:
    sums = Evaluation(1, 1, 0.0, by_class={7: ClassCounts(1, 1, 1)})
    with pytest.raises(ProtocolError, match="counts class 7 of 3"):
        measured_record("accuracy", sums, {}, ["a", "b", "c"])
