"""From where on methods that have rounds are better than one that is finished.

A method of one exchange is a point, and one with rounds is a curve that may pass above it. Where it
does is told in complete traffic and in client compute.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.errors import ConfigError
from fedcord.metrics.registry import METRICS
from fedcord.report.bounds import bounds, without
from fedcord.report.course import course
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import NOTHING, byte_size, listed
from fedcord.report.row import Row
from fedcord.report.scores import score, score_heading, with_interval
from fedcord.report.tables import pipe_table


@dataclass(frozen=True)
class Overtaking:
    """When one method with rounds is first above the finished one.

    Attributes:
        name: the method's.
        final: its mean after all rounds.
        rounds: how many that is.
        first: round of the first evaluation above, in means; None where there is none.
        by_seed: the same for every seed that both have, against the finished one's result on it.
        stays: whether all evaluations from then on are above.
        num_bytes: complete traffic up to then.
        compute: client compute up to then.
    """

    name: str
    final: float
    rounds: int
    first: int | None
    by_seed: tuple[int | None, ...]
    stays: bool
    num_bytes: float | None
    compute: float | None


@dataclass(frozen=True)
class OvertakingTable:
    """All methods with rounds, the best after all of them first.

    Attributes:
        metric: name of what is compared.
        against: the finished method.
        level: its score in words.
        num_bytes: its complete traffic.
        compute: its client compute.
        rows: the others.
    """

    metric: str
    against: str
    level: str
    num_bytes: float
    compute: float
    rows: tuple[Overtaking, ...]

    def to_markdown(self) -> str:
        """A pipe table with what it is below."""
        metric = METRICS[self.metric]
        head = ["algorithm", f"last {score_heading(metric, ',')}", "first above after", "by seed"]
        head += ["complete traffic then", "ratio", "compute then", "ratio", "stays above"]
        table = pipe_table(head, [self._cells(own, score(own.final, metric)) for own in self.rows])
        below = (
            f"First above: the first evaluation at which the mean test {metric.words} is better "
            f"than the final one of {self.against}, {self.level}; by seed, the round for each seed "
            f"against {self.against} on the same. Ratios are to {self.against}, which has complete "
            f"traffic of {byte_size(self.num_bytes)} and compute of {self.compute:,.0f} (passes "
            "forward and twice those backward, all clients). Rounds are those that were evaluated; "
            "that curves of the test set cross there describes them and is no choice of a round."
        )
        return f"{table}\n\n{below}\n"

    def _cells(self, own: Overtaking, final: str) -> list[str]:
        if own.first is None or own.num_bytes is None or own.compute is None:
            first = f"not in {own.rounds} rounds"
            cost = [NOTHING] * 5
        else:
            first = f"{own.first} rounds"
            cost = [byte_size(own.num_bytes), _ratio(own.num_bytes, self.num_bytes)]
            cost += [f"{own.compute:,.0f}", _ratio(own.compute, self.compute)]
            cost += ["yes" if own.stays else "no"]
        by_seed = ", ".join(NOTHING if seed is None else str(seed) for seed in own.by_seed)
        return [own.name, final, first, by_seed, *cost]


def overtaking(board: Leaderboard, name: str) -> OvertakingTable:
    """Find where the curves of a board pass above one of its methods.

    Args:
        board: the methods.
        name: the finished one.
    """
    finished, others = contenders(board, name)
    at_end = course(finished)
    results = dict(zip(finished.seeds, finished.values, strict=True))
    return OvertakingTable(
        board.metric.name,
        name,
        with_interval(finished.score, board.metric),
        at_end.complete[-1],
        at_end.compute[-1],
        tuple(_overtaking(row, finished.score.mean, results) for row in others),
    )


def contenders(board: Leaderboard, name: str) -> tuple[Row, tuple[Row, ...]]:
    """The finished method, and those with rounds that could pass it; both must have their costs."""
    rows = without(board, bounds(board))
    found = [row for row in rows if row.name == name]
    if not found:
        allowed = listed([row.name for row in rows])
        raise ConfigError(f"--against {name}: there is no such algorithm here; allowed: {allowed}.")
    others = tuple(row for row in rows if row.name != name and len(course(row).rounds) > 1)
    if not others:
        raise ConfigError(
            f"no algorithm but {name} was evaluated in several rounds, so nothing can overtake it; "
            "run with --evaluate-every N."
        )
    unknown = [own.name for own in (*found, *others) if None in (own.cost.bytes, own.cost.compute)]
    if unknown:
        raise ConfigError(
            f"complete traffic and passes of {listed(unknown)} were not counted, because the runs "
            "are of an older version; run them again."
        )
    return found[0], others


def _overtaking(row: Row, level: float, results: dict[int, float]) -> Overtaking:
    own, sign = course(row), row.metric.sign
    above = [sign * (mean - level) > 0 for mean in own.means]
    place = above.index(True) if True in above else None
    by_seed = []
    for seed in sorted(set(row.seeds) & results.keys()):
        better = [sign * (values[seed] - results[seed]) > 0 for values in own.values]
        by_seed.append(own.rounds[better.index(True)] if True in better else None)
    return Overtaking(
        row.name,
        row.score.mean,
        own.rounds[-1],
        None if place is None else own.rounds[place],
        tuple(by_seed),
        place is not None and all(above[place:]),
        None if place is None else own.complete[place],
        None if place is None else own.compute[place],
    )


def _ratio(cost: float, base: float) -> str:
    if not base:
        return NOTHING
    return f"{cost / base:.2g}" if cost < 100 * base else f"{cost / base:,.0f}"
