"""The figures of a report with their captions, and how they stand on its page.

Some show the metric that is compared: those exist once for every metric, and a page with script
swaps them when its reader chooses another. The others are about the runs and exist once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedcord.report.alignment import alignment_figure
from fedcord.report.bounds import bounds
from fedcord.report.canvas import inline_svg
from fedcord.report.classes import confusion, has_classes
from fedcord.report.floor_lines import floor_levels
from fedcord.report.frontier import frontier
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import grid_values, told_points
from fedcord.report.numbers import counted
from fedcord.report.pareto import pareto_figure
from fedcord.report.plots import final_figure, has_curves, score_figure
from fedcord.report.scores import interval_words
from fedcord.report.spot_words import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Captioned = Mapping[str, "tuple[Figure, str]"]
"""Figures with their captions, by name."""


@dataclass(frozen=True)
class Panel:
    """A figure on the page.

    Attributes:
        key: under which the page knows its values.
        svg: trusted markup from `canvas.inline_svg`.
        caption: plain text.
        values: what its points or cells say; see `marks`.
    """

    key: str
    svg: str
    caption: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panels:
    """The page's figures by name; none where matplotlib is absent or there is nothing to draw.

    Attributes:
        of_runs: what no metric changes.
        by_metric: by the metric's name, what shows it.
    """

    of_runs: Mapping[str, Panel] = field(default_factory=dict)
    by_metric: Mapping[str, Mapping[str, Panel]] = field(default_factory=dict)

    def of(self, board: Leaderboard) -> Mapping[str, Panel]:
        """What shows the metric of a board."""
        return self.by_metric.get(board.metric.name, {})

    def values(self) -> dict[str, Mapping[str, Any]]:
        """By key, what the figures say."""
        groups: Iterable[Mapping[str, Panel]] = [self.of_runs, *self.by_metric.values()]
        return {panel.key: panel.values for group in groups for panel in group.values()}


def score_figures(board: Leaderboard) -> Captioned:
    """What shows the metric that is compared: curves, final scores, and scores against bytes."""
    metric = board.metric
    name = metric.words
    kind = f"95 % interval ({interval_words(metric).partition(',')[0]})"
    band = f", with {kind} over seeds" if len(board.seeds) > 1 else ", one seed"
    levels = floor_levels(board.floor, metric)
    floor = "; dashed, " + " and ".join(levels) if levels else ""
    floor += "".join(f"; {row.name}, a bound, as a line" for row in bounds(board))
    figures = {}
    if has_curves(board):
        figures["rounds"] = (
            score_figure(board, "rounds"),
            f"Test {name} after each evaluated round, mean{band}{floor}. The last point is the "
            "result.",
        )
        figures["traffic"] = (
            score_figure(board, "bytes"),
            f"The same {name} against everything that has travelled so far.",
        )
    figures["final"] = (
        final_figure(board),
        f"Final {name}: filled dot and line, mean with {kind}; rings, the seeds{floor}.",
    )
    if frontier(board).is_tradeoff:
        bars = f"; bars, {kind} (an arrow: it goes on)" if len(board.seeds) > 1 else ""
        figures["pareto"] = (
            pareto_figure([board], [""]),
            f"Final {name} against all traffic of a run, never of a run stopped early. Filled and "
            "on the line: no other method is at least as good in both and better in one. The line "
            f"is what a budget of bytes can buy{bars}.",
        )
    return figures


def run_figures(board: Leaderboard) -> Captioned:
    """What no metric changes: how strongly clients align, confusions, and the clients' data."""
    figures = {}
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


def file_name(figure: str, metric: str) -> str:
    """Of a figure among the plots; those of several metrics can lie in one folder."""
    names = {
        "rounds": f"{metric}-rounds",
        "traffic": f"{metric}-traffic",
        "final": f"final-{metric}",
    }
    return names.get(figure, figure)


def page_panels(
    of_runs: Captioned, scores: Captioned, board: Leaderboard, others: Sequence[Leaderboard]
) -> Panels:
    """Figures as they stand on the page.

    Args:
        of_runs: from `run_figures`.
        scores: from `score_figures`, of the metric that the page shows first.
        board: the comparison by that metric.
        others: the same runs by other metrics, whose figures are drawn here.
    """
    by_metric = {board.metric.name: _panels(scores, board)}
    for other in others:
        by_metric[other.metric.name] = _panels(
            score_figures(other), other, suffix=f"-{other.metric.name}"
        )
    return Panels(_panels(of_runs, board), by_metric)


def _panels(figures: Captioned, board: Leaderboard, suffix: str = "") -> dict[str, Panel]:
    panels = {}
    for name, (figure, caption) in figures.items():
        key = name + suffix
        svg = inline_svg(figure, name, caption, key)  # before its values: it decides the layout
        panels[name] = Panel(key, svg, caption, _values(name, figure, board))
    return panels


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
