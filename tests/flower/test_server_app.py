"""A whole run over Flower's grid, without its processes: sites with tables of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, RecordDict

from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.start_from import going_on
from fedcord.flower import rehearsal as rehearsal_module
from fedcord.flower.app_folder import AppConfig
from fedcord.flower.messages import TERMS, from_records, to_records
from fedcord.flower.server_app import _run
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.site.answering import answer_at_site
from fedcord.site.in_process import sites_here
from tests.cli.command import fedcord
from tests.flower.grid import Answer, FakeGrid
from tests.site.in_process import own_csvs, patients

CONFIG = load_config(
    {"algorithm": "fedavg", "dataset": "sites:patients", "clients": 3, "rounds": 2}
)


def _node(path: Path) -> Answer:
    def answer(message: Message) -> RecordDict:
        call, words = from_records(message.content)
        return to_records(answer_at_site(path, words[TERMS], call))

    return answer


def test_tables_and_the_chosen_metric_pass_through_flower(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    for path in files:
        path.write_text(path.read_text() + "share_class_counts = true\n")
    told = AppConfig.of(CONFIG, out=str(tmp_path / "run"), metric="balanced_accuracy")
    grid = FakeGrid({70 + k: _node(path) for k, path in enumerate(files)})
    result = _run(grid, AppConfig.from_run_config(told.plain()))
    assert result["metric"] == "balanced_accuracy"
    assert leaderboard(load_runs(tmp_path / "run")).metric.name == "balanced_accuracy"
    here = run(CONFIG, Place(tmp_path / "here"), sites=sites_here(files))
    assert result["state_hash"] == here["state_hash"]


def test_sites_begin_with_the_state_of_a_run_that_the_app_names(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    run(CONFIG, Place(tmp_path / "before"), sites=sites_here(files))
    source = read_finished(tmp_path / "before")
    config = going_on(CONFIG, source, None, over_sites=True)
    told = AppConfig.of(config, out=str(tmp_path / "run"), start=str(tmp_path / "before"))
    grid = FakeGrid({70 + k: _node(path) for k, path in enumerate(files)})
    result = _run(grid, AppConfig.from_run_config(told.plain()))
    here = run(config, Place(tmp_path / "here"), sites=sites_here(files), start=source)
    assert result["state_hash"] == here["state_hash"] != source.result["state_hash"]
    assert any("begins with the state of a run of fedavg" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("words", "metric"),
    [
        (["afl", "--metric", "macro_f1"], "macro_f1"),
        (["study.toml"], "balanced_accuracy"),
        (["study.toml", "--metric", "macro_f1"], "macro_f1"),
    ],
)
def test_a_metric_reaches_the_runs_of_a_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], metric: str
) -> None:
    """From flag or study to the place of every run; the nodes are left out, the runs are real."""

    class Here:
        def run(self, config: Any, place: Place, watch: Any, *_: Any, **__: Any) -> Any:
            return run(config, place, watch)

    @contextmanager
    def here(*_: Any) -> Iterator[Here]:
        yield Here()

    monkeypatch.setattr(rehearsal_module, "rehearsal", here)
    text = 'algorithms = ["afl", "fedhip"]\nseeds = 2\nmetric = "balanced_accuracy"\n'
    (tmp_path / "study.toml").write_text(text)
    more = ["--nodes", "2", "--subset", "200", "--out", "out"]
    done = fedcord("flower", "run", *words, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = [json.loads(path.read_text()) for path in tmp_path.rglob("result.json")]
    assert {result["metric"] for result in results} == {metric}
    assert leaderboard(load_runs(tmp_path / "out")).metric.name == metric
    assert metric.split("_")[0] in done.stdout.lower()
