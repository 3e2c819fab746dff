"""From run folders to files: the page, the tables and the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedcord.core.atomic import write_output
from fedcord.report.canvas import has_matplotlib, save_figure
from fedcord.report.figures import Panels, file_name, page_panels, run_figures, score_figures
from fedcord.report.html import render_page
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.metrics_table import other_metrics
from fedcord.report.tables import to_csv, to_latex, to_markdown


@dataclass(frozen=True)
class ReportPaths:
    """Where the report was written; `plots` is empty when matplotlib is not installed."""

    html: Path
    csv: Path
    markdown: Path
    latex: Path
    plots: tuple[Path, ...]


def build_report(study_dir: Path, *more: Path, metric: str | None = None) -> ReportPaths:
    """Compare all runs below the folders and write the report into the first one.

    Everything is computed before anything is written, so a failure leaves an older report alone.

    Args:
        study_dir: a study's folder; receives report.html, leaderboard.csv/.md/.tex and plots/*.svg.
        more: further folders whose runs belong to the same comparison.
        metric: what to compare by; by default what the runs were asked about.
    """
    runs = load_runs(study_dir, *more)
    board = leaderboard(runs, metric)
    others = [leaderboard(runs, own) for own in other_metrics(board) if own != board.metric.name]
    figures, panels = {}, Panels()
    if has_matplotlib():
        scores, of_runs = score_figures(board), run_figures(board)
        panels = page_panels(of_runs, scores, board, others)
        drawn = {**scores, **of_runs}
        figures = {file_name(name, board.metric.name): drawn[name][0] for name in drawn}
    page = render_page(board, panels, others, study_dir)
    paths = ReportPaths(
        html=study_dir / "report.html",
        csv=study_dir / "leaderboard.csv",
        markdown=study_dir / "leaderboard.md",
        latex=study_dir / "leaderboard.tex",
        plots=tuple(study_dir / "plots" / f"{name}.svg" for name in figures),
    )
    write_output(paths.csv, to_csv(board))
    write_output(paths.markdown, to_markdown(board))
    write_output(paths.latex, to_latex(board))
    for path, figure in zip(paths.plots, figures.values(), strict=True):
        save_figure(figure, path)
    write_output(paths.html, page)
    return paths
