"""What an algorithm says of itself holds, and is said in the agreed form."""

from __future__ import annotations

from collections.abc import Iterator

from fedcord.checks.subject import Subject
from fedcord.core.contract import Review
from fedcord.core.declaration import declaration_problems


def declared(subject: Subject) -> Iterator[str]:
    """Every trait has its verbs, every verb its trait, and `review` lets the tiny task pass."""
    problems = declaration_problems(subject.algorithm)
    yield from problems
    if problems:
        return
    review: object = subject.fresh().review(subject.task)
    if not isinstance(review, Review):
        yield f"review returned {type(review).__name__}, not Review; return Review(errors, notes)."
        return
    for texts, name in ((review.errors, "errors"), (review.notes, "notes")):
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            yield f"review returned {name} = {texts!r}, which is no tuple of texts; write ('…',)."
            return
    yield from (f"review refuses this task: {error}" for error in review.errors)
