import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.numbers import byte_size, duration, p_value, percent, points
from fedcord.report.tables import headings, to_csv, to_latex, to_markdown

StudyWriter = Callable[..., Path]
VALUES = {"fed_avg|x": [0.80, 0.82, 0.78], "fedprox": [0.82, 0.83, 0.80]}


WIDTH = len(headings(METRICS["accuracy"]))


def test_csv_is_unrounded_and_empty_where_nothing_is_known(write_study: StudyWriter) -> None:
    text = to_csv(leaderboard(load_runs(write_study(VALUES))))
    best, other = csv.DictReader(io.StringIO(text))
    assert (best["rank"], best["algorithm"], best["difference_mean"]) == ("1", "fedprox", "")
    assert float(other["accuracy_mean"]) == pytest.approx(0.8)
    assert float(other["difference_mean"]) == pytest.approx(-0.05 / 3)
    assert float(other["p_sign_flip"]) == 0.25
    assert float(other["bytes_up"]) == 4000


def test_markdown_has_equal_columns_and_says_what_the_numbers_are(write_study: StudyWriter) -> None:
    lines = to_markdown(leaderboard(load_runs(write_study(VALUES)))).splitlines()
    assert [line.replace("\\|", "").count("|") for line in lines[:4]] == [WIDTH + 1] * 4
    assert lines[2].startswith("| fedprox | 3 | 81.67 | [77.56, 85.16] | best | – | – |")
    assert lines[3].startswith("| fed_avg\\|x | 3 | 80.00 |")
    assert "| −1.67 | [−3.10, −0.23] | 0.038 | 78.00 | 12 kB | 2.0 s |" in lines[3]
    assert "never a maximum over rounds" in lines[5]


def test_latex_escapes_and_has_equal_columns(write_study: StudyWriter) -> None:
    text = to_latex(leaderboard(load_runs(write_study(VALUES))))
    row = next(line for line in text.splitlines() if line.startswith("fed"))
    assert row.startswith("fedprox & 3 & 81.67 & [77.56, 85.16] & best & --")
    assert "fed\\_avg|x & 3" in text
    assert "$-$1.67" in text
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert [line.count(" & ") for line in body] == [WIDTH - 1] * 3


def test_tables_never_print_nan(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study({"a": [0.5, 0.5], "b": [0.5, 0.5]})))
    for text in (to_csv(board), to_markdown(board), to_latex(board)):
        assert "nan" not in text.lower()
    assert "b: no difference in any of the 2 pairs." in to_markdown(board)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (percent(0.12345), "12.35"),
        (percent(None), "–"),
        (percent(-0.00001), "0.00"),
        (points(0.0123), "+1.23"),
        (points(-0.0123), "−1.23"),
        (points(0.0), "0.00"),
        (p_value(0.0004), "<0.001"),
        (p_value(1.0), "1.000"),
        (byte_size(0), "0 B"),
        (byte_size(999), "999 B"),
        (byte_size(1000), "1 kB"),
        (byte_size(999_900), "1 MB"),
        (byte_size(1.5e9), "1.5 GB"),
        (byte_size(5e15), "5e+03 TB"),
        (duration(0.0424), "42 ms"),
        (duration(59.7), "1 min 0 s"),
        (duration(3600), "1 h 0 min"),
    ],
)
def test_numbers_are_written_as_people_read_them(found: str, expected: str) -> None:
    assert found == expected
