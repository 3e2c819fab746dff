"""Networks lose, repeat and reorder; a run goes on, or says why it cannot."""

from __future__ import annotations

from collections.abc import Iterator

from fedcord.checks.compare import difference
from fedcord.checks.faulty_transport import FaultPlan, FaultyTransport
from fedcord.checks.subject import Outcome, Subject
from fedcord.core.errors import FedcordError
from fedcord.engine.patience import Patience

REPEATED = FaultPlan(seed=1, duplicate=0.5, reorder=True)
LOSING = {
    "drops a third of the answers": FaultPlan(seed=2, drop=0.34, spared=(0,)),
    "delays a third of the answers": FaultPlan(seed=3, delay=0.34, spared=(0,)),
    "garbles a third of the answers": FaultPlan(seed=4, corrupt=0.34, spared=(0,)),
}
"""Some answers are lost; client 0's never, so that every round has one."""


def faults(subject: Subject) -> Iterator[str]:
    """Answers that come twice or in any order change no bit; lost ones stop nothing silently."""
    wanted, found = subject.run(), _run(subject, REPEATED)
    gap = difference(found.checkpoint.tensors(), wanted.checkpoint.tensors())
    if gap is not None:
        yield (
            "when answers come twice and in another order the run ends elsewhere: "
            f"{gap}; use nothing but what aggregate is given, in the order it is given."
        )
    for what, plan in LOSING.items():
        try:
            _run(subject, plan)
        except FedcordError as error:
            if not str(error).strip():
                yield f"a network that {what} ends the run without a word."
        except Exception as error:  # an absent client must not look like a bug
            yield (
                f"a network that {what} led to {type(error).__name__}: {error}; let aggregate do "
                "with those who are there, or raise a ProtocolError that says why it cannot."
            )


def _run(subject: Subject, plan: FaultPlan) -> Outcome:
    return subject.run(
        transport=lambda method: FaultyTransport(subject.sequential(method), plan),
        patience=Patience(quorum=0.0),
    )
