"""What a point of a figure says when it is pointed at."""

from __future__ import annotations

from fedcord.metrics.registry import Metric
from fedcord.report.frontier import frontier
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import CLIENT, MEAN, SEEDS, Spot
from fedcord.report.markup import methods_of
from fedcord.report.numbers import byte_size
from fedcord.report.row import Row
from fedcord.report.scores import with_interval, with_unit


def words(spot: Spot, figure: str, board: Leaderboard) -> str:
    """The values of a point, without its method's name."""
    metric = board.metric
    row = _row(board, spot.method)
    if spot.part == CLIENT:
        client, seed = spot.detail.split("-")
        return f"client {client}, seed {seed}, checkpoint {spot.x:.0f}: λ {spot.y:.4g}"
    if spot.part == SEEDS:
        return f"seed {row.seeds[spot.place]}: {with_unit(row.values[spot.place], metric)}"
    if spot.part == MEAN:
        mean = with_interval(row.score, metric)
        if figure == "pareto":
            offers = {own.row.name: own.num_bytes for own in frontier(board).choices}
            return f"{mean} for {byte_size(offers[row.name])}"
        return f"mean {mean}"
    at = byte_size(spot.x) if figure == "traffic" else f"round {spot.x:.0f}"
    return f"{at}: {with_unit(_undrawn(spot.y, metric), metric)}"


def _row(board: Leaderboard, number: int) -> Row:
    return next(row for row in board.rows if methods_of(board)[row.name] == number)


def _undrawn(value: float, metric: Metric) -> float:
    """A value from the scale that figures have."""
    return value / 100 if metric.is_share else value
