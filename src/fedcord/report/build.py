"""From run folders to files: the page, the tables and the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcord.core.atomic import write_output
from fedcord.report.alignment import alignment_figure
from fedcord.report.bounds import bounds
from fedcord.report.canvas import has_matplotlib, inline_svg, save_figure
from fedcord.report.classes import confusion, has_classes
from fedcord.report.floor_lines import floor_levels
from fedcord.report.frontier import frontier
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.html import Panel, Panels, render_page
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.marks import grid_values, told_points
from fedcord.report.metrics_table import other_metrics
from fedcord.report.numbers import counted
from fedcord.report.pareto import pareto_figure
from fedcord.report.plots import final_figure, has_curves, score_figure
from fedcord.report.scores import interval_words
from fedcord.report.spot_words import words
from fedcord.report.tables import to_csv, to_latex, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    figures = _figures(board) if has_matplotlib() else {}
    page = render_page(board, _panels(figures, board), others, study_dir)
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
    for path, (figure, _) in zip(paths.plots, figures.values(), strict=True):
        save_figure(figure, path)
    write_output(paths.html, page)
    return paths


def _figures(board: Leaderboard) -> dict[str, tuple[Figure, str]]:
    """Figures with their captions, by file name."""
    metric = board.metric
    words = metric.words
    kind = f"95 % interval ({interval_words(metric).partition(',')[0]})"
    band = f", with {kind} over seeds" if len(board.seeds) > 1 else ", one seed"
    levels = floor_levels(board.floor, metric)
    floor = "; dashed, " + " and ".join(levels) if levels else ""
    floor += "".join(f"; {row.name}, a bound, as a line" for row in bounds(board))
    figures = {}
    if has_curves(board):
        figures[f"{metric.name}-rounds"] = (
            score_figure(board, "rounds"),
            f"Test {words} after each evaluated round, mean{band}{floor}. The last point is the "
            "result.",
        )
        figures[f"{metric.name}-traffic"] = (
            score_figure(board, "bytes"),
            f"The same {words} against everything that has travelled so far.",
        )
    figures[f"final-{metric.name}"] = (
        final_figure(board),
        f"Final {words}: filled dot and line, mean with {kind}; rings, the seeds{floor}.",
    )
    if frontier(board).is_tradeoff:
        bars = f"; bars, {kind} (an arrow: it goes on)" if len(board.seeds) > 1 else ""
        figures["pareto"] = (
            pareto_figure([board], [""]),
            f"Final {words} against all traffic of a run, never of a run stopped early. Filled and "
            "on the line: no other method is at least as good in both and better in one. The line "
            f"is what a budget of bytes can buy{bars}.",
        )
    aligned = alignment_figure(board)
    if aligned is not None:
        figures["alignment"] = (
            aligned,
            "How strongly each client is drawn to the common anchors (λ before any schedule), one "
            "line for each client and seed. Lines that climb without end have run away.",
        )
    first = board.best.runs[0]
    counts = confusion(board)
    if counts is not None and has_classes(board):
        names = [own.name for own in first.result.measured.classes] if first.result else []
        figures["confusion"] = (
            heatmap_figure(counts, names, "", names, "class", "answered as"),
            f"What {board.best.name} answered for the test examples of each class, over "
            f"{counted(len(board.best.runs), 'seed')}; blank is never, shade is logarithmic.",
        )
    if first.partition is not None and first.partition.is_told:
        figures["clients"] = (
            heatmap_figure(
                first.partition.counts,
                first.partition.class_names,
                "",
                first.partition.client_names,
            ),
            f"Training examples per client and class for seed {first.seed} "
            f"({first.partition.spec}); blank is none, shade is logarithmic.",
        )
    return figures


def _panels(figures: dict[str, tuple[Figure, str]], board: Leaderboard) -> Panels:
    metric = board.metric.name
    files = {
        "rounds": f"{metric}-rounds",
        "traffic": f"{metric}-traffic",
        "final": f"final-{metric}",
        **{name: name for name in ("confusion", "clients", "alignment", "pareto")},
    }
    panels = {}
    for name, file in files.items():
        if file in figures:
            figure, caption = figures[file]
            svg = inline_svg(figure, name, caption)  # before its values: it decides the layout
            panels[name] = Panel(svg, caption, _values(name, figure, board))
    return Panels(**panels)


def _values(name: str, figure: Figure, board: Leaderboard) -> dict[str, Any]:
    """What the points or the cells of a figure say."""
    first = board.best.runs[0]
    if name == "clients" and first.partition is not None:
        own = first.partition
        clients = own.client_names or [str(k) for k in range(len(own.counts))]
        kinds = ["client", "class", "examples"]
        return grid_values(figure, own.counts.tolist(), [clients, own.class_names], kinds)
    counts = confusion(board)
    if name == "confusion" and counts is not None and first.result is not None:
        classes = [entry.name for entry in first.result.measured.classes]
        kinds = ["class", "answered as", "test examples"]
        return grid_values(figure, counts.tolist(), [classes, classes], kinds)
    return {"points": told_points(figure, lambda spot: words(spot, name, board))}
