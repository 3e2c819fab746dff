"""Published figures beside ours: values, differences, savings and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.published import Beside, Published, beside, published_markdown
from fedcord.report.reproduction import reproduction_page
from tests.report.conftest import write_run


@pytest.fixture
def board(tmp_path: Path) -> Leaderboard:
    """Three seeds: "new" is four points above "old", give or take one."""
    for seed, (old, new) in enumerate([(0.50, 0.54), (0.52, 0.57), (0.51, 0.54)]):
        write_run(tmp_path, "old", seed, old, partition_hash=f"{seed}")
        write_run(tmp_path, "new", seed, new, partition_hash=f"{seed}")
    return leaderboard(load_runs(tmp_path))


def figure(**values: object) -> Published:
    return Published(contender="new", **values)  # type: ignore[arg-type]


def verdict(board: Leaderboard, judges: str, **values: object) -> str:
    return beside(board, figure(**values), judges).verdict


def test_a_difference_is_paired_and_in_points(board: Leaderboard) -> None:
    found = beside(board, figure(against="old", value=6.0), "directions")
    assert found.ours is not None
    assert found.ours.mean == pytest.approx(4.0)  # (4 + 5 + 3) / 3
    assert found.ours.low == pytest.approx(4 - 4.302653 / 3**0.5)  # t of 2 degrees, deviation 1
    assert found.difference == pytest.approx(-2.0)


def test_of_a_range_the_nearer_end_counts(board: Leaderboard) -> None:
    for low, high, difference in ((1.0, 2.0, 2.0), (3.0, 5.0, 0.0), (7.0, 9.0, -3.0)):
        found = beside(board, figure(against="old", low=low, high=high), "directions")
        assert found.difference == pytest.approx(difference)


def test_directions_are_judged_by_their_sign(board: Leaderboard) -> None:
    assert verdict(board, "directions", against="old", value=20.0) == "confirmed"
    assert verdict(board, "directions", against="old", value=-0.5) == "contradicted"
    assert verdict(board, "directions", against="old", value=0.0) == "not shown"
    assert verdict(board, "directions", against="old", low=0.0, high=9.0) == "confirmed"
    assert verdict(board, "directions", against="old", low=-9.0, high=9.0) == "not shown"
    assert verdict(board, "nothing", against="old", value=20.0) == "not comparable"


def test_values_are_judged_only_where_the_setting_is_the_published_one(board: Leaderboard) -> None:
    assert verdict(board, "directions", value=55.0) == "not comparable"
    assert verdict(board, "values", value=55.0) == "confirmed"
    assert verdict(board, "values", value=80.0) == "contradicted"


def test_costs_are_what_is_saved(tmp_path: Path) -> None:
    for seed in (0, 1):
        for name, up in (("old", 900), ("new", 100)):
            sent = {"bytes_up": up, "bytes_down": 100}
            write_run(tmp_path, name, seed, 0.5, partition_hash=f"{seed}", result=sent)
    found = beside(
        leaderboard(load_runs(tmp_path)), figure(against="old", what="bytes", value=95.0), "values"
    )
    assert found.ours is not None
    assert found.ours.mean == pytest.approx(80.0)
    assert found.ours.low is None  # both seeds send the same
    assert found.verdict == "confirmed"


def test_what_has_no_runs_is_said(board: Leaderboard) -> None:
    assert beside(None, figure(value=1.0), "values").verdict == "not run"
    assert verdict(board, "values", against="other", value=1.0) == "not run"
    assert verdict(board, "values", what="g_protos_std", value=1.0) == "not measured"


def test_one_seed_shows_nothing(tmp_path: Path) -> None:
    for name, accuracy in (("old", 0.5), ("new", 0.9)):
        write_run(tmp_path, name, 0, accuracy, partition_hash="0")
    one = leaderboard(load_runs(tmp_path))
    assert verdict(one, "directions", against="old", value=1.0) == "not shown"


@pytest.mark.parametrize(
    "values",
    [{}, {"value": 1.0, "low": 0.0}, {"low": 0.0}, {"value": 1.0, "low": 0.0, "high": 1.0}],
)
def test_a_figure_is_a_value_or_a_range(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="either value or both low and high"):
        figure(**values)


def test_the_page_has_everything_to_check_it(board: Leaderboard) -> None:
    rows = [beside(board, figure(against="old", value=20.0), "directions")]
    about = {"study": "s", "scale": "small", "title": "T", "source": "A paper, Table 1"}
    about |= {
        "setting": "scaled down",
        "note": "one run",
        "judges": "directions",
        "command": "fedcord reproduce s --set a:b=/home/me/x.npz",
    }
    page = reproduction_page(about, {"all": board}, rows, {"svhn": "no such data"})
    for words in (
        *("A paper, Table 1", "scaled down", "one run", "Data hash by seed", "commit", "torch"),
        "fedcord reproduce s --set a:b=…/x.npz",
        *("| new | accuracy, minus old | 4.00 [1.52, 6.48] | 20.00 | −16.00 | confirmed |",),
        *("svhn was not run: no such data", "Run from", "judged, and only by their sign"),
    ):
        assert words in page


def test_parts_are_named_where_there_are_several(board: Leaderboard) -> None:
    rows = [Beside(figure(part=part, value=1.0), None, "not run") for part in ("a", "b")]
    assert published_markdown(rows).startswith("| part | method |")
    assert published_markdown(rows[:1]).startswith("| method |")


def test_a_page_names_the_only_part_of_several_that_was_run(board: Leaderboard) -> None:
    """It is joined by others when they are run; and why one was not is one line."""
    rows = [Beside(figure(part="a", value=1.0), None, "not run")]
    about = dict.fromkeys(("study", "scale", "title", "source", "setting", "note"), "x")
    about |= {"judges": "directions", "command": "fedcord reproduce s"}
    page = reproduction_page(about, {"a": board}, rows, {"b": "no data;\nfetch it"})
    assert "| part | method |" in page
    assert page.endswith("\nb was not run: no data; fetch it\n")
