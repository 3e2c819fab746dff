"""Notes of many runs as few lines: what differs in numbers only is said once, with who it is of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedcord.core.names import client_said
from fedcord.report.load import Run
from fedcord.report.numbers import counted, listed

ONE = r"(?:'[^']*' \(\d+\)|\d[\d.e+-]*)"
NUMBERS = rf"{ONE}(?:, {ONE})*(?: and \d+ more)?"
"""A number, a client with its name, or a list of them, however long."""

REFUSED = "an update was refused: "

EPSILON = re.compile("ε|epsilon")
"""A statement of privacy has it, and is never shortened: what it does not cover is half of it."""

MOST_NAMES = 2
"""More methods than this are counted instead of named."""


@dataclass(frozen=True)
class Note:
    """A remark about one run.

    Attributes:
        name: of the method.
        seed: of the run.
        text: what is to be said.
    """

    name: str
    seed: int
    text: str


def gathered(notes: Iterable[Note]) -> tuple[str, ...]:
    """One line for all notes that are alike but for numbers.

    >>> gathered([Note("fedavg", 0, "client 1 is empty"), Note("fedavg", 1, "client 7 is empty")])
    ('fedavg, 2 seeds: client 1 is empty (seed 0; other numbers elsewhere).',)
    """
    alike: dict[str, list[Note]] = {}
    for note in notes:
        alike.setdefault(re.sub(NUMBERS, "0", note.text), []).append(note)
    return tuple(_line(own) for own in alike.values())


def in_one_line(notes: Sequence[Note], where: str) -> tuple[str, ...]:
    """All notes as one line with a count, or none; statements of privacy in full before it.

    Args:
        notes: what runs noted.
        where: what has all of them.

    >>> notes = [Note("fedavg", 0, "client 1 is empty"), Note("fedavg", 0, "one class is rare")]
    >>> in_one_line(notes, "result.json")
    ('2 notes of 1 run, of 2 kinds, such as fedavg, seed 0: client 1 is empty. All: result.json.',)
    """
    private = gathered(note for note in notes if EPSILON.search(note.text))
    notes = [note for note in notes if not EPSILON.search(note.text)]
    kinds = gathered(notes)
    if len(kinds) < 2:
        return private + kinds
    runs = {(note.name, note.seed) for note in notes}
    return (
        *private,
        f"{counted(len(notes), 'note')} of {counted(len(runs), 'run')}, of {len(kinds)} kinds, "
        f"such as {kinds[0]} All: {where}.",
    )


def recorded_notes(run: Run) -> list[Note]:
    """What a run itself noted: about its data at the start, and while it ran."""
    texts = list(run.result.notes) if run.result is not None else []
    texts += [note for entry in run.metrics for note in entry.notes]
    names = run.partition.names if run.partition is not None else {}
    for entry in run.metrics:
        texts += went_wrong(entry.refused, entry.missing, entry.events, names)
    return [Note(run.name, run.seed, text) for text in texts]


def went_wrong(
    refused: Iterable[str],
    missing: Mapping[int, str],
    events: Iterable[str],
    names: Mapping[int, str],
) -> list[str]:
    """What a round has to say of answers that did not count."""
    texts = [f"{REFUSED}{reason}" for reason in refused]
    texts += [f"{client_said(client, names)} was {why}" for client, why in missing.items()]
    return [*texts, *events]


def _line(notes: list[Note]) -> str:
    first, texts = notes[0], {note.text for note in notes}
    text = first.text.rstrip(".")
    names, seeds = {note.name for note in notes}, {note.seed for note in notes}
    if len(names) * len(seeds) == 1 and len(texts) > 1:
        text += f" (and {len(texts) - 1} more like it)"
    elif len(texts) > 1:
        of = [first.name] * (len(names) > 1) + [f"seed {first.seed}"] * (len(seeds) > 1)
        text += f" ({', '.join(of)}; other numbers elsewhere)"
    return f"{_who(notes)}: {text}."


def _who(notes: list[Note]) -> str:
    """Methods and seeds, as a grid where they are one."""
    names = list(dict.fromkeys(note.name for note in notes))
    seeds = sorted({note.seed for note in notes})
    runs = {(note.name, note.seed) for note in notes}
    methods = listed(names) if len(names) <= MOST_NAMES else counted(len(names), "method")
    if len(runs) < len(names) * len(seeds):
        return f"{methods}, {counted(len(runs), 'run')}"
    if len(seeds) == 1:
        return f"{methods}, seed {seeds[0]}"
    return f"{methods}{', ' if len(names) == 1 else ' × '}{counted(len(seeds), 'seed')}"
