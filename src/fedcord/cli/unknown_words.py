"""What to say about words of a command line that the command does not know."""

from __future__ import annotations

import argparse
import contextlib
import difflib
from collections.abc import Iterable, Sequence

from fedcord.core.errors import ConfigError, any_of, shown


def unknown_words(
    words: Sequence[str], arguments: argparse.Namespace, flags: Iterable[str]
) -> list[str]:
    """One sentence per word, with the parameter or flag that was probably meant.

    Args:
        words: what argparse left over, in order.
        arguments: what it understood.
        flags: all that the command has.
    """
    problems = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            problems.append(f"{shown(word)} is not expected here")
            continue
        flag, equals, value = word.partition("=")
        if not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        name = flag.lstrip("-")
        key = _parameter(name, arguments)
        if key is not None:
            problems.append(
                f"unknown flag {shown(flag)}; the algorithm's parameter is set by "
                f"--set {key}={value or 'VALUE'}"
            )
        else:
            near = difflib.get_close_matches(name[:80], [f.lstrip("-") for f in flags], n=3)
            hint = f"; did you mean {any_of([f'--{n}' for n in near])}?" if near else ""
            problems.append(f"unknown flag {shown(flag)}{hint}")
    see = f"See 'fedcord {arguments.command} --help'."
    return [f"{problem}{'' if problem.endswith('?') else '.'} {see}" for problem in problems]


def _parameter(name: str, arguments: argparse.Namespace) -> str | None:
    """The parameter of that name as `--set` wants it, if an algorithm of the command has one."""
    from fedcord.algorithms.registry import algorithm_class
    from fedcord.core.params import parameters_like

    single = getattr(arguments, "algorithm", None)  # a command that names studies has neither
    algorithms = getattr(arguments, "algorithms", None) or ([single] if single else [])
    if not hasattr(arguments, "assignments") or not name:
        return None
    keys: dict[str, str] = {}
    for algorithm in algorithms:
        with contextlib.suppress(ConfigError):  # told once this mistake is corrected
            own = parameters_like(algorithm_class(algorithm), name)
            keys |= {algorithm: own[0]} if own else {}
    if len(keys) in (0, len(algorithms)):
        return next(iter(keys.values()), None)
    algorithm, key = next(iter(keys.items()))
    return f"{algorithm}:{key}"  # the others would refuse it
