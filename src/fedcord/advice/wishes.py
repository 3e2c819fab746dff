"""What a method must do beside being accurate, and which measured ones do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedcord.advice.evidence import Evidence, Form, Measured, On, Setting
from fedcord.advice.measures import Measures

NOTHING_SENT = ("local", "local-ridge")


@dataclass(frozen=True)
class Wishes:
    """What a method must do beside being accurate.

    Attributes:
        max_bytes: of the whole run, all clients, up and down.
        max_rounds: exchanges between clients and server.
        personal: models are for clients' own data, not for everybody's.
        mixed_networks: clients have different networks.
        private: the server may read sums of updates only.
    """

    max_bytes: int | None = None
    max_rounds: int | None = None
    personal: bool = False
    mixed_networks: bool = False
    private: bool = False

    @property
    def on(self) -> On:
        """What counts."""
        return "own" if self.personal else "common"


Fits = Callable[[Measured, Setting], bool]


def fits_of(situation: Measures, wishes: Wishes) -> Fits:
    """Whether a measured method, with the setting it was measured in, does what is wished."""

    def fits(row: Measured, setting: Setting) -> bool:
        size = expected_bytes(row, setting, situation)
        return (
            wishes.on in row.figures
            and (wishes.max_rounds is None or row.exchanges <= wishes.max_rounds)
            and (wishes.max_bytes is None or (size is not None and size <= wishes.max_bytes))
            and wishes.mixed_networks == (len(row.model) > 1)
            and (wishes.personal or row.form.algorithm not in NOTHING_SENT)
            and (not wishes.private or row.masked == "all" or row.form.algorithm in NOTHING_SENT)
        )

    return fits


def expected_bytes(row: Measured, setting: Setting, situation: Measures) -> float | None:
    """What the run moved, scaled up to the clients here; at least that, as some grow faster.

    With fewer clients than the study had, what was measured stays: nobody has counted less.
    """
    if row.form.algorithm in NOTHING_SENT:
        return 0.0
    if row.bytes is None:
        return None
    return row.bytes * max(1.0, situation.clients / setting.measures.clients)


def left_out(
    wishes: Wishes, near: list[str], evidence: Evidence
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Algorithms of which nobody recorded the bytes, and those that masks cover in part only."""
    rows = [r for r in evidence.methods if r.setting in near and wishes.on in r.figures]
    recorded = {row.form.algorithm for row in rows if row.bytes is not None}
    silent = {row.form.algorithm for row in rows} - recorded - set(NOTHING_SENT)
    partly = {row.form.algorithm for row in rows if row.masked == "part"}
    return (
        tuple(sorted(silent)) if wishes.max_bytes is not None else (),
        tuple(sorted(partly)) if wishes.private else (),
    )


def least_moved(
    situation: Measures, wishes: Wishes, near: list[Setting], evidence: Evidence
) -> tuple[Form, float] | None:
    """What moved least near the situation, where that was asked for; None where nobody knows."""
    fits = fits_of(situation, replace(wishes, max_bytes=None))
    found = [
        (size, row.form.words, row.form)
        for setting in near
        for row in evidence.methods
        if row.setting == setting.name and fits(row, setting)
        if (size := expected_bytes(row, setting, situation)) is not None
    ]
    if wishes.max_bytes is None or not found:
        return None
    size, _, form = min(found, key=lambda one: one[:2])
    return form, size
