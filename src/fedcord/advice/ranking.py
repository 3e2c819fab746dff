"""Who is ahead, over settings that did not all measure the same methods.

Scores are read as setting + method: y[s, m] = a[s] + b[m] + rest, fitted by least squares. A method
that was never measured beside another is compared with it through those that both met, as tables of
a league that is not finished are. Methods that nobody links cannot be compared at all: only those
linked with the first are ranked, which callers take from the nearest setting.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Scores = Mapping[str, Mapping[str, float]]
"""Method to setting to score."""


def effects(scores: Scores) -> dict[str, float]:
    """b[m] of the methods that are linked with the first, the best first; their mean is 0.

    >>> effects({"a": {"x": 3.0}, "b": {"x": 1.0, "y": 5.0}, "c": {"y": 4.0}, "d": {"z": 9.0}})
    {'a': 1.67, 'b': -0.33, 'c': -1.33}
    """
    group = _linked_with_first(scores)
    settings = sorted({setting for name in group for setting in scores[name]})
    if not group:
        return {}
    cells = [(name, setting) for name in group for setting in sorted(scores[name])]
    design = np.zeros((len(cells) + 1, len(group) + len(settings)))
    wanted = np.zeros(len(cells) + 1)
    for row, (name, setting) in enumerate(cells):
        design[row, group.index(name)] = design[row, len(group) + settings.index(setting)] = 1
        wanted[row] = scores[name][setting]
    design[-1, : len(group)] = 1  # their mean is 0
    found = np.linalg.lstsq(design, wanted, rcond=None)[0][: len(group)]
    rounded = {name: round(float(b), 2) for name, b in zip(group, found, strict=True)}
    return {name: rounded[name] for name in sorted(group, key=lambda name: (-rounded[name], name))}


def _linked_with_first(scores: Scores) -> list[str]:
    """Methods that settings link with the first, directly or through others."""
    group, settings = list(scores)[:1], set(next(iter(scores.values()), {}))
    while True:
        more = [n for n, own in scores.items() if n not in group and settings & own.keys()]
        if not more:
            return group
        group += more
        settings.update(*(scores[name] for name in more))
