"""When a run counts as one that did not train, at the edges of every part of the rule."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fedcord.report.constant import ConstantAnswer
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_run, load_runs
from fedcord.report.training import is_no_better, loss_trouble, training_trouble
from fedcord.report.verdict import verdict

Adder = Callable[..., Path]
GUESS = math.log(10)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([], ""),  # analytic methods have none
        ([2.0], ""),  # one round cannot fall
        ([2.3, 2.0, 1.5], ""),
        ([3.7e10, 2.3, 2.3], "exploded (3.7e+10 in round 1, guessing 2.3)"),
        ([2.3, 1.0, 100.001 * GUESS], "exploded"),
        ([2.3, 1.0, 100 * GUESS], ""),  # exactly 100 times is not above
        ([math.inf], "not finite in round 1"),
        ([2.3, math.inf, 2.0], "not finite in round 2"),
        ([2.3, 2.3, 2.3], "never fell (2.3 in the first round, later 2.3)"),
        ([2.3, 2.4, 2.3 * 0.9901], "never fell"),
        ([2.3, 2.4, 2.3 * 0.99], ""),  # fell by 1 %
        ([2.3, 2.0, 2.5], ""),  # fell once
        ([0.4 * GUESS, 0.6 * GUESS], ""),  # began far below guessing
        ([0.51 * GUESS, 0.6 * GUESS], "never fell"),
        ([-1.0, -1.0], ""),
    ],
)
def test_what_a_loss_does(losses: Sequence[float], words: str) -> None:
    found = loss_trouble(dict(enumerate(losses, start=1)), num_classes=10)
    assert bool(found) == bool(words)
    assert words in found


@pytest.mark.parametrize(
    ("accuracy", "num_examples", "expected"),
    [
        (0.42, 1_000_000, True),  # two points above
        (0.4201, 1_000_000, False),
        (0.40 + 2 * math.sqrt(0.24 / 96), 96, True),  # two standard errors above
        (0.40 + 2 * math.sqrt(0.24 / 96) + 1e-9, 96, False),
        (0.05, 1_000_000, True),
    ],
)
def test_what_is_no_better_than_a_constant(
    accuracy: float, num_examples: int, expected: bool
) -> None:
    floor = ConstantAnswer(3, 0.40, "cat", 3, (num_examples,), is_exact=True)
    assert is_no_better(accuracy, floor) is expected


def _with_losses(folder: Path, losses: Sequence[float | None]) -> None:
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line, loss in zip(lines, losses, strict=True):
        line.pop("train_loss")
        if loss is not None:
            line["train_loss"] = loss
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_loss_that_exploded_is_forgiven_where_the_method_learnt(
    tmp_path: Path, add_run: Adder
) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.9, rounds=3)
    _with_losses(folder, [1e9, 1.0, 0.2])
    found = training_trouble(load_run(folder))
    assert found is not None
    assert not found.is_untrained
    (note,) = leaderboard(load_runs(tmp_path)).notes
    assert note.endswith("but the accuracy is above that of a constant answer.")


def test_methods_without_a_loss_are_not_judged(tmp_path: Path, add_run: Adder) -> None:
    folder = add_run(tmp_path, "afl", 0, 1 / 3, rounds=2)
    _with_losses(folder, [None, None])
    assert training_trouble(load_run(folder)) is None


def test_a_rival_that_did_not_train_is_marked_in_the_verdict(
    tmp_path: Path, add_run: Adder
) -> None:
    for seed in range(5):
        add_run(tmp_path, "afl", seed, 0.60 + seed / 100)
        folder = add_run(tmp_path, "fedavg", seed, 0.33 + seed / 500)
        _with_losses(folder, [3.7e10, 1.1, 1.1, 1.1])
    board = leaderboard(load_runs(tmp_path))
    assert board.rows[1].untrained == (0, 1, 2, 3, 4)
    assert verdict(board) == (
        "afl is ahead of fedavg (did not train) by 28.6 points [27.0, 30.2], p < 0.001, 5 seeds. "
        "What fedavg could reach is not known: see the notes on training. "
        "Parameters were not tuned."
    )
    assert board.notes[0].startswith(
        "fedavg, 5 seeds: did not train: training loss exploded (3.7e+10 in round 1, guessing 1.1)"
    )
    assert board.to_json()["rows"][1]["did_not_train"] == [0, 1, 2, 3, 4]


def test_some_seeds_are_counted(tmp_path: Path, add_run: Adder) -> None:
    for seed in range(3):
        folder = add_run(tmp_path, "fedavg", seed, 0.33 if seed else 0.9)
        if seed:
            _with_losses(folder, [1.1, 1.1, 1.1, 1.1])
    assert leaderboard(load_runs(tmp_path)).best.label == "fedavg (did not train on 2 of 3 seeds)"
