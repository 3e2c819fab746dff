"""Published figures beside ours: the difference, and what our runs say about them.

A figure is what a method reached, or how much more (or less) than another it did. How much a run
can say depends on its scale: one that only tries a study out judges nothing, a reduced one judges
directions (who is better than whom), and only the published setting judges values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedcord.core.errors import ConfigError
from fedcord.core.params import check_params, param
from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run
from fedcord.report.numbers import NOTHING, fixed
from fedcord.report.row import Row
from fedcord.report.scores import score_interval
from fedcord.report.tables import pipe_table
from fedcord.statistics import MeanInterval, mean_interval

JUDGES = ("nothing", "directions", "values")
"""What runs of a scale can say about published figures."""
COSTS = ("seconds", "bytes")
FROM_SERVER = ("g_protos_std", "inter_client_proto_std")
LARGEST_LAMBDA, OVER_GROUPS = "lambda_raw", "group_mean"
MEASURES = (*METRICS, *COSTS, *FROM_SERVER, LARGEST_LAMBDA, OVER_GROUPS)
"""Metrics, costs of a run, the largest λ of any client, the mean accuracy over domains…"""
PART, WHOLE = "part", "all"
"""Heading of the column of parts, and the part of a study that has no others."""
TOLERANCE = 1.0
"""Points by which a published value may lie outside our interval: its own run had one seed too."""
CONFIRMED, NOT_SHOWN, CONTRADICTED = "confirmed", "not shown", "contradicted"
NOT_COMPARABLE, NOT_RUN, NOT_MEASURED = "not comparable", "not run", "not measured"


@dataclass(frozen=True)
class Published:
    """One figure of a paper.

    With `against` it is a difference: in points where the measure is a share, and for costs how
    many per cent are saved. Shares are in per cent, as papers print them.
    """

    part: str = param(WHOLE, "part of the study it belongs to")
    contender: str = param("", "label of the method")
    what: str = param("accuracy", "what was measured", choices=MEASURES)
    against: str | None = param(None, "label of the method it is compared with; none: a value")
    value: float | None = param(None, "the figure; none where there is a range, or no figure")
    low: float | None = param(None, "lower end of a range")
    high: float | None = param(None, "upper end of a range")
    at: float = param(1.0, "when: share of the rounds", above=0, at_most=1)

    def __post_init__(self) -> None:
        check_params(self)
        ends = (self.low is None) + (self.high is None)
        if not self.contender or ends == 1 or (self.value is None) != (ends == 0):
            raise ConfigError(
                "[[published]] needs a contender, and either value or both low and high."
            )

    @property
    def ends(self) -> tuple[float, float]:
        """The range it stands for; of a value, the value twice."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        assert self.value is not None
        return self.value, self.value

    @property
    def is_share(self) -> bool:
        """Whether numbers of runs are shares of one."""
        if self.what == OVER_GROUPS:
            return True
        return self.what in METRICS and METRICS[self.what].is_share

    @property
    def words(self) -> str:
        """What the figure is of."""
        text = self.what.replace("_", " ")
        if self.against is not None:
            kind = "% saved against" if self.what in COSTS else "minus"
            text += f", {kind} {self.against}"
        return text if self.at == 1 else f"{text} after {100 * self.at:g} % of training"


