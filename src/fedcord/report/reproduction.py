"""The page of a reproduced table: ours beside the published figures, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.overview import overview
from fedcord.report.planned import TITLE as PLAN
from fedcord.report.planned_pooled import explained, planned_over, planned_table
from fedcord.report.published import TOLERANCE, WHOLE, Beside, published_markdown
from fedcord.report.subject import command_without_folders
from fedcord.report.tables import pipe_table, short_markdown

JUDGED = {
    "nothing": "This scale tries the study out; it says nothing about the published figures.",
    "directions": "At this scale only differences are judged, and only by their sign: confirmed "
    "where the 95 % interval over our seeds lies on the published side of zero, contradicted where "
    "it lies on the other. Values are not comparable.",
    "values": "Values are confirmed where they lie in the 95 % interval over our seeds, give or "
    f"take {TOLERANCE:g} point; differences are judged by their sign.",
}

BESIDE = "Beside the published figures"
TOGETHER = "All parts together"
SETTING = "**Setting:**"
NO_FIGURES = "No published figures are known to us, or the item has none."
NOT_RUN = "was not run:"


def reproduction_page(
    about: Mapping[str, str],
    boards: Mapping[str, Leaderboard],
    rows: Sequence[Beside],
    lacking: Mapping[str, str],
) -> str:
    """Markdown.

    Args:
        about: study, title, source, scale, setting, note, judges and the command.
        boards: by part, what our runs reached.
        rows: the published figures beside ours.
        lacking: by part, why it was not run.
    """
    lines = [f"# {about['study']}, {about['scale']}: {about['title']}", "", f"{about['source']}."]
    lines += [
        "",
        "```sh",
        command_without_folders(about["command"]),
        "```",
        "",
        f"{SETTING} {about['setting']}",
    ]
    if about["note"]:
        lines += ["", f"**Note:** {about['note']}"]
    if rows:
        # one of several parts is named, as the others come to the page in other sittings
        is_one_of_several = any(row.published.part != WHOLE for row in rows)
        lines += ["", f"## {BESIDE}", "", published_markdown(rows, is_one_of_several)]
        lines += ["", JUDGED[about["judges"]]]
    else:
        lines += ["", NO_FIGURES]
    lines += _plan(boards) + _together(boards)
    for part, board in boards.items():
        lines += ["", f"## {part}", "", short_markdown(board)]
        if board.plan is not None:
            lines += ["", pipe_table(*board.plan.table(board.metric))]
            lines += ["", board.plan.correction(is_one_part=part != WHOLE)]
        lines += ["", f"Run from {_dates(board)}."]
    reasons = {part: " ".join(reason.split()) for part, reason in lacking.items()}
    lines += [f"\n{part} {NOT_RUN} {reason}" for part, reason in reasons.items()]
    return "\n".join(lines) + "\n"


def _plan(boards: Mapping[str, Leaderboard]) -> list[str]:
    """The plan once, and how each part stands to it where that differs."""
    plans = {part: board.plan for part, board in boards.items() if board.plan is not None}
    if not plans:
        return []
    # the part that was begun first is the hardest on the plan
    first = min(plans.values(), key=lambda own: own.first_run or "")
    lines = ["", f"## {PLAN}", "", *first.markdown()]
    later = {part: own for part, own in plans.items() if own.is_planned != first.is_planned}
    lines += [f"\n{part}: {own.standing}" for part, own in later.items()]
    others = {part: own for part, own in plans.items() if own.deviations != first.deviations}
    return lines + [
        f"\n{part}, not as planned: {' '.join(own.deviations) or 'nothing.'}"
        for part, own in others.items()
    ]


def _together(boards: Mapping[str, Leaderboard]) -> list[str]:
    """Parts of several data sets side by side, and what the plan asks of all of them."""
    parts = list(boards.values())
    if len({board.dataset for board in parts}) < 2:
        return []
    lines = ["", f"## {TOGETHER}"]
    results = planned_over(parts)
    if results:
        metric = parts[0].metric.name
        lines += ["", planned_table(results, metric, has_datasets=True)]
        lines += ["", explained(results, has_datasets=True)]
    if len({board.metric.name for board in parts}) == 1:
        lines += ["", overview(parts, list(boards)).to_markdown().rstrip()]
    return lines


def _dates(board: Leaderboard) -> str:
    starts = sorted(
        str(run.provenance.get("started", "")) for row in board.rows for run in row.runs
    )
    return f"{starts[0]} to {starts[-1]}"


def hashes_of(board: Leaderboard) -> dict[str, dict[str, dict[str, str | None]]]:
    """By contender and seed what identifies a run: its data, partition and final state."""
    return {
        row.name: {
            str(run.seed): {
                "data": run.data_hash,
                "partition": run.result.partition_hash,
                "state": run.result.state_hash,
            }
            for run in row.runs
            if run.result is not None
        }
        for row in board.rows
    }
