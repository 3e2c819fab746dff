"""Write the reference pages that restate tables of the code.

    python docs/generate_reference.py

Names, defaults and ranges are read from the registries and from the command line's own parsers, so
a page cannot say something else than the program does. A test compares the committed pages with
what this script makes.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import ALGORITHMS, algorithm_class, is_algorithm
from fedcord.cli.list_command import FAMILIES
from fedcord.cli.main import COMMANDS
from fedcord.core.params import build, describe, naming_of, value_of
from fedcord.data.partition import PARTITIONS
from fedcord.data.registry import DATASETS, USER_FORMATS, DatasetInfo
from fedcord.experiment.config import DEFAULT_ROUNDS, RunConfig
from fedcord.models.registry import MODELS

DOCS = Path(__file__).parent
NOTE = (
    "<!-- Made by docs/generate_reference.py from the tables in the code; do not edit by hand. -->"
)


def pages() -> dict[str, str]:
    """Every generated page by its path below `docs/`."""
    return {
        "reference-command-line.md": command_line(),
        "reference-parameters.md": parameters(),
        "reference-datasets.md": datasets(),
        "reference-partitions.md": partitions(),
        "reference-models.md": models(),
        "algorithms/README.md": algorithms(),
    }


def command_line() -> str:
    """Commands and flags, from the parsers the commands build themselves."""
    parts = [
        "# Reference: command line",
        NOTE,
        "`fedcord COMMAND …`. Every command answers `--help`. `fedcord --version` prints the "
        "version. Bad input ends with exit code 2 and one message; see "
        "[errors and exit codes](reference-errors.md).",
        table(["command", ""], [[f"[`{n}`](#fedcord-{n})", s] for n, (_, s) in COMMANDS.items()]),
    ]
    for name, (place, summary) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"fedcord {name}")
        importlib.import_module(f"fedcord.cli.{place}").add_arguments(parser)
        parts += [f"## fedcord {name}", f"{summary[0].upper()}{summary[1:]}."]
        inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not inner:
            parts += _usage(f"fedcord {name}", parser)
        for actions in inner:  # commands of its own
            said = {choice.dest: choice.help or "" for choice in actions._choices_actions}
            for word, own in actions.choices.items():
                parts += [f"### fedcord {name} {word}", f"{said[word][0].upper()}{said[word][1:]}."]
                parts += _usage(f"fedcord {name} {word}", own)
    parts += [
        "## Values",
        "`--set` takes `key=value` with the dotted names of "
        "[reference-parameters.md](reference-parameters.md). A value is read as TOML (`0.1`, "
        "`true`, `[1, 2]`); anything that is not TOML is taken as a word. In `compare`, "
        "`--set NAME:key=value` reaches one contender only.",
        "The forms of `--dataset`, `--partition` and `--model` are on "
        "[reference-datasets.md](reference-datasets.md), "
        "[reference-partitions.md](reference-partitions.md) and "
        "[reference-models.md](reference-models.md).",
    ]
    return joined(parts)


def _usage(command: str, parser: argparse.ArgumentParser) -> list[str]:
    """How a command is written, and its arguments."""
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    words = [_positional(action) for action in actions if not action.option_strings]
    rows = [[_flag(action), action.help or ""] for action in actions]
    return [
        f"`{command} {' '.join(words)}{' ' if words else ''}[flags]`",
        table(["argument", "meaning"], rows),
    ]


def parameters() -> str:
    """Settings of a run, and the parameters of every registered algorithm."""
    parts = [
        "# Reference: parameters",
        NOTE,
        "## Settings of a run",
        "The fields of a run's `config.toml`, of `[settings]` in a study file, and the keyword "
        "arguments of `fedcord.run` and `fedcord.compare`. On the command line, all but the "
        "algorithm have a flag of the same name, with dashes for underscores. On one machine with "
        "one set of package versions, they and the algorithm's parameters decide every bit of the "
        "result; the engine does not.",
        parameter_table((k, f"`{default}`", *rest) for k, default, *rest in describe(RunConfig)),
        f"`rounds` left out means {DEFAULT_ROUNDS}, or the number the method needs. In a "
        "comparison, a method that needs a certain number keeps it.",
        "## Parameters of the algorithms",
        "`--set KEY=VALUE` on the command line, `[params]` in a study file, `params={…}` in "
        "`fedcord.run`. `fedcord list algorithms NAME` prints the same. The list grows with every "
        "algorithm that is registered. A dotted name such as `local.lr` belongs to a part that "
        "several algorithms share; parts stand at the end of this page.",
    ]
    first: dict[type[Any], str] = {}
    shared: dict[str, type[Any]] = {}
    for name, info in ALGORITHMS.items():
        cls = algorithm_class(name)
        chosen = build(cls, info.preset)
        rounds = "you choose" if chosen.traits.rounds is None else str(chosen.traits.rounds)
        family = FAMILIES[info.family].partition(":")[0]
        text = f"{sentence(info.summary)} Family: {family}. Rounds: {rounds}."
        parts += [f"### {name}", text]
        if cls in first:
            other = build(cls, ALGORITHMS[first[cls]].preset)
            parts.append(f"As [{first[cls]}](#{first[cls]}){_but(changes(chosen, other))}.")
            continue
        first[cls] = name
        parts += _own_parameters(chosen, shared)
    parts.append("## Parts that algorithms share")
    done: set[str] = set()
    while missing := [name for name in shared if name not in done]:  # parts may have parts
        for name in missing:
            parts += [f"### {name}", *_own_parameters(shared[name](), shared)]
            done.add(name)
    return joined(parts)


def _own_parameters(chosen: Any, shared: dict[str, type[Any]]) -> list[str]:
    """A table of plain parameters, then one line per part; new parts are noted in `shared`."""
    plain = [
        (key, f"`{getattr(chosen, key)!r}`", allowed, doc)
        for key, _, allowed, doc in describe(type(chosen))
        if "." not in key
    ]
    lines = []
    for field in dataclasses.fields(chosen):
        part = getattr(chosen, field.name)
        if is_algorithm(part) and (named_by := naming_of(field)):
            word = getattr(chosen, named_by[0])
            lines.append(
                f"- `{field.name}.…`: the parameters of the method that `{named_by[0]}` names, "
                f"such as [{word}](#{word})"
            )
        elif is_algorithm(part):
            name = next(name for name in ALGORITHMS if algorithm_class(name) is type(part))
            lines.append(f"- `{field.name}.…`: the parameters of [{name}](#{name})")
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            kind = type(part).__name__
            shared.setdefault(kind, type(part))
            but = _but(changes(part, type(part)()))
            lines.append(f"- `{field.name}.…`: [{kind}](#{kind.lower()}){but}")
    tables = [parameter_table(plain)] if plain else []
    return [*tables, "\n".join(lines)] if lines else tables or ["No parameters."]


def changes(chosen: Any, base: Any) -> dict[str, Any]:
    """Dotted names and values in which two objects of one class differ."""
    return {
        key: value_of(chosen, key)
        for key, *_ in describe(type(chosen))
        if value_of(chosen, key) != value_of(base, key)
    }


def _but(differences: dict[str, Any]) -> str:
    listed = ", ".join(f"`{key}={value!r}`" for key, value in differences.items())
    return f" with {listed}" if listed else ""


def datasets() -> str:
    """Data sets with a name, and the forms of the user's own."""

    def rows(infos: Iterable[tuple[str, DatasetInfo]]) -> list[list[str]]:
        return [
            [
                f"`{name}`",
                info.summary,
                info.kind or "as the file has",
                str(info.classes) if info.classes else "as the file has",
                info.size,
                ", ".join(f"`{option}`" for option in info.options),
                "yes" if info.download else "–",
                info.licence,
            ]
            for name, info in infos
        ]

    head = ["name", "what", "kind", "classes", "examples", "options", "`--download`", "licence"]
    own = [(f"{prefix}:PATH", info) for prefix, info in USER_FORMATS.items()]
    return joined(
        [
            "# Reference: data sets",
            NOTE,
            "`--dataset NAME` or `--dataset NAME?key=value&key=value`. How files are found, "
            "fetched and verified is told in [how-to-get-data.md](how-to-get-data.md). A dash "
            "under `--download` stands for data that come with fedcord's dependencies, are "
            "generated, or have to be fetched by hand. Licences are those of the data's authors, "
            "and whoever uses the data has to keep them.",
            "## With a name",
            table(head, rows(DATASETS.items())),
            "## Your own",
            table(head, rows(own)),
            "A Python `Dataset` object works wherever a name does; see "
            "[how-to-use-your-own-data.md](how-to-use-your-own-data.md).",
        ]
    )


