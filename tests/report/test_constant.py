"""What a model that learnt nothing reaches, and where it is shown."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from fedcord.report.build import build_report
from fedcord.report.constant import constant_answer
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_run, load_runs
from fedcord.report.plots import final_figure, score_figure
from fedcord.report.terminal import print_leaderboard

Adder = Callable[..., Path]


def _board(study: Path, add_run: Adder, counts: Sequence[int], accuracy: float) -> Leaderboard:
    for name in ("fedavg", "moon"):
        for seed in range(2):
            result = {"test_counts": list(counts), "balanced_accuracy": 1 / 3 + seed / 1000}
            add_run(study, name, seed, accuracy + seed / 1000, result=result)
    return leaderboard(load_runs(study))


def test_the_largest_class_of_the_test_set_counts(tmp_path: Path, add_run: Adder) -> None:
    counts = {"test_counts": [4, 0, 96]}
    floor = constant_answer(load_run(add_run(tmp_path, "fedavg", 0, 0.5, result=counts)))
    assert floor is not None
    assert (floor.majority, floor.majority_class, floor.is_exact) == (0.96, "eel", True)
    assert (floor.chance, floor.balanced) == pytest.approx((1 / 3, 0.5))
    assert floor.is_unequal


def test_older_runs_tell_training_examples_only(tmp_path: Path, add_run: Adder) -> None:
    run = load_run(add_run(tmp_path, "fedavg", 0, 0.5, result={"test_counts": []}))
    floor = constant_answer(run)
    assert floor is not None
    assert run.partition is not None
    shares = run.partition.counts.sum(axis=0) / run.partition.counts.sum()
    assert floor.majority == pytest.approx(shares.max())
    assert not floor.is_exact
    assert "judged by the training examples" in floor.sentence


@pytest.mark.parametrize(
    ("counts", "is_unequal"),
    [((100, 100, 100), False), ((104, 98, 98), False), ((106, 97, 97), True)],
)
def test_classes_within_five_percent_count_as_equal(
    tmp_path: Path, add_run: Adder, counts: Sequence[int], is_unequal: bool
) -> None:
    result = {"test_counts": list(counts)}
    floor = constant_answer(load_run(add_run(tmp_path, "fedavg", 0, 0.5, result=result)))
    assert floor is not None
    assert floor.is_unequal is is_unequal


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_balanced_accuracy_and_the_largest_class(
    tmp_path: Path, add_run: Adder, width: int
) -> None:
    board = _board(tmp_path, add_run, (2, 2, 96), 0.955)
    stream = io.StringIO()
    print_leaderboard(board, Console(file=stream, width=width))
    text = " ".join(stream.getvalue().split())
    assert "balanced" in text
    assert "33.38" in text
    assert (
        "Always answering 'eel' has an accuracy of 96.00 % and a balanced accuracy of 33.33 %; "
        "guessing has 33.33 %." in text
    )
    assert "the accuracy is not above the 96.00 % of always answering 'eel'" in text


def test_equal_classes_say_nothing_of_it(tmp_path: Path, add_run: Adder) -> None:
    stream = io.StringIO()
    board = _board(tmp_path, add_run, (50, 50, 50), 0.6)
    print_leaderboard(board, Console(file=stream, width=120))
    assert "balanced" not in stream.getvalue()
    assert "Always answering" not in stream.getvalue()


@pytest.mark.usefixtures("no_matplotlib")
def test_page_and_table_say_it(tmp_path: Path, add_run: Adder) -> None:
    _board(tmp_path, add_run, (2, 2, 96), 0.97)
    paths = build_report(tmp_path)
    for path in (paths.html, paths.markdown):
        assert "has an accuracy of 96.00 %" in path.read_text(encoding="utf-8")


def test_figures_draw_chance_and_the_largest_class(tmp_path: Path, add_run: Adder) -> None:
    board = _board(tmp_path, add_run, (30, 30, 60), 0.6)
    for figure, along in (
        (score_figure(board, "rounds"), "y"),
        (score_figure(board, "bytes"), "y"),
        (final_figure(board), "x"),
    ):
        (axes,) = figure.axes
        words = " ".join(text.get_text() for text in axes.texts)
        low, high = axes.get_ylim() if along == "y" else axes.get_xlim()
        assert "chance 33.3 %" in words
        assert "largest class 50.0 %" in words
        for level, name in ((100 / 3, "chance 33.3 %"), (50.0, "largest class 50.0 %")):
            is_line = f"{name} ←" not in words and f"{name} ↓" not in words
            assert is_line == (low <= level <= high)


def test_a_level_far_away_becomes_words_at_the_edge(tmp_path: Path, add_run: Adder) -> None:
    (axes,) = final_figure(_board(tmp_path, add_run, (50, 50, 50), 0.9)).axes
    assert [text.get_text() for text in axes.texts] == ["chance 33.3 % ←"]
    assert axes.get_xlim()[0] > 40
