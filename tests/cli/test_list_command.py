import json
from pathlib import Path

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.cli.list_command import FAMILIES
from tests.cli.command import fedcord


def test_list_alone_shows_everything(tmp_path: Path) -> None:
    done = fedcord("list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    first = {words[0] for words in lines if words}
    assert {"ALGORITHMS", "DATASETS", "PARTITIONS", "MODELS", "STUDIES"} <= first
    assert {"fedavg", "digits", "npz:PATH", "dirichlet:0.1", "resnet18"} <= first
    values = json.loads(fedcord("list", "--json", cwd=tmp_path).stdout)
    assert list(values) == ["algorithms", "datasets", "partitions", "models", "studies"]
    assert values["models"][0].keys() == {"name", "summary"}


def test_algorithms_stand_below_their_family_and_forms_below_their_algorithm(
    tmp_path: Path,
) -> None:
    lines = fedcord("list", "algorithms", cwd=tmp_path).stdout.splitlines()
    headings = [line for line in lines[:-1] if not line.startswith(" ")]
    assert headings == list(FAMILIES.values())
    assert lines.index("prototypes") < _place(lines, "  fedproto ") < lines.index("one-shot")
    assert _place(lines, "    fedproto+ ") == _place(lines, "  fedproto ") + 1
    assert _place(lines, "    flare ") > _place(lines, "  fafi ")
    assert _place(lines, "    accord-ce ") > _place(lines, "  accord ")


def test_versions_of_the_log_are_shown_on_demand(tmp_path: Path) -> None:
    short = fedcord("list", "algorithms", cwd=tmp_path).stdout
    assert " v12 " not in short
    logged = [name for name, info in ALGORITHMS.items() if info.is_logged]
    assert f"{len(logged)} more are steps that led to FLARE; --all shows them." in short
    everything = fedcord("list", "algorithms", "--all", cwd=tmp_path).stdout
    assert {line.split()[0] for line in everything.splitlines()} >= set(ALGORITHMS)
    assert "more are versions" not in everything
    rows = json.loads(fedcord("list", "algorithms", "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in rows] == list(ALGORITHMS)


def test_parameters_are_those_of_the_name_not_of_its_class(tmp_path: Path) -> None:
    rows = json.loads(fedcord("list", "algorithms", "flare", "--json", cwd=tmp_path).stdout)
    defaults = {row["name"]: row["default"] for row in rows}
    assert defaults["anchors.kind"] == "'etf'"


def _place(lines: list[str], start: str) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(start))
