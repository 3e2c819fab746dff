"""Make the table that `fedcord advise` reads, from the committed results pages.

    python -m studies.make_evidence
    python -m studies.make_evidence --measure --data-dir DIR   # first measure partitions anew

The table is `src/fedcord/advice/evidence.json`.
Figures come from the tables of `studies/results/*.md`, forms of methods from the study files, and
how different clients were from `studies/heterogeneity.json`, which `--measure` makes from the data
itself. A table that has changed its shape stops the script; a test compares the committed file with
what it makes.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from studies.evidence_pages import SAME_AS, SETTINGS, TABLES, Setting, Table

from fedcord.advice.measures import DIFFERENCES, measures_of
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.checks.tiny_task import task_from_values
from fedcord.core.atomic import write_output
from fedcord.data.registry import load_dataset
from fedcord.experiment.compare import Study, load_study
from fedcord.experiment.config import RunConfig, partition_of
from fedcord.experiment.load import load_config
from fedcord.experiment.masking import maskable_rounds
from fedcord.experiment.named_study import named_study
from fedcord.experiment.named_study import names as named_studies

STUDIES = Path(__file__).parent
RESULTS, MEASURED = STUDIES / "results", STUDIES / "heterogeneity.json"
EVIDENCE = STUDIES.parent / "src/fedcord/advice/evidence.json"
TRAINING = ("local", "plain", "checkpoints", "epochs")
"""Parameters that say how long and by which steps, not which form of a method was meant."""
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
FROZEN = "frozen:"
NUMBER = r"[−+-]?\d[\d,]*(?:\.\d+)?"


def main() -> None:
    """Write what changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--data-dir", action="append", type=Path)
    arguments = parser.parse_args()
    if arguments.measure:
        values = {setting.name: measured(setting, arguments.data_dir) for setting in SETTINGS}
        write_output(MEASURED, json.dumps(values, indent=1) + "\n")
    write_output(EVIDENCE, evidence_text())


