"""What methods cost by rules that are the same for all: complete traffic, passes, CPU seconds.

Complete traffic leaves out first weights, which follow from the seed, and has the final model
delivered to every client. Compute is forward passes plus twice backward passes of examples, since a
backward pass costs about two forward ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from fedcord.report.fields import Fields
from fedcord.report.numbers import NOTHING, byte_size, duration, listed

TITLE = "Complete costs"
EXPLANATION = (
    "Complete traffic: what was exchanged and what personal models took, without first weights, "
    "which follow from the seed, and with what clients still lack of the final model, sent to each "
    "of them. Passes: examples, over all clients, that went forward and backward through whole "
    "networks while clients worked, views and features counted as often as they were computed, "
    "batches that are filled up to one size with what fills them; compute is forward plus twice "
    "backward. CPU: of clients and server in all rounds, without evaluations, on the machine it "
    "ran on."
)
NEAR = 0.05
"""Compute within this share of another is called equal."""
HEADINGS = (
    *("complete traffic", "of it delivery", "forward passes", "backward passes"),
    *("compute", "busiest client", "CPU"),
)


@dataclass(frozen=True)
class Cost:
    """Of one run, or a mean of several; None for what an older version did not count.

    Attributes:
        bytes: complete traffic in both directions.
        delivery: bytes of it that bring the final model to clients.
        forward: examples that passed forward, over all clients.
        backward: likewise backward.
        most: compute of the client that had most.
        cpu_seconds: of clients and server.
    """

    bytes: float | None = None
    delivery: float | None = None
    forward: float | None = None
    backward: float | None = None
    most: float | None = None
    cpu_seconds: float | None = None

    @property
    def compute(self) -> float | None:
        """Passes forward, and twice those backward."""
        if self.forward is None or self.backward is None:
            return None
        return self.forward + 2 * self.backward

    def cells(self) -> tuple[str, ...]:
        """In the order of HEADINGS."""
        counts = (self.forward, self.backward, self.compute, self.most)
        return (
            *(NOTHING if own is None else byte_size(own) for own in (self.bytes, self.delivery)),
            *(NOTHING if own is None else f"{own:,.0f}" for own in counts),
            NOTHING if self.cpu_seconds is None else duration(self.cpu_seconds),
        )

    @property
    def is_known(self) -> bool:
        """Whether anything was counted."""
        return any(getattr(self, field.name) is not None for field in fields(self))


def read_cost(reader: Fields) -> Cost:
    """Of a `result.json`."""
    traffic = Fields(reader.path, reader.table("complete_traffic"))
    work = Fields(reader.path, reader.table("work"))
    cost = Cost()
    if traffic.values:
        total = traffic.whole("up") + traffic.whole("down")
        cost = Cost(bytes=total, delivery=traffic.whole("delivery"))
    if not work.values:
        return cost
    most = work.whole("most_forward") + 2 * work.whole("most_backward")
    counts = work.whole("forward"), work.whole("backward"), most
    return Cost(cost.bytes, cost.delivery, *counts, work.number_or_none("cpu_seconds"))


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """Part by part; a mean over some of the runs would stand beside means over all."""
    found = {}
    for field in fields(Cost):
        values = [getattr(cost, field.name) for cost in costs]
        known = [value for value in values if value is not None]
        found[field.name] = sum(known) / len(known) if known and known == values else None
    return Cost(**found)


def cost_table(costs: Sequence[tuple[str, Cost]]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows."""
    return ["algorithm", *HEADINGS], [[name, *cost.cells()] for name, cost in costs]


def compute_sentence(costs: Sequence[tuple[str, Cost]]) -> str:
    """Who computes as much as the first, and who more or less; empty where that is not known."""
    known = [(name, cost.compute) for name, cost in costs if cost.compute]
    if len(known) < 2:
        return ""
    first, level = known[0]
    assert level is not None
    ratios = {name: compute / level for name, compute in known[1:] if compute is not None}
    equal = [name for name, ratio in ratios.items() if abs(ratio - 1) <= NEAR]
    others = [f"{name} {ratio:.2g} times" for name, ratio in ratios.items() if name not in equal]
    sentence = f"Compute within {NEAR:.0%} of that of {first}: {listed(equal) if equal else 'none'}"
    return f"{sentence}; {listed(others)} as much." if others else f"{sentence}."
