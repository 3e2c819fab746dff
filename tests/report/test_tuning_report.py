"""What reports say of tuning, and of its absence."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedcord.core.errors import CheckpointError
from fedcord.metrics.registry import METRICS
from fedcord.report.build import build_report
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.tables import to_markdown
from fedcord.report.terminal import print_leaderboard
from fedcord.report.tuning import entries, tuning_sentence
from fedcord.report.verdict import verdict
from fedcord.store.tuning_file import Trial, Tuned, Tuning, write_tuning

StudyWriter = Callable[..., Path]
VALUES = {"fedavg": [0.80, 0.82, 0.78], "fedprox": [0.82, 0.83, 0.80]}
TRIALS = (
    Trial(0, {"learning_rate": 0.05}, (0.70, 0.72)),
    Trial(1, {"learning_rate": 0.1}, (0.75, 0.77)),
    Trial(2, {"learning_rate": 0.4}, (0.30,)),
    Trial(3, {"learning_rate": 0.9}, failure="NumericalError: the loss became <nan>"),
)
OWN = Tuned({"learning_rate": "0.01:1:log"}, TRIALS, 1)
SEEDS = (1_000_000, 1_000_001)


def tuned(**contenders: Tuned) -> Tuning:
    return Tuning("plan", "accuracy", "spread", 4, SEEDS, contenders)


def board(study: Path) -> Leaderboard:
    return leaderboard(load_runs(study))


def test_a_tuned_comparison_says_so_in_its_verdict(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    assert verdict(board(study)).endswith(" Parameters were not tuned.")
    write_tuning(study, tuned(fedavg=OWN, fedprox=OWN))
    assert verdict(board(study)).endswith(" Each was tuned by 4 trials on validation data.")


def test_who_has_nothing_to_tune_is_on_equal_terms(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    write_tuning(study, tuned(fedavg=OWN, fedprox=Tuned({}, ())))
    assert verdict(board(study)).endswith(
        " fedavg was tuned by 4 trials on validation data; fedprox has nothing to tune."
    )


def test_of_many_tuned_methods_the_others_are_named(write_study: StudyWriter) -> None:
    names = ("a", "b", "c", "d", "e", "afl")
    study = write_study(dict.fromkeys(names, VALUES["fedavg"]))
    write_tuning(study, tuned(**dict.fromkeys(names[:-1], OWN), afl=Tuned({}, ())))
    assert verdict(board(study)).endswith(
        " All but afl, which has nothing to tune, were tuned by 4 trials on validation data."
    )


def test_who_was_not_tuned_beside_others_is_named(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    write_tuning(study, tuned(fedprox=OWN))
    unequal = " fedavg was not tuned and fedprox was: not on equal terms."
    assert verdict(board(study)).endswith(unequal)
    # a run without what was chosen is not what was tuned
    other = replace(OWN, trials=(TRIALS[0], replace(TRIALS[1], values={"learning_rate": 0.2})))
    write_tuning(study, tuned(fedavg=other, fedprox=OWN))
    assert verdict(board(study)).endswith(unequal)


def test_one_method_alone_is_not_said_to_be_untuned(write_study: StudyWriter) -> None:
    assert "tuned" not in verdict(board(write_study({"fedavg": [0.5, 0.6]})))


def test_trials_are_no_runs_of_the_comparison(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study(VALUES)
    add_run(study / "tuning" / "fedavg", "trial-00", SEEDS[0], 0.99)
    assert {run.name for run in load_runs(study)} == {"fedavg", "fedprox"}
    assert {run.name for run in load_runs(study.parent)} == {"fedavg", "fedprox"}
    assert [run.name for run in load_runs(study / "tuning" / "fedavg")] == ["trial-00"]


def test_every_output_shows_what_was_tried_chosen_and_gained(
    write_study: StudyWriter, no_matplotlib: None
) -> None:
    study = write_study(VALUES)
    write_tuning(study, tuned(fedavg=OWN, fedprox=Tuned({}, ())))
    page = build_report(study).html.read_text()
    console = Console(record=True, width=120)
    print_leaderboard(board(study), console)
    said = console.export_text()
    for text in (page, to_markdown(board(study))):
        for words in ("71.00", "76.00", "+5.00", "learning_rate=0.4", "dropped", "nothing to tune"):
            assert words in text
        assert "learning_rate=0.01:1:log" in text
        assert "No test figure was read" in text
    assert "the loss became &lt;nan&gt;" in page
    assert "fedavg: learning_rate=0.1; validation accuracy 71.00 → 76.00 % (4 trials, 1 of" in said
    assert board(study).to_json()["tuning"]["fedavg"] == {
        "trials": 4,
        "runs": 6,
        "metric": "accuracy",
        "chosen": {"learning_rate": 0.1},
        "validation_as_given": pytest.approx(0.71),
        "validation_tuned": pytest.approx(0.76),
    }


def test_where_another_metric_is_compared_than_was_tuned_by_the_page_says_so() -> None:
    known = entries(tuned(fedavg=OWN))
    said = {name: tuning_sentence(known, METRICS[name]) for name in METRICS}
    assert "tuning was by" not in said["accuracy"]
    assert "is about macro F1, tuning was by accuracy. Searched" in said["macro_f1"]
    assert "tuning was by accuracy: of clients' test parts there is no" in said["worst_client"]


def test_an_untuned_report_has_no_section_on_tuning(
    write_study: StudyWriter, no_matplotlib: None
) -> None:
    page = build_report(write_study(VALUES)).html.read_text()
    assert "<h2>Tuning</h2>" not in page
    assert "Parameters were not tuned." in page


@pytest.mark.parametrize(
    "changes",
    [
        {"contenders": {"fedavg": {"space": {}, "trials": [], "chosen": "x"}}},
        {"contenders": {"fedavg": {"space": {}, "trials": [{}], "chosen": 0}}},
        {"seeds": [-1]},
        {"trials": 1.5},
    ],
)
def test_a_tuning_of_another_shape_stops_the_report(
    write_study: StudyWriter, changes: Mapping[str, Any]
) -> None:
    study = write_study(VALUES)
    write_tuning(study, tuned(fedavg=OWN))
    path = study / "tuning.json"
    values = json.loads(path.read_text()) | changes
    (study / "SHA256SUMS").unlink()
    path.write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"tuning\.json' is not a tuning"):
        load_runs(study)