def evidence_text() -> str:
    """The file, one row per line, so that a change of a page is a change of its lines."""
    settings, rows, comparisons = evidence()
    parts = {"settings": settings, "methods": rows, "comparisons": comparisons}
    blocks = [
        f'"{name}": [\n'
        + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        + "\n]"
        for name, entries in parts.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def measured(setting: Setting, data_dirs: list[Path] | None) -> dict[str, Any]:
    """How different the clients of a setting were, the mean over its seeds."""
    configs = [replace(first_config(setting), seed=seed) for seed in setting.seeds]
    dataset = load_dataset(configs[0].dataset, data_dirs=data_dirs)
    found = []
    for config in configs:
        counts = partition_of(config, dataset).counts(dataset.train.labels, dataset.num_classes)
        found.append(measures_of(counts, dataset.kind, config.partition))
    means = {name: fmean(getattr(one, name) for one in found) for name in DIFFERENCES}
    rounded: dict[str, Any] = {name: round(value, 4) for name, value in means.items()}
    return asdict(replace(found[0], examples=round(fmean(o.examples for o in found)), **rounded))


def evidence() -> tuple[list[Any], list[Any], list[Any]]:
    """Settings, methods with their figures, and paired comparisons."""
    known = json.loads(MEASURED.read_text(encoding="utf-8"))
    settings = [_setting(setting, known[setting.name]) for setting in SETTINGS]
    by_name = {setting.name: setting for setting in SETTINGS}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    comparisons: list[dict[str, Any]] = []
    for table in TABLES:
        text = (RESULTS / table.page).read_text(encoding="utf-8")
        heading, header, body = table_below(text, table.heading, table.page)
        source = f"studies/results/{table.page}#{anchor(heading)}"
        for setting, label, values in _stated_in(heading, table):
            rows[setting, label] = _method(by_name[setting], label, source) | values
        for cells in body:
            said = plain_words(cells[0])
            if said in table.skip:
                continue
            # after a colon, what it is; in brackets, a mark such as "below a constant answer"
            label = table.labels.get(said, re.split(r":| \(", said)[0])
            row = _Row(header, cells, f"{table.page}, {heading}, {said}")
            for score in table.scores:
                own = rows.setdefault(
                    (score.setting, label), _method(by_name[score.setting], label, source)
                )
                if label not in score.skip:
                    own.setdefault(score.on, row.interval(score.column))
                if table.bytes_column is not None:
                    own["bytes"] = row.bytes(table.bytes_column)
            comparisons += _comparisons(table, label, row, source)
    return settings, list(rows.values()), comparisons


def _comparisons(table: Table, label: str, row: _Row, source: str) -> list[dict[str, Any]]:
    found = []
    for versus in table.versus:
        cell = row.cell(versus.column)
        if label in (versus.reference, *versus.skip) or cell in ("", "baseline"):
            continue
        middle, low, high = row.interval(versus.column)
        if low is None or high is None:
            raise ValueError(f"{row.place}: a difference without an interval.")
        ends = sorted((versus.sign * low, versus.sign * high))
        p = None if versus.p_column is None else row.p_value(versus.p_column)
        found.append(
            {
                "settings": list(versus.settings),
                "on": versus.on,
                "label": label,
                "versus": versus.reference,
                "points": versus.sign * middle,
                "low": ends[0],
                "high": ends[1],
                "p": p,
                "source": source,
            }
        )
    return found


def _setting(setting: Setting, known: Mapping[str, Any]) -> dict[str, Any]:
    config = first_config(setting)
    return {
        "name": setting.name,
        "dataset": config.dataset.partition("?")[0],
        "partition": config.partition,
        "longtail": config.longtail,
        "seeds": len(setting.seeds),
        "measures": known,
    }


def _method(setting: Setting, label: str, source: str) -> dict[str, Any]:
    """What was run under that label, by the study file and the method's own declaration."""
    config = contenders(setting).get(label)
    if config is None:
        raise ValueError(f"{source}: '{label}' is no contender of the study '{setting.study}'.")
    traits = config.method.traits
    algorithm, form = _named_form(config)
    if (setting.name, label) in SAME_AS:
        algorithm, form = SAME_AS[setting.name, label], {}
    if form.get("selection.max_encoders", 0) >= config.clients:  # everybody's: the plain form
        form = {name: value for name, value in form.items() if not name.startswith("selection.")}
    frozen = [name.removeprefix(FROZEN) for name in config.model if name.startswith(FROZEN)]
    published = form.get("joint.public") or (traits.looks_through_network and "".join(frozen))
    probes = config.params.get("checkpoints", 1) if traits.probes is not None else 1
    masked = maskable_rounds(config.method, task_from_values({"name": "images"}), config)
    return {
        "setting": setting.name,
        "label": label,
        "algorithm": algorithm,
        **({"params": form} if form else {}),
        **({"published": published} if published else {}),
        "model": list(config.model),
        "exchanges": 1 if probes > 1 else config.rounds,
        "masked": "all" if all(masked) else "part" if any(masked) else "none",
        "source": source,
    }


def _named_form(config: RunConfig) -> tuple[str, dict[str, Any]]:
    """The algorithm and what makes the form; by a name that says more of it, where there is one."""
    own = dict(_dotted(config.params))
    given = _usual(config.algorithm)
    forms = {config.algorithm: _form(own, config.algorithm)}
    path = ALGORITHMS[config.algorithm].path
    for name in (other for other, info in ALGORITHMS.items() if info.path == path):
        says = {key: value for key, value in _usual(name).items() if given.get(key) != value}
        if _usual(name).keys() <= own.keys() and says.items() <= own.items():
            forms[name] = _form(own, name)
    name = min(forms, key=lambda name: len(forms[name]))
    return name, forms[name]


def _form(own: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """The parameters that are not as the algorithm has them by itself."""
    usual = _usual(algorithm)
    found = {name: value for name, value in own.items() if usual.get(name) != value}
    return {name: value for name, value in found.items() if name.partition(".")[0] not in TRAINING}


@functools.cache
def _usual(algorithm: str) -> dict[str, Any]:
    return dict(_dotted(load_config({"algorithm": algorithm}).params))


def _dotted(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        inner = _dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else None
        found += [(f"{prefix}{name}", value)] if inner is None else inner
    return found


def contenders(setting: Setting) -> Mapping[str, RunConfig]:
    """Every method of the study as it was configured in this setting."""
    return _contenders(setting.name)


@functools.cache
def _contenders(name: str) -> Mapping[str, RunConfig]:
    (setting,) = (setting for setting in SETTINGS if setting.name == name)
    if setting.study in named_studies():
        return _small(setting.study)[setting.part].contenders
    return load_study(STUDIES / f"{setting.study}.toml", setting.flags, ()).contenders


@functools.cache
def _small(study: str) -> Mapping[str, Study]:
    """The parts of a study that ships with the package, at the scale of its page."""
    return named_study(study).studies("small")


def first_config(setting: Setting) -> RunConfig:
    """The configuration of one of them, for what all have in common."""
    return next(iter(contenders(setting).values()))


class _Row:
    """A row of a table, read cell by cell."""

    def __init__(self, header: list[str], cells: list[str], place: str) -> None:
        if len(header) != len(cells):
            raise ValueError(f"{place}: {len(cells)} cells under {len(header)} headings.")
        self.header, self.cells, self.place = header, cells, place

    def cell(self, column: str | int) -> str:
        """Its text without marks."""
        if isinstance(column, str) and column not in self.header:
            raise ValueError(f"{self.place}: no column '{column}' among {self.header}.")
        index = self.header.index(column) if isinstance(column, str) else column
        after = self.header[index + 1 : index + 2] == ["95 % interval"]  # in a column of its own
        return plain_words(" ".join(self.cells[index : index + 1 + after]))

    def interval(self, column: str | int) -> tuple[float, float | None, float | None]:
        """A figure with its interval, written as `a [b, c]`, `a ± b` or `a`."""
        cell = self.cell(column)
        found = re.match(rf"({NUMBER})(?: ± ({NUMBER})| \[({NUMBER}), ({NUMBER})\])?", cell)
        if found is None:
            raise ValueError(f"{self.place}: '{cell}' is no figure.")
        middle, half, low, high = (None if g is None else number(g) for g in found.groups())
        assert middle is not None
        if half is not None:
            return middle, round(middle - half, 4), round(middle + half, 4)
        return middle, low, high

    def p_value(self, column: str) -> float:
        """`<0.001` is 0.001, the largest it can be."""
        return float(self.cell(column).removeprefix("<"))

    def bytes(self, column: str) -> int:
        """Of all clients."""
        return bytes_of(self.cell(column), self.place)


def _stated_in(heading: str, table: Table) -> list[tuple[str, str, dict[str, Any]]]:
    """Figures of a baseline that the heading has instead of a row: "(`fafi`: 32.4 %, 11 MB)"."""
    found = re.search(rf"\(`(\S+)`: ({NUMBER}) %, ([^)]+)\)", heading)
    if found is None:
        return []
    label, score, size = found.groups()
    values = {"common": (number(score), None, None), "bytes": bytes_of(size, heading)}
    return [(table.scores[0].setting, label, values)]


def table_below(text: str, heading: str, page: str) -> tuple[str, list[str], list[list[str]]]:
    """The whole heading, the header and the rows of the first table under it."""
    lines = text.splitlines()
    starts = [
        n for n, line in enumerate(lines) if line == heading or line.startswith(f"{heading} (")
    ]
    if len(starts) != 1:
        raise ValueError(f"{page} has {len(starts)} headings '{heading}', not one.")
    first = next((n for n in range(starts[0], len(lines)) if lines[n].startswith("|")), None)
    if first is None:
        raise ValueError(f"{page} has no table below '{heading}'.")
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return lines[starts[0]], [plain_words(cell) for cell in rows[0]], rows[2:]


def plain_words(cell: str) -> str:
    """Without the marks of Markdown."""
    return re.sub(r"[*`]", "", cell).strip()


def number(text: str) -> float:
    """With the minus sign that pages use."""
    return float(text.replace("−", "-").replace(",", ""))


def bytes_of(text: str, place: str) -> int:
    """`40.6 MB` as a whole number."""
    size, _, unit = text.partition(" ")
    if unit not in UNITS:
        raise ValueError(f"{place}: '{text}' is no size; units are {', '.join(UNITS)}.")
    return round(number(size) * UNITS[unit])


def anchor(heading: str) -> str:
    """The address of a heading within its page, as the repository's web pages have it."""
    words = plain_words(heading.lstrip("#")).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


if __name__ == "__main__":
    main()
