"""From run folders to files: the page, the tables and the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.report.alignment import alignment_figure
from fedcord.report.canvas import has_matplotlib, inline_svg, save_figure
from fedcord.report.files import write_output
from fedcord.report.floor_lines import floor_levels
from fedcord.report.frontier import frontier
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.html import Panel, Panels, render_page
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.pareto import pareto_figure
from fedcord.report.plots import accuracy_figure, final_figure
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


def build_report(study_dir: Path, *more: Path) -> ReportPaths:
    """Compare all runs below the folders and write the report into the first one.

    Everything is computed before anything is written, so a failure leaves an older report alone.

    Args:
        study_dir: a study's folder; receives report.html, leaderboard.csv/.md/.tex and plots/*.svg.
        more: further folders whose runs belong to the same comparison.
    """
    board = leaderboard(load_runs(study_dir, *more))
    figures = _figures(board) if has_matplotlib() else {}
    page = render_page(board, _panels(figures))
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
    # of accuracies, so that they stay within 0 to 100 %
    kind = "95 % interval (Student t on the logit scale)"
    band = f", with {kind} over seeds" if len(board.seeds) > 1 else ", one seed"
    floor = "; dashed, " + " and ".join(floor_levels(board.floor)) if board.floor else ""
    figures = {
        "accuracy-rounds": (
            accuracy_figure(board, "rounds"),
            f"Test accuracy after each evaluated round, mean{band}{floor}. The last point is the "
            "result.",
        ),
        "accuracy-traffic": (
            accuracy_figure(board, "bytes"),
            "The same accuracy against everything that has travelled so far.",
        ),
        "final-accuracy": (
            final_figure(board),
            f"Final accuracy: filled dot and line, mean with {kind}; rings, the seeds{floor}.",
        ),
    }
    if frontier(board).is_tradeoff:
        bars = f"; bars, {kind} (an arrow: it goes on)" if len(board.seeds) > 1 else ""
        figures["pareto"] = (
            pareto_figure([board], [""]),
            "Final accuracy against all traffic of a run, never of a run stopped early. Filled and "
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


def _panels(figures: dict[str, tuple[Figure, str]]) -> Panels:
    def panel(name: str) -> Panel | None:
        if name not in figures:
            return None
        figure, caption = figures[name]
        return Panel(inline_svg(figure, name, caption), caption)

    return Panels(
        rounds=panel("accuracy-rounds"),
        traffic=panel("accuracy-traffic"),
        final=panel("final-accuracy"),
        clients=panel("clients"),
        alignment=panel("alignment"),
        pareto=panel("pareto"),
    )