def partitions() -> str:
    """Ways to spread data over clients."""
    parts = [
        "# Reference: partitions",
        NOTE,
        "`--partition NAME[:ARGUMENT][,key=value]…`. Equal data, text, number of clients and seed "
        "give equal partitions. Every partition takes the option `longtail=RHO` too: class sizes "
        "then fall geometrically by the factor RHO from the first class to the last before the "
        "examples are distributed (`--longtail RHO` is the same). And every one without overlap "
        "takes `examples=iid`: clients have the sizes that they would have, and hold random "
        "examples instead, a control that tells label skew from unequal sizes. Pictures are in "
        "[explanation-heterogeneity.md](explanation-heterogeneity.md).",
        table(
            ["name", "what", "number of clients"],
            [
                [
                    f"[`{name}`](#{name})",
                    info.summary,
                    "`--clients`"
                    if info.needs_clients
                    else "`--clients`, or 0: the partition decides",
                ]
                for name, info in PARTITIONS.items()
            ],
        ),
    ]
    for name, info in PARTITIONS.items():
        needed = None if info.is_optional else info.argument
        rows = [
            (key, "required" if key == needed else f"`{default}`", allowed, doc)
            for key, default, allowed, doc in describe(info.kind)
        ]
        parts += [
            f"## {name}",
            f"Form: `{info.form}`. Example: `{info.example}`.",
            parameter_table(rows) if rows else "No parameters.",
        ]
    return joined(parts)


