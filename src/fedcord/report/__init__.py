"""Leaderboards, figures and pages from run folders. Needs no torch; figures need matplotlib."""

from fedcord.report.build import ReportPaths, build_report
from fedcord.report.canvas import save_figure
from fedcord.report.feature_map import feature_map_figure
from fedcord.report.frontier import Frontier, frontier
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import Run, load_run, load_runs
from fedcord.report.pareto import pareto_figure
from fedcord.report.plots import final_figure, score_figure
from fedcord.report.row import Row
from fedcord.report.terminal import print_leaderboard
from fedcord.report.verdict import verdict

__all__ = [
    "Frontier",
    "Leaderboard",
    "ReportPaths",
    "Row",
    "Run",
    "build_report",
    "feature_map_figure",
    "final_figure",
    "frontier",
    "heatmap_figure",
    "leaderboard",
    "load_run",
    "load_runs",
    "pareto_figure",
    "print_leaderboard",
    "save_figure",
    "score_figure",
    "verdict",
]
