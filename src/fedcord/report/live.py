"""What the page's own script knows, and the script itself.

The page is whole without it. The script asks the network for nothing and shows only numbers that
the report wrote into the page. It is inlined and locked by its hash, so that a browser runs nothing
else, whatever else a page might come to contain.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from fedcord.report.canvas import look
from fedcord.report.frontier import frontier, interval_ends
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.markup import methods_of
from fedcord.report.numbers import byte_size
from fedcord.report.scores import with_interval

PARTS = ("methods", "tables", "budget", "figures", "start")
"""Files in `script/`, in the order in which they make up the script."""


def page_script() -> str:
    """The script, as it is written into every page: its parts in a scope of their own."""
    folder = resources.files("fedcord.report").joinpath("script")
    parts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def policy() -> str:
    """What a browser may do with the page: show it, run our script, and fetch nothing."""
    digest = hashlib.sha256(page_script().encode()).digest()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'sha256-{base64.b64encode(digest).decode()}'"
    )


def script_elements(boards: Sequence[Leaderboard], figures: Mapping[str, Any]) -> str:
    """The script and its data.

    Args:
        boards: the same runs by several metrics, the page's own first.
        figures: by key, the points or cells of each.
    """
    data = json.dumps(page_data(boards, figures), ensure_ascii=False, separators=(",", ":"))
    safe = data.replace("<", "\\u003c")  # nothing read from a file can end the element
    return (
        f'<script type="application/json" id="fedcord-data">{safe}</script>\n'
        f"<script>{page_script()}</script>\n"
    )


def page_data(boards: Sequence[Leaderboard], figures: Mapping[str, Any]) -> dict[str, Any]:
    """Methods in the order of the leaderboard, what each costs and reaches, and the figures."""
    board = boards[0]
    numbers = methods_of(board)
    return {
        "methods": [
            {"number": numbers[row.name], "name": row.name, "colour": colour, "turn": turn}
            for row in board.rows
            for colour, turn in [look(numbers, row.name)]
        ],
        "budget": {own.metric.name: _choices(own, numbers) for own in boards},
        "figures": figures,
    }


def _choices(board: Leaderboard, numbers: Mapping[str, int]) -> dict[str, Any]:
    """What a budget of bytes can buy; empty where there is nothing to choose."""
    front = frontier(board)
    offers = front.choices if front.is_tradeoff else ()
    return {
        "words": board.metric.words,
        "sign": board.metric.sign,
        "rows": [
            {
                "method": numbers[own.row.name],
                "name": own.row.label,
                "bytes": own.num_bytes,
                "size": byte_size(own.num_bytes),
                "mean": own.row.score.mean,
                "ends": interval_ends(own.row),
                "said": with_interval(own.row.score, board.metric),
            }
            for own in offers
        ],
    }
