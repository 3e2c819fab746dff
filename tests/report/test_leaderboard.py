import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import CheckpointError, PairingError
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.tables import to_csv, to_latex, to_markdown
from fedcord.report.verdict import verdict
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
    assert best.score.mean == pytest.approx(0.818)
    assert best.score == share_interval(VALUES["fedprox"])
    assert (best.score.low, best.score.high) == pytest.approx((0.7947, 0.8391), abs=1e-4)
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
    assert row.mean_of("client_accuracy") == pytest.approx(0.58)
    assert row.mean_of("worst_client") == pytest.approx(0.48)
    assert row.over_clients is not None
    assert (row.over_clients.mean, row.over_clients.worst) == pytest.approx((0.58, 0.48))


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


def test_equal_splits_of_different_data_are_not_compared(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5]})
    folder = add_run(study, "moon", 0, 0.6)
    _change(folder / "provenance.json", data_hash="of-other-examples")
    with pytest.raises(
        PairingError, match=r"for seed 0, fedavg used data data-of-seed and moon data of-other-exa"
    ):
        board_of(study)


def test_data_that_was_not_hashed_is_known_by_name_and_said(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5]})
    folder = add_run(study, "moon", 0, 0.6)
    _change(folder / "provenance.json", data_hash=None)
    (note,) = board_of(study).notes
    assert note.startswith("moon: no hash of the data was recorded; that it is the data of the oth")
    other = add_run(study, "other", 0, 0.6, config={"dataset": "wine"})
    _change(other / "provenance.json", data_hash=None)
    with pytest.raises(PairingError, match="other has dataset wine and moon digits"):
        board_of(study)


def test_the_same_data_in_another_folder_is_the_same(add_run: StudyWriter, tmp_path: Path) -> None:
    add_run(tmp_path, "fedavg", 0, 0.5, config={"dataset": "npz:/here/x.npz?label=y"})
    add_run(tmp_path, "moon", 0, 0.5, config={"dataset": "npz:/there/x.npz?label=y"})
    assert len(board_of(tmp_path).rows) == 2


@pytest.mark.parametrize(
    ("key", "value"), [("test", 0.5), ("validation", 0.0), ("longtail", 9.0), ("subset", 50)]
)
def test_shared_settings_are_part_of_a_pair(
    write_study: StudyWriter, add_run: StudyWriter, key: str, value: float
) -> None:
    common = {"test": 0.1, "validation": 0.1, "longtail": 1.0}
    study = write_study({"fedavg": [0.5]}, config=common)
    add_run(study, "moon", 0, 0.5, config={**common, key: value})
    with pytest.raises(PairingError, match=f"for seed 0, .* {key} "):
        board_of(study)


def test_model_and_rounds_may_be_a_contenders_own(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5]})
    add_run(study, "moon", 0, 0.5, rounds=9, config={"model": ["cnn"]})
    assert len(board_of(study).rows) == 2


def test_runs_of_different_code_are_said(write_study: StudyWriter, add_run: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5]})
    folder = add_run(study, "moon", 0, 0.6)
    _change(folder / "provenance.json", commit="decaf", packages={"fedcord": "0.2"})
    assert board_of(study).notes == (
        "These runs were made with different versions of fedcord: 0.1 and 0.2.",
        "These runs were made with different commits of fedcord: c0ffee and decaf.",
    )


# --- runs that failed ----------------------------------------------------------------------------


def _fail(study: Path, add_run: StudyWriter, name: str, seed: int, message: str) -> None:
    folder = add_run(study, name, seed, 0.5, is_finished=False)
    failure = {"algorithm": name, "seed": seed, "error": "NumericalError", "message": message}
    (folder / "failure.json").write_text(json.dumps(failure))


def _change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_failed_seed_is_counted_and_comparisons_are_over_the_seeds_both_have(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.50, 0.52, 0.51], "fedprox": [0.55, 0.53, 0.54]})
    for seed, accuracy in ((0, 0.90), (2, 0.95)):
        add_run(study, "moon", seed, accuracy)
    _fail(study, add_run, "moon", 1, "loss is NaN in round 3")
    board = board_of(study)
    assert board.seeds == (0, 1, 2)
    # a mean without the hard seed does not rank above means with it
    assert [row.name for row in board.rows] == ["fedprox", "fedavg", "moon"]
    assert [row.score.n for row in board.rows] == [3, 3, 2]
    moon = board.rows[2]
    assert (moon.num_seeds, moon.label) == ("2 of 3", "moon (failed on 1 of 3 seeds)")
    assert moon.difference is not None
    assert moon.difference.n == 2
    assert moon.difference.mean == pytest.approx(0.38)
    assert board.notes == ("moon: 2 of 3 seeds; seed 1 failed: loss is NaN in round 3.",)
    assert "comparisons are over the seeds both have" in board.method
    assert board.to_json()["rows"][2]["failures"][0]["message"] == "loss is NaN in round 3"


