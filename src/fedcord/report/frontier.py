"""Score and bytes together: which methods no other beats.

One method beats another when it is at least as good by the metric, needs at most as many bytes, and
is better in one of the two. So two methods with equal bytes do not both stay unless they are
equally good. Only the final score and all traffic of a run count: a run cut off at the round where
its test curve happens to be good would be a choice made on the test set. Traffic is the complete
one (`cost`), which is counted alike for all, unless some run is of a version that did not count it.
`centralised`, which moves the data itself, is no choice and stays out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedcord.report.bounds import CEILING, bounds, without
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import counted, listed
from fedcord.report.row import Row
from fedcord.report.subject import without_folders

TITLE_SETTINGS = ("model", "clients", "participation", "subset", "longtail")
"""What a title names beside data and partition, where the boards side by side differ in it."""


@dataclass(frozen=True)
class Choice:
    """One method.

    Attributes:
        row: the leaderboard's.
        num_bytes: what it costs.
        beaten_by: the rows that beat it; empty on the frontier.
    """

    row: Row
    num_bytes: float
    beaten_by: tuple[Row, ...] = ()

    @property
    def is_frontier(self) -> bool:
        """Whether no other method beats it."""
        return not self.beaten_by

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, unrounded."""
        return {
            "algorithm": self.row.name,
            self.row.metric.name: asdict(self.row.score),
            "bytes": self.num_bytes,
            "bytes_up": self.row.bytes_up,
            "bytes_down": self.row.bytes_down,
            "is_frontier": self.is_frontier,
            "beaten_by": [row.name for row in self.beaten_by],
        }


@dataclass(frozen=True)
class Frontier:
    """All methods of a leaderboard, from fewest bytes to most, the better first.

    Attributes:
        choices: the methods.
        is_complete: whether bytes are complete traffic, and not only what was exchanged.
    """

    choices: tuple[Choice, ...]
    is_complete: bool = False

    @property
    def best(self) -> tuple[Choice, ...]:
        """The methods no other beats."""
        return tuple(choice for choice in self.choices if choice.is_frontier)

    @property
    def is_tradeoff(self) -> bool:
        """Whether there is anything to choose: three methods or more, and not one price for all."""
        return len(self.choices) >= 3 and len({own.num_bytes for own in self.choices}) > 1

    @property
    def close_neighbours(self) -> tuple[tuple[str, str], ...]:
        """Neighbours on the frontier whose intervals overlap: the bytes may buy nothing.

        Methods equal in both are no such pair, since nothing is said of their order.
        """
        pairs = itertools.pairwise(self.best)
        return tuple(
            (first.row.name, second.row.name)
            for first, second in pairs
            if first.num_bytes < second.num_bytes and intervals_overlap(first.row, second.row)
        )

    @property
    def close_losers(self) -> tuple[str, ...]:
        """Beaten methods whose interval overlaps with that of everything that beats them."""
        return tuple(
            own.row.name
            for own in self.choices
            if own.beaten_by and all(intervals_overlap(own.row, other) for other in own.beaten_by)
        )

    @property
    def sentence(self) -> str:
        """The frontier in words, with how far it can be trusted."""
        names = listed([own.row.label for own in self.best])
        words = self.choices[0].row.metric.words
        price = "complete traffic" if self.is_complete else "bytes"
        return f"Not beaten in both {words} and {price}: {names}. {self._trust()}"

    def _trust(self) -> str:
        num_seeds = max(own.row.score.n for own in self.choices)
        if num_seeds == 1:
            return "This rests on one seed, which has no intervals."
        basis = f"This rests on means over {counted(num_seeds, 'seed')}"
        doubts = []
        if self.close_neighbours:
            pairs = ", ".join(f"{first} and {second}" for first, second in self.close_neighbours)
            doubts.append(f"95 % intervals overlap between {pairs}")
        if self.close_losers:
            names = listed(list(self.close_losers))
            doubts.append(
                f"the 95 % interval of {names} overlaps with all that beats it"
                if len(self.close_losers) == 1
                else f"the 95 % intervals of {names} overlap with all that beats them"
            )
        if not doubts:
            return f"{basis}; no 95 % intervals overlap that could change it."
        return f"{basis}; {', and '.join(doubts)}, so intervals do not settle the order there."

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, unrounded."""
        return {
            "points": [choice.to_json() for choice in self.choices],
            "frontier": [own.row.name for own in self.best],
            "overlapping_neighbours": [list(pair) for pair in self.close_neighbours],
            "overlapping_beaten": list(self.close_losers),
            "sentence": self.sentence,
        }


def frontier(board: Leaderboard, complete_if_known: bool = True) -> Frontier:
    """Sort out which methods of a board no other beats, by mean score and mean bytes.

    Args:
        board: the methods.
        complete_if_known: by complete traffic where all have it; else by what was exchanged.
    """
    sign = board.metric.sign
    rows = without(board, bounds(board, [CEILING]))
    complete = {row.name: row.cost.bytes for row in rows}
    is_complete = complete_if_known and None not in complete.values()
    offers = [
        Choice(row, (complete[row.name] or 0.0) if is_complete else row.num_bytes) for row in rows
    ]
    offers.sort(key=lambda own: (own.num_bytes, -sign * own.row.score.mean, own.row.name))
    return Frontier(
        tuple(
            replace(own, beaten_by=tuple(other.row for other in offers if beats(other, own)))
            for own in offers
        ),
        is_complete,
    )


def beats(first: Choice, second: Choice) -> bool:
    """Whether the first is at least as good in both score and bytes, and better in one."""
    gain = first.row.metric.sign * (first.row.score.mean - second.row.score.mean)
    saving = second.num_bytes - first.num_bytes
    return gain >= 0 and saving >= 0 and (gain > 0 or saving > 0)


def intervals_overlap(first: Row, second: Row) -> bool:
    """Whether the scores' intervals share a point; a mean without interval is one point."""
    (low, high), (other_low, other_high) = interval_ends(first), interval_ends(second)
    return low <= other_high and other_low <= high


def interval_ends(row: Row) -> tuple[float, float]:
    """The ends of the score's interval; the mean twice where there is none."""
    own = row.score
    return (own.mean if own.low is None else own.low, own.mean if own.high is None else own.high)


def panel_titles(boards: Sequence[Leaderboard]) -> tuple[str, ...]:
    """What tells boards side by side apart: data, partition, and other settings that differ."""
    parts = [
        [without_folders(_setting(board, "dataset")), _setting(board, "partition")]
        for board in boards
    ]
    for key in TITLE_SETTINGS:
        values = [_setting(board, key) for board in boards]
        if len(set(values)) > 1:
            for own, value in zip(parts, values, strict=True):
                own.append(f"{key} {value}" if value else "")
    return tuple(", ".join(part for part in own if part) for own in parts)


def _setting(board: Leaderboard, key: str) -> str:
    """A setting as text; empty where the methods of a board differ in it."""
    values = [row.runs[0].config.get(key) for row in board.rows]
    values = [", ".join(map(str, own)) if isinstance(own, list) else own for own in values]
    return str(values[0]) if len(set(values)) == 1 and values[0] is not None else ""
