"""The shipped table says what the pages say, and each row where."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from studies import make_evidence
from studies.evidence_pages import SETTINGS

from fedcord.advice.evidence import load_evidence
from fedcord.algorithms.registry import ALGORITHMS

ROOT = Path(__file__).parent.parent.parent


def test_the_shipped_table_is_what_the_pages_give() -> None:
    kept = make_evidence.EVIDENCE.read_text(encoding="utf-8")
    assert kept == make_evidence.evidence_text(), "run: python -m studies.make_evidence"


def test_every_figure_names_a_heading_that_exists() -> None:
    evidence = load_evidence()
    sources = {row.source for row in evidence.methods} | {c.source for c in evidence.comparisons}
    assert len(sources) > 15
    for source in sources:
        page, _, anchor = source.partition("#")
        headings = re.findall(r"^#+ .*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in map(make_evidence.anchor, headings), source


def test_every_method_is_one_that_can_be_run_and_every_setting_is_known() -> None:
    evidence = load_evidence()
    assert {row.form.algorithm for row in evidence.methods} <= ALGORITHMS.keys()
    assert {row.setting for row in evidence.methods} == set(evidence.settings)
    for row in evidence.methods:
        assert row.figures, row
        assert all(0 <= figure.mean <= 100 for figure in row.figures.values())


def test_a_figure_read_by_eye() -> None:
    """studies/results/accord-cifar10.md: accord 63.12 [55.60, 70.64], 73.8 MB; FedAvg −13.12."""
    evidence = load_evidence()
    (row,) = (r for r in evidence.methods if (r.setting, r.label) == ("accord-cifar10", "accord"))
    assert asdict(row.figures["common"]) == {"mean": 63.12, "low": 55.6, "high": 70.64}
    assert (row.bytes, row.exchanges, row.masked) == (73_800_000, 3, "part")
    (difference,) = (
        c
        for c in evidence.comparisons
        if c.settings == ("accord-cifar10",) and c.label == "fedavg-20"
    )
    assert (difference.points, difference.low, difference.high) == (-13.12, -23.89, -2.35)


def test_rows_of_versions_before_are_left_out() -> None:
    found = {(row.setting, row.form.algorithm) for row in load_evidence().methods}
    assert not any(algorithm == "fedgmkd+" for _, algorithm in found)
    assert {setting.split()[0] for setting, algorithm in found if algorithm == "fens"} == {
        "accord-main"
    }


def test_controls_are_forms_of_what_they_control() -> None:
    controls = {
        (row.setting, row.label): row.form.words
        for row in load_evidence().methods
        if row.label in ("plain-deep", "random-deep", "plain", "random", "accord-ce-deep")
    }
    assert len({setting for setting, _ in controls if setting.startswith("accord-main")}) == 18
    for (_, label), words in controls.items():
        training, _, deep = label.partition("-")
        if training != "accord":
            assert words == f"accord{deep and '-deep'} (training={training})"
    assert controls["accord-controls", "accord-ce-deep"].startswith("accord-ce (")


def test_on_the_common_test_set_no_personal_form_repeats_another() -> None:
    evidence = load_evidence()
    personal = [row for row in evidence.methods if dict(row.form.params).get("personal")]
    assert personal
    assert all(set(row.figures) == {"own"} for row in personal)
    labels = {row.label for row in personal}
    assert not any(c.on == "common" and c.label in labels for c in evidence.comparisons)


@pytest.mark.parametrize("name", ["accord-mixed digits", "flare-scale-free 0.1"])
def test_partitions_are_measured_from_the_data_itself(name: str) -> None:
    (setting,) = (setting for setting in SETTINGS if setting.name == name)
    kept = json.loads(make_evidence.MEASURED.read_text(encoding="utf-8"))[name]
    assert make_evidence.measured(setting, None) == kept


def test_a_table_that_has_changed_its_shape_stops_the_script() -> None:
    page = "# A\n\n| method | score |\n| --- | --- |\n| x | 1 |\n"
    assert make_evidence.table_below(page, "# A", "a.md")[2] == [["x", "1"]]
    with pytest.raises(ValueError, match="0 headings '# B'"):
        make_evidence.table_below(page, "# B", "a.md")
    with pytest.raises(ValueError, match="no table below"):
        make_evidence.table_below("# A\n\nwords\n", "# A", "a.md")
    with pytest.raises(ValueError, match="is no size"):
        make_evidence.bytes_of("12", "a.md")
