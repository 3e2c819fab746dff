"""What an algorithm says of itself holds, and is said in the agreed form."""

from __future__ import annotations

from collections.abc import Iterator

from fedcord.checks.compare import difference
from fedcord.checks.subject import Subject
from fedcord.core.contract import Review
from fedcord.core.declaration import declaration_problems


def declared(subject: Subject) -> Iterator[str]:
    """Every trait has its verbs, every verb its trait, and `review` lets the tiny task pass.

    What is announced happens, too: a client that personalises has something of its own then.
    """
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
    if not review.errors and subject.algorithm.traits.personalizes:
        walk = subject.walk()
        before = {client: result.memory for client, result in walk.steps[-1].results.items()}
        if all(difference(made, before[client]) is None for client, made in walk.personal.items()):
            yield (
                "announces the trait personalizes, but personalize leaves every client as it was; "
                "say personalizes=False for parameters with which nothing is made."
            )
