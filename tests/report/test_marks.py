"""What figures know of their own parts."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcord.report import leaderboard, load_runs
from fedcord.report.canvas import house_style, inline_svg, logarithmic
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.marks import MOST_POINTS, grid_values, method_numbers, tag, told_points
from fedcord.report.plots import final_figure, score_figure
from fedcord.report.spot_words import words

StudyWriter = Callable[..., Path]


def test_points_tell_every_seed_and_lie_within_the_picture(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study({"moon": [0.5, 0.7], "fedavg": [0.25, 0.75]})))
    figure = final_figure(board)
    svg = inline_svg(figure, "final", "")
    told = told_points(figure, lambda spot: words(spot, "final", board))
    assert [own[3] for own in told if own[0] == 0] == [
        "seed 0: 25.00 %",
        "seed 1: 75.00 %",
        "mean 50.00 % [0.00, 100.00]",
    ]
    box = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
    assert box is not None
    assert all(0 < x < float(box[1]) and 0 < y < float(box[2]) for _, x, y, _ in told)
    # a ring stands where its point is told
    ring = re.search(r'data-method="0" data-part="seeds".*?x="([0-9.]+)" y="([0-9.]+)"', svg, re.S)
    assert ring is not None
    first = next(own for own in told if own[0] == 0)
    assert [float(ring[1]), float(ring[2])] == pytest.approx(first[1:3], abs=0.2)


def test_curves_tell_rounds_and_bytes(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study({"fedavg": [0.5]})))
    by_round, by_bytes = score_figure(board, "rounds"), score_figure(board, "bytes")
    for figure in (by_round, by_bytes):
        inline_svg(figure, "curves", "")
    *_, last = told_points(by_round, lambda spot: words(spot, "rounds", board))
    assert last[3] == "round 4: 50.00 %"
    *_, last = told_points(by_bytes, lambda spot: words(spot, "traffic", board))
    assert last[3] == "12 kB: 50.00 %"


def test_every_part_of_a_method_is_marked_and_nothing_else(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study({"moon": [0.5, 0.7], "fedavg": [0.2, 0.6]})))
    svg = inline_svg(score_figure(board, "rounds"), "rounds", "")
    parts = re.findall(r'data-method="(\d)" data-part="([a-z]+)"', svg)
    each = ["end", "interval", "legend", "legend", "line"]
    assert sorted(parts) == [(number, part) for number in "01" for part in each]


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure()
        (line,) = figure.subplots().plot(range(1001), range(1001))
    tag(line, 0, "line")
    told = told_points(figure, lambda spot: str(spot.place))
    assert len(told) <= MOST_POINTS
    assert told[-1][3] == "1000"


def test_a_heat_map_tells_where_its_cells_are() -> None:
    counts = [[5, 0, 120], [7, 3, 0]]
    figure = heatmap_figure(np.array(counts), ("cat", "dog", "eel"), "")
    inline_svg(figure, "clients", "")
    kinds = ["client", "class", "examples"]
    values = grid_values(figure, counts, [["0", "1"], ["cat", "dog", "eel"]], kinds)
    left, top, right, bottom = values["box"]
    width, height = figure.get_size_inches() * 72
    assert 0 < left < right < width
    assert 0 < top < bottom < height


def test_methods_are_numbered_by_name() -> None:
    assert method_numbers(["moon", "fedavg", "moon"]) == {"fedavg": 0, "moon": 1}


@pytest.mark.parametrize("highest", [2.5, 2e6])
def test_a_logarithmic_axis_always_has_numbers(highest: float) -> None:
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure()
        axes = figure.subplots()
        axes.plot([0, 1], [2.1, highest])
        logarithmic(axes)
        figure.draw_without_rendering()
        low, high = axes.get_ylim()
        shown = [t for t in axes.get_yticks() if low <= t <= high]
    assert len(shown) >= 2
