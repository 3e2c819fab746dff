from collections.abc import Callable
from pathlib import Path

import pytest

from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.verdict import verdict

StudyWriter = Callable[..., Path]
BASE = [0.80, 0.82, 0.78, 0.81, 0.79]
AHEAD = [0.82, 0.83, 0.80, 0.84, 0.80]  # differences 2, 1, 2, 3, 1: t = 4.81, p = 0.0086


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"fedavg": BASE, "fedprox": AHEAD},
            "fedprox is ahead of fedavg by 1.8 points [0.8, 2.8], p = 0.009, 5 seeds.",
        ),
        (
            {
                "fedavg": BASE,
                "fedprox": AHEAD,
                "moon": [v - 0.3 + i / 100 for i, v in enumerate(BASE)],
            },
            "fedprox is ahead of fedavg by 1.8 points [0.8, 2.8], p = 0.009, 5 seeds. "
            "fedprox is also ahead of moon.",
        ),
        (
            {"fedavg": BASE, "fedprox": [0.84, 0.80, 0.79, 0.80, 0.80]},
            "No difference between fedprox and fedavg that these 5 seeds can show: 0.60 points "
            "[−2.26, 3.46], p = 0.591.",
        ),
        (
            {"fedavg": BASE, "fedprox": [v + 0.02 for v in BASE]},
            "fedprox is 2.0 points above fedavg on every one of 5 seeds; equal differences leave "
            "no spread for a t test.",
        ),
        (
            {"fedavg": BASE, "fedprox": BASE},
            "fedavg and fedprox have equal accuracy on each of 5 seeds.",
        ),
        (
            {"fedavg": [0.5], "fedprox": [0.62]},
            "fedprox is 12.0 points above fedavg on the one seed there is, and one seed cannot "
            "show a difference; run at least five.",
        ),
        (
            {"fedavg": [0.5], "fedprox": [0.5]},
            "fedavg and fedprox are equal on the one seed there is; run five.",
        ),
        (
            {"fedavg": [0.5, 0.6]},
            "fedavg reaches 55.0 % [8.6, 94.1] test accuracy on 2 seeds; there is no other "
            "algorithm to compare it with.",
        ),
        (
            {"fedavg": [0.5]},
            "fedavg reaches 50.0 % test accuracy on 1 seed; there is no other algorithm to compare "
            "it with.",
        ),
    ],
)
def test_the_verdict_says_what_the_seeds_can_show(
    write_study: StudyWriter, values: dict[str, list[float]], expected: str
) -> None:
    terms = " Parameters were not tuned." if len(values) > 1 else ""
    assert verdict(leaderboard(load_runs(write_study(values)))) == expected + terms


def test_a_difference_that_does_not_survive_correction_is_not_called_one(
    write_study: StudyWriter,
) -> None:
    shifts = ([0.03, -0.01, 0.02], [0.0, 0.01, 0.03], [0.02, 0.02, -0.02], [0.01, -0.03, 0.02])
    values = {"ahead": [0.9, 0.9, 0.9], "near": [0.888, 0.88, 0.874]} | {
        f"other{k}": [0.8 + s for s in shift] for k, shift in enumerate(shifts)
    }
    board = leaderboard(load_runs(write_study(values)))
    near = board.rows[1]
    assert near.difference is not None
    assert near.difference.t_p is not None
    assert near.p_holm is not None
    assert near.difference.t_p < 0.05 < near.p_holm  # the case in question
    assert "can show once all 15 comparisons are counted" in verdict(board)


def test_who_failed_on_a_seed_can_be_ahead_on_the_others(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [*BASE, 0.8]})
    for seed, accuracy in enumerate(AHEAD):
        add_run(study, "moon", seed, accuracy)
    folder = add_run(study, "moon", 5, 0.5, is_finished=False)
    failure = '{"algorithm": "moon", "seed": 5, "error": "E", "message": "NaN"}'
    (folder / "failure.json").write_text(failure)
    assert verdict(leaderboard(load_runs(study))) == (
        "moon (failed on 1 of 6 seeds) is ahead of fedavg by 1.8 points [0.8, 2.8], p = 0.009, "
        "5 seeds. Parameters were not tuned."
    )
