"""Every algorithm in every study."""

import json
from pathlib import Path

import pytest

from fedcord.statistics import share_interval
from tests.cli.command import fedcord
from tests.report.conftest import assert_refused, write_studies

STUDIES = {
    "one": {"a": [0.50, 0.55, 0.60], "b": [0.60, 0.66, 0.69], "c": [0.4, 0.4, 0.4]},
    "two": {"a": [0.70, 0.72, 0.71], "b": [0.68, 0.63, 0.60], "c": [0.2, 0.2, 0.2]},
    "three": {"a": [0.90, 0.80], "b": [0.90, 0.80], "c": [0.3, 0.2], "only": [0.95, 0.9]},
}


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """Three finished studies; "a" and "b" tie in the third, "only" is in no other."""
    return write_studies(tmp_path, STUDIES, first_seeds=(0, 0, 0))


def test_cells_are_intervals_of_single_studies_and_ties_share_ranks(studies: Path) -> None:
    done = fedcord("report", *STUDIES, "--overview", "all.md", "--json", cwd=studies)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["name"]: row for row in found["rows"]}
    assert [row["name"] for row in found["rows"]] == ["a", "b", "c", "only"]
    for name in "abc":
        for study, own in zip(STUDIES, rows[name]["by_study"], strict=True):
            expected = share_interval(STUDIES[study][name])
            assert (own["mean"], own["low"]) == pytest.approx((expected.mean, expected.low))
    assert rows["a"]["mean_rank"] == pytest.approx((2 + 1 + 1.5) / 3)
    assert rows["b"]["mean_rank"] == pytest.approx((1 + 2 + 1.5) / 3)
    assert rows["c"]["mean_rank"] == pytest.approx(3)
    assert rows["a"]["mean"] == pytest.approx((0.55 + 0.71 + 0.85) / 3)
    assert rows["only"]["mean_rank"] is rows["only"]["mean"] is rows["only"]["by_study"][0] is None
    assert not (studies / "one" / "report.html").exists()


def test_the_table_marks_the_best_of_every_study(studies: Path) -> None:
    done = fedcord("report", *STUDIES, "--overview", "all.md", cwd=studies)
    text = (studies / "all.md").read_text(encoding="utf-8")
    assert text in done.stdout
    assert "| a | 55.0 [42.5, 66.9] | **71.0** [68.5, 73.4] | 85.0 [3.7, 99.9] |" in text
    # equal values, no interval; two scores below a third, and the mean without them
    assert "| c | 40.0 | 20.0 ‡ | 25.0 [1.1, 90.8] ‡ | 28.3 | 40.0 |" in text
    assert "| only | – | – | **92.5** [11.2, 99.9] | – | – | – |" in text
    assert "2 to 3 seeds in each study" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one", "--overview", "a.md"], "two folders or more"),
        (["one", "two", "--overview", "a.csv"], "allowed ending: .md"),
        (["one", "two", "--overview", "a.md", "--against", "a"], "ask for one"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(words: list[str], said: str, studies: Path) -> None:
    assert_refused(words, said, studies)


def test_studies_without_a_common_algorithm_have_no_ranks(tmp_path: Path) -> None:
    apart = {"one": {"a": [0.5, 0.6]}, "two": {"b": [0.7, 0.8]}}
    write_studies(tmp_path, apart, first_seeds=(0, 0))
    done = fedcord("report", *apart, "--overview", "all.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| a | **55.0** [8.6, 94.1] | – | – | – |" in done.stdout