def models() -> str:
    """Networks by name."""
    parts = [
        "# Reference: models",
        NOTE,
        "`--model NAME[:ARGUMENT][,key=value]…`. Given several times, models are distributed to "
        "the clients in turn. All networks draw their weights from the run's seed. Stages are what "
        "[accord](algorithms/accord.md) can show its head beside the features (`joint.layers`).",
        table(
            ["name", "what", "reads"],
            [
                [f"[`{name}`](#{name})", info.summary, ", ".join(info.kinds)]
                for name, info in MODELS.items()
            ],
        ),
    ]
    first: dict[type[Any], str] = {}
    for name, info in MODELS.items():
        chosen = build(info.options, info.preset)
        argument = f"After the colon: {info.argument}. " if info.argument else ""
        parts += [f"## {name}", f"{argument}Example: `{info.example}`."]
        if info.builder:
            parts.append(f"Stages under its features: {info.stages or 'none'}.")
        rows = [
            (key, f"`{getattr(chosen, key)!r}`", allowed, doc)
            for key, _, allowed, doc in describe(info.options)
        ]
        if rows and info.options in first:
            other = first[info.options]
            but = _but(changes(chosen, build(info.options, MODELS[other].preset)))
            parts.append(f"Options as of [{other}](#{other}){but}.")
        else:
            first[info.options] = name
            parts.append(parameter_table(rows) if rows else "No options.")
    return joined(parts)


def algorithms() -> str:
    """The index of algorithm pages, by family."""
    parts = [
        "# Algorithms",
        NOTE,
        "Every registered algorithm; the table grows. Parameters with their defaults are on "
        "[reference-parameters.md](../reference-parameters.md).",
    ]
    for family, title in FAMILIES.items():
        rows = [
            [_page(name), info.summary]
            for name, info in ALGORITHMS.items()
            if info.family == family
        ]
        parts += [f"## {title[0].upper()}{title[1:]}", table(["name", "what"], rows)]
    return joined(parts)


def parameter_table(rows: Iterable[Sequence[str]]) -> str:
    """Rows (name, default, allowed, meaning) as a table."""
    body = [[f"`{name}`", *rest] for name, *rest in rows]
    return table(["name", "default", "allowed", "meaning"], body)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def sentence(text: str) -> str:
    """A summary as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def joined(parts: Sequence[str]) -> str:
    """Parts with an empty line between them."""
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return {"?": f"[{name}]", "+": f"{name}…"}.get(str(action.nargs), name)


def _flag(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_positional(action)}`"
    value = f" {action.metavar}" if action.metavar else ""
    return f"`{action.option_strings[-1]}{value}`"


def _page(name: str) -> str:
    exists = (DOCS / "algorithms" / f"{name}.md").is_file()
    return f"[`{name}`]({name}.md)" if exists else f"`{name}`"


def main() -> None:
    """Write every page that is not current, and say which."""
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
