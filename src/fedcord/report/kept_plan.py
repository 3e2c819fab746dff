"""The plan on a page that is written again: once where it is the same, else once for each part.

A page tells the plan with the standing of the part that was begun first, and of other parts what
differs from that. So every part's standing can be read back, those of this sitting take their new
one, and all are told anew. The earlier first run of a part counts: it is the hardest on the plan.
Parts whose plans differ have blocks of their own, all but the first under their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedcord.report.planned import PLANNED, TITLE, WRITTEN

OTHERWISE, NOTHING = "ot as planned: ", "nothing."
"""Before what was done otherwise: capital at the end of a plan, not so in a line about a part."""
_PREFIX = f"{TITLE}. "
_STANDING = re.compile(r".*?first run(?!:) (not recorded|\S+?)\)?\.(?=\s|$)", re.DOTALL)


@dataclass(frozen=True)
class _Own:
    """How a part stands to its plan.

    Attributes:
        standing: whether this may be called a plan, and why.
        otherwise: what was not done as planned; may be empty.
    """

    standing: str
    otherwise: str

    @property
    def first_run(self) -> str:
        """When it began, as ISO 8601; before everything where that was not recorded."""
        found = _STANDING.fullmatch(self.standing)
        return "" if found is None or found[1] == "not recorded" else found[1]

    @property
    def is_planned(self) -> bool:
        return self.standing.startswith(PLANNED)


@dataclass(frozen=True)
class _Block:
    """A plan and the parts that have it.

    Attributes:
        text: of the plan, with all that stands around the standing.
        lead: of the part that is told first.
        owns: by part, in the order of the study.
    """

    text: tuple[str, str]
    lead: _Own
    owns: Mapping[str, _Own]

    def is_same(self, other: _Block) -> bool:
        """Whether only parts, standings' dates and what was done otherwise differ."""
        return (self.text, _undated(self.lead)) == (other.text, _undated(other.lead))

    def paragraphs(self) -> list[str]:
        """As `reproduction_page` tells it."""
        first = min(
            self.owns.values(),
            key=lambda own: (own.first_run, own.otherwise != self.lead.otherwise),
        )
        before, after = self.text
        more = f" N{OTHERWISE}{first.otherwise}" if first.otherwise else ""
        lines = [f"{before}{first.standing}{after}{more}"]
        lines += [
            f"{part}: {own.standing}"
            for part, own in self.owns.items()
            if own.is_planned != first.is_planned
        ]
        return lines + [
            f"{part}, n{OTHERWISE}{own.otherwise or NOTHING}"
            for part, own in self.owns.items()
            if own.otherwise != first.otherwise
        ]


def merged_plans(
    old: str | None,
    new: str | None,
    before: Sequence[str],
    here: Sequence[str],
    parts: Sequence[str],
) -> str | None:
    """The section's content; None where no part has a plan.

    Args:
        old: of the page before; None where it had none.
        new: of this sitting, likewise.
        before: parts that were on the page.
        here: parts of this sitting.
        parts: all of the study, in its order.
    """
    blocks = list[_Block]()
    fresh = [] if new is None else _read(new, here)
    for block in [] if old is None else _read(old, before):
        same = next((own for own in fresh if own.is_same(block)), None)
        owns = {part: own for part, own in block.owns.items() if part not in here}
        if same is not None:
            fresh.remove(same)
            owns |= {part: _earlier(own, block.owns.get(part)) for part, own in same.owns.items()}
        if owns:
            blocks.append(replace(block, owns={part: owns[part] for part in parts if part in owns}))
    blocks += fresh
    planned = [part for block in blocks for part in block.owns]
    lines = []
    for block in blocks:
        is_plain = block is blocks[0] and set(planned) == {*before, *here}
        lines += [] if is_plain else [f"{', '.join(block.owns)}:"]
        lines += block.paragraphs()
    return "\n" + "\n\n".join(lines) + "\n" if lines else None


def _read(text: str, shown: Sequence[str]) -> list[_Block]:
    """The blocks of a section; one without names is of all parts that no other block names."""
    labels = {f"{', '.join(names)}:": names for names in _subsets(text, shown)}
    found: list[tuple[Sequence[str], list[str]]] = [((), [])]
    for paragraph in text.strip("\n").split("\n\n"):
        if paragraph in labels:
            found.append((labels[paragraph], []))
        else:
            found[-1][1].append(paragraph)
    named = {part for names, _ in found for part in names}
    rest = [part for part in shown if part not in named]
    return [_block(lines, names or rest) for names, lines in found if lines]


def _subsets(text: str, shown: Sequence[str]) -> list[list[str]]:
    """Parts that have a block under their names."""
    lines = [line[:-1].split(", ") for line in text.splitlines() if line.endswith(":")]
    return [names for names in lines if set(names) <= set(shown)]


def _block(paragraphs: Sequence[str], parts: Sequence[str]) -> _Block:
    standings, otherwise, rest = dict[str, str](), dict[str, str](), list[str]()
    for paragraph in paragraphs:
        name, _, said = paragraph.partition(": ")
        about = name.removesuffix(f", n{OTHERWISE[:-2]}")
        if about not in parts:
            rest.append(paragraph)
        elif about == name:
            standings[about] = said
        else:
            otherwise[about] = "" if said == NOTHING else said
    plan, _, off = "\n\n".join(rest).partition(f" N{OTHERWISE}")
    before = _PREFIX if plan.startswith(_PREFIX) else ""
    plan = plan.removeprefix(_PREFIX)
    match = _STANDING.match(plan)
    standing = match[0] if match is not None else ""
    lead = _Own(standing, off)
    owns = {part: _Own(standings.get(part, standing), otherwise.get(part, off)) for part in parts}
    return _Block((before, plan.removeprefix(standing)), lead, owns)


def _earlier(own: _Own, before: _Own | None) -> _Own:
    """With the standing it had, where its first run was earlier then."""
    if before is None or own.first_run <= before.first_run:
        return own
    return replace(own, standing=before.standing)


def _undated(own: _Own) -> str:
    standing = own.standing.removeprefix(PLANNED).removeprefix(WRITTEN)
    return standing.replace(f"first run {own.first_run}", "")
