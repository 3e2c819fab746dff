import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import CheckpointError, PairingError
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.statistics import holm, paired_difference, share_interval

StudyWriter = Callable[..., Path]

VALUES = {
    "fedavg": [0.80, 0.82, 0.78, 0.81, 0.79],
    "fedprox": [0.82, 0.83, 0.80, 0.84, 0.80],
    "moon": [0.70, 0.75, 0.71, 0.74, 0.69],
}


def board_of(study: Path) -> Leaderboard:
    return leaderboard(load_runs(study))


def test_rows_hold_the_numbers_scipy_gives(write_study: StudyWriter) -> None:
    board = board_of(write_study(VALUES))
    assert [row.name for row in board.rows] == ["fedprox", "fedavg", "moon"]
    assert board.seeds == (0, 1, 2, 3, 4)
    best, fedavg, moon = board.rows
    assert best.difference is None
    assert best.accuracy.mean == pytest.approx(0.818)
    assert best.accuracy == share_interval(VALUES["fedprox"])
    assert (best.accuracy.low, best.accuracy.high) == pytest.approx((0.7947, 0.8391), abs=1e-4)
    assert fedavg.difference is not None
    assert fedavg.difference.mean == pytest.approx(-0.018)
    test = stats.ttest_rel(VALUES["fedavg"], VALUES["fedprox"])
    assert fedavg.difference.t_p == pytest.approx(test.pvalue)
    assert fedavg.difference.interval.high == pytest.approx(test.confidence_interval(0.95).high)
    # Holm over all three pairs, in any order
    p_values = [
        float(stats.ttest_rel(VALUES[a], VALUES[b]).pvalue)
        for a, b in (("fedavg", "fedprox"), ("moon", "fedprox"), ("moon", "fedavg"))
    ]
    adjusted = holm(p_values)
    assert (fedavg.p_holm, moon.p_holm) == pytest.approx(adjusted[:2])
    assert board.num_comparisons == 3


def test_costs_and_clients_are_means_per_run(write_study: StudyWriter) -> None:
    row = board_of(write_study({"fedavg": [0.5, 0.7]}, rounds=4)).best
    assert (row.bytes_up, row.bytes_down, row.num_bytes) == (4000, 8000, 12000)
    assert row.seconds == 2.0
    assert row.client_accuracy == pytest.approx(0.58)
    assert row.worst_client == pytest.approx(0.48)


def test_the_final_checkpoint_counts_not_the_best_round(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    runs = load_runs(study)
    assert max(entry.accuracy or 0 for entry in runs[0].metrics) > 0.5  # the trap is set
    assert board_of(study).best.values == (0.5, 0.6)


def test_an_unfinished_run_is_left_out_and_said(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5, 0.6, 0.1], "moon": [0.4, 0.5]})
    add_run(study, "moon", 2, 0.9, is_finished=False, rounds=3)
    board = board_of(study)
    assert board.seeds == (0, 1)
    assert [row.values for row in board.rows] == [(0.5, 0.6), (0.4, 0.5)]
    assert board.notes == (
        "moon, seed 2, is unfinished (3 rounds recorded) and left out; continue it with --resume.",
        "Seed 2 is left out everywhere: moon did not finish it.",
    )


def test_different_partitions_are_not_compared(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    add_run(study, "moon", 0, 0.5)
    add_run(study, "moon", 1, 0.5, partition_hash="elsewhere")
    with pytest.raises(PairingError, match=r"for seed 1, .* elsewhere"):
        board_of(study)


def test_no_common_seed_is_refused(write_study: StudyWriter, add_run: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    add_run(study, "moon", 7, 0.5)
    with pytest.raises(PairingError, match=r"fedavg has 0, 1; moon has 7; run all of them"):
        board_of(study)


def test_seeds_of_one_row_must_repeat_one_setting(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5]})
    add_run(study, "fedavg", 1, 0.5, rounds=9)
    with pytest.raises(PairingError, match="differ in 'rounds': seed 0 has 4, seed 1 has 9"):
        board_of(study)


def test_two_runs_of_one_seed_are_refused(write_study: StudyWriter, add_run: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5]})
    add_run(study / "copy", "fedavg", 0, 0.5)
    with pytest.raises(PairingError, match="fedavg has two runs for seed 0"):
        board_of(study)


def test_nothing_finished_is_refused(write_study: StudyWriter) -> None:
    with pytest.raises(CheckpointError, match="none of 2 runs is finished"):
        board_of(write_study({"fedavg": [0.5, 0.6]}, is_finished=False))


def test_one_seed_has_no_interval_and_no_p(write_study: StudyWriter) -> None:
    board = board_of(write_study({"fedavg": [0.5], "moon": [0.4]}))
    assert board.best.accuracy.reason == "n = 1, no interval"
    assert board.rows[1].p_holm is None
    assert board.num_comparisons == 0


def test_ties_are_ordered_by_name(write_study: StudyWriter) -> None:
    board = board_of(write_study({"moon": [0.5, 0.6], "fedavg": [0.6, 0.5]}))
    assert [row.name for row in board.rows] == ["fedavg", "moon"]


def test_json_is_plain_and_unrounded(write_study: StudyWriter) -> None:
    values = json.loads(json.dumps(board_of(write_study(VALUES)).to_json(), allow_nan=False))
    assert values["best"] == "fedprox"
    assert values["rows"][1]["difference"]["mean"] == pytest.approx(-0.018)
    assert values["rows"][0]["difference"] is None
    assert "never a maximum over rounds" in values["method"]


def test_comparing_with_the_best_keeps_its_error_rate_only_over_all_pairs() -> None:
    """Why Holm counts all pairs: the best is chosen by looking, which k - 1 tests ignore."""
    samples = np.random.default_rng(2).normal(0, 1, (600, 6, 5))  # studies, algorithms, seeds
    false_alarms = {"all pairs": 0, "to the best only": 0}
    for study in samples:
        order = np.argsort(-study.mean(axis=1))
        p_values = {
            (a, b): paired_difference(study[order[a]], study[order[b]]).t_p
            for a in range(6)
            for b in range(a + 1, 6)
        }
        adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        chosen = [p for (a, _), p in adjusted.items() if a == 0]
        naive = holm([p for (a, _), p in p_values.items() if a == 0])
        false_alarms["all pairs"] += any(p is not None and p < 0.05 for p in chosen)
        false_alarms["to the best only"] += any(p is not None and p < 0.05 for p in naive)
    tolerance = 3 * (0.05 * 0.95 / len(samples)) ** 0.5
    assert false_alarms["all pairs"] / len(samples) < 0.05 + tolerance
    assert false_alarms["to the best only"] / len(samples) > 0.05 + tolerance