def test_who_failed_on_every_seed_is_listed_and_stops_nobody(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.50, 0.52], "fedprox": [0.55, 0.53]})
    for seed in (0, 1):
        _fail(study, add_run, "moon", seed, "loss is NaN.")
    board = board_of(study)
    assert [row.name for row in board.rows] == ["fedprox", "fedavg"]
    assert [(own.name, len(own.failures)) for own in board.failed] == [("moon", 2)]
    assert board.marks == ("moon failed on every seed",)
    assert board.notes == ("moon: 0 of 2 seeds; seeds 0 and 1 failed: loss is NaN.",)


def test_contenders_without_a_common_seed_are_not_compared(
    tmp_path: Path, add_run: StudyWriter
) -> None:
    for name, seed in (("fedavg", 0), ("moon", 1)):
        add_run(tmp_path, name, seed, 0.5)
        _fail(tmp_path, add_run, name, 1 - seed, "no")
    board = board_of(tmp_path)
    assert board.rows[1].difference is None
    assert verdict(board).startswith("fedavg (failed on 1 of 2 seeds) and moon (failed on 1 of 2")
    for text in (to_markdown(board), to_csv(board), to_latex(board)):
        assert "moon" in text


def test_nothing_but_failures_is_said(tmp_path: Path, add_run: StudyWriter) -> None:
    _fail(tmp_path, add_run, "moon", 0, "loss is NaN")
    with pytest.raises(
        CheckpointError, match=r"every run failed.* moon: 0 of 1 seed; seed 0 failed: loss"
    ):
        board_of(tmp_path)


# --- runs that have forgotten clients ------------------------------------------------------------


def test_a_run_without_a_client_is_not_paired_with_runs_that_hold_it(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"afl": [0.5, 0.6], "moon": [0.4, 0.5]})
    folder = add_run(study / "beside", "afl", 0, 0.45, result={"forgotten": [3]})
    folder.rename(study / "afl" / "seed-0-without-3")
    board = board_of(study)
    assert [(row.name, row.values) for row in board.rows] == [
        ("afl", (0.5, 0.6)),
        ("moon", (0.4, 0.5)),
    ]
    assert board.notes == (
        "afl without client 3, seed 0 (45.00 %), is left out: it was made by 'forget', and the "
        "other runs hold other clients.",
    )


def test_runs_that_forgot_the_same_clients_are_compared(
    write_study: StudyWriter,
) -> None:
    board = board_of(
        write_study({"afl": [0.5, 0.6], "moon": [0.4, 0.5]}, result={"forgotten": [3]})
    )
    assert [row.name for row in board.rows] == ["afl without client 3", "moon without client 3"]


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
    assert board.best.score.reason == "n = 1, no interval"
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


def test_a_ceiling_is_not_ranked_and_not_what_others_are_compared_with(
    write_study: StudyWriter,
) -> None:
    board = board_of(
        write_study(
            {
                "centralised": [0.9, 0.91, 0.92],
                "fedavg": [0.5, 0.52, 0.51],
                "moon": [0.6, 0.61, 0.63],
                "local": [0.2, 0.3, 0.25],
            }
        )
    )
    assert [row.name for row in board.rows] == ["moon", "fedavg", "local", "centralised"]
    assert board.best.name == "moon"
    above = board.rows[-1].difference
    assert above is not None
    assert above.mean == pytest.approx(0.91 - (0.6 + 0.61 + 0.63) / 3)
    assert "centralised has everybody's data: a ceiling, not ranked." in board.method
    assert verdict(board).startswith("moon is ahead of fedavg")


def test_a_ceiling_alone_with_one_method_is_above_it(write_study: StudyWriter) -> None:
    board = board_of(write_study({"centralised": [0.9, 0.91, 0.92], "fedavg": [0.5, 0.52, 0.51]}))
    assert board.best.name == "fedavg"
    assert verdict(board).startswith("centralised is ahead of fedavg by 40.0 points")