@dataclass(frozen=True)
class Beside:
    """A published figure and ours.

    Attributes:
        published: the figure.
        ours: mean and interval over our seeds, in the figure's unit; None without runs.
        verdict: what our runs say about it.
    """

    published: Published
    ours: MeanInterval | None
    verdict: str

    @property
    def difference(self) -> float | None:
        """Ours minus the published one, or minus the nearer end of its range."""
        if self.ours is None:
            return None
        low, high = self.published.ends
        return self.ours.mean - min(max(self.ours.mean, low), high)

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold."""
        own, low_high = self.ours, self.published.ends
        return {
            "part": self.published.part,
            "contender": self.published.contender,
            "against": self.published.against,
            "what": self.published.what,
            "at": self.published.at,
            "published": list(low_high) if low_high[0] != low_high[1] else low_high[0],
            "ours": None if own is None else own.mean,
            "interval": None if own is None else [own.low, own.high],
            "seeds": 0 if own is None else own.n,
            "difference": self.difference,
            "verdict": self.verdict,
        }


def beside(board: Leaderboard | None, published: Published, judges: str) -> Beside:
    """A published figure beside what the runs of its part reached."""
    rows = {} if board is None else {row.name: row for row in board.rows}
    values = _values(rows, published)
    ours = _interval(values, published) if values else None
    if ours is None:
        asked = {published.contender, published.against or published.contender}
        return Beside(published, None, NOT_MEASURED if asked <= rows.keys() else NOT_RUN)
    return Beside(published, ours, _verdict(published, ours, judges))


def _interval(values: Sequence[float], published: Published) -> MeanInterval:
    """Of shares as leaderboards have it: within 0 to 100 %."""
    if published.against is not None or not published.is_share:
        return mean_interval(values)
    metric = METRICS.get(published.what, METRICS["accuracy"])
    found = score_interval([value / 100 for value in values], metric)
    ends = [None if end is None else 100 * end for end in (found.low, found.high)]
    return replace(found, mean=100 * found.mean, low=ends[0], high=ends[1])


def _verdict(published: Published, ours: MeanInterval, judges: str) -> str:
    if judges == "nothing" or (judges == "directions" and published.against is None):
        return NOT_COMPARABLE
    our_low, our_high = ours.low, ours.high
    if published.what == "bytes" and ours.n > 1 and our_low is None:
        our_low = our_high = ours.mean  # counted, not drawn: seeds that agree leave no doubt
    if our_low is None or our_high is None:
        return NOT_SHOWN
    low, high = published.ends
    if published.against is None:
        is_near = our_low - TOLERANCE <= high and low <= our_high + TOLERANCE
        return CONFIRMED if is_near else CONTRADICTED
    sign = (high > 0 <= low) - (low < 0 >= high)
    ends = (sign * our_low, sign * our_high)
    if min(ends) > 0:
        return CONFIRMED
    return CONTRADICTED if max(ends) < 0 else NOT_SHOWN


def _values(rows: Mapping[str, Row], published: Published) -> list[float]:
    """Over the seeds that have the number, in the figure's unit."""
    own = _by_seed(rows.get(published.contender), published)
    scale = 100.0 if published.is_share else 1.0
    if published.against is None:
        return [scale * value for value in own.values()]
    other = _by_seed(rows.get(published.against), published)
    shared = sorted(own.keys() & other.keys())
    if published.what in COSTS:
        return [100 * (1 - own[seed] / other[seed]) for seed in shared if other[seed] > 0]
    return [scale * (own[seed] - other[seed]) for seed in shared]


def _by_seed(row: Row | None, published: Published) -> dict[int, float]:
    if row is None:
        return {}
    if published.what in METRICS and published.at == 1:
        return dict(zip(row.seeds, row.measured.get(published.what, ()), strict=False))
    values = {run.seed: _value(run, published) for run in row.runs}
    return {seed: value for seed, value in values.items() if value is not None}


def _value(run: Run, published: Published) -> float | None:
    """The number of one run, at the time the figure is of; None where it was not measured."""
    if run.result is None or not run.metrics:
        return None
    if published.what == "seconds":
        return run.result.seconds
    if published.what == "bytes":
        return float(run.result.bytes_up + run.result.bytes_down)
    if published.what == OVER_GROUPS:
        parts = next(iter(run.result.per_group.values()), {})
        return sum(parts.values()) / len(parts) if parts else None
    until = max(1, round(published.at * len(run.metrics)))
    for metrics in reversed(run.metrics[:until]):  # the last round that was evaluated by then
        if published.what == LARGEST_LAMBDA:
            return max(metrics.lambda_raw.values(), default=None)
        if published.what in FROM_SERVER:
            return metrics.server.get(published.what)
        if published.what in metrics.values:
            return metrics.values[published.what]
    return None


def published_table(
    rows: Sequence[Beside], names_parts: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, for any kind of table; parts are named if several or asked for."""
    heads = ["method", "figure", "ours", "published", "ours − published", "verdict"]
    cells = [_cells(row) for row in rows]
    if names_parts or len({row.published.part for row in rows}) > 1:
        heads = [PART, *heads]
        cells = [[row.published.part, *own] for row, own in zip(rows, cells, strict=True)]
    return heads, cells


def published_markdown(rows: Sequence[Beside], names_parts: bool = False) -> str:
    """The table as Markdown."""
    return pipe_table(*published_table(rows, names_parts))


def _cells(row: Beside) -> list[str]:
    figure, ours = row.published, row.ours
    decimals = 2 if figure.is_share or figure.what in COSTS else 3
    low, high = (_number(end, decimals) for end in figure.ends)
    text = NOTHING
    if ours is not None:
        text = _number(ours.mean, decimals)
        if ours.low is not None and ours.high is not None:
            text += f" [{_number(ours.low, decimals)}, {_number(ours.high, decimals)}]"
    return [
        figure.contender,
        figure.words,
        text,
        low if low == high else f"{low} to {high}",
        NOTHING if row.difference is None else _number(row.difference, decimals),
        row.verdict,
    ]


def _number(value: float, decimals: int) -> str:
    """Fixed, but for what runs away by orders of magnitude."""
    return f"{value:.2g}" if abs(value) >= 1e5 else fixed(value, decimals)
