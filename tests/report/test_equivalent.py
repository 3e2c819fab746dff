"""The same methods in two settings."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedcord.statistics import equivalence
from tests.cli.command import fedcord
from tests.report.conftest import assert_refused, write_run

SCORES = {
    ("mnist", "0.1"): {"moon": [0.80, 0.82, 0.81], "fedavg": [0.40, 0.50, 0.45]},
    ("svhn", "0.1"): {"moon": [0.60, 0.62, 0.61], "fedavg": [0.30, 0.35, 0.40]},
    ("mnist", "0.5"): {"moon": [0.81, 0.82, 0.80], "fedavg": [0.60, 0.61, 0.65]},
    ("svhn", "0.5"): {"moon": [0.60, 0.61, 0.62], "fedavg": [0.50, 0.55, 0.50]},
}


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    for (data, skew), methods in SCORES.items():
        for name, values in methods.items():
            for seed, value in enumerate(values):
                config = {"dataset": data, "partition": f"dirichlet:{skew}"}
                run = write_run(tmp_path / f"{data}-{skew}", name, seed, value, config=config)
                origin = json.loads((run / "provenance.json").read_text())
                origin["data_hash"] += skew  # it is also of who holds what
                (run / "provenance.json").write_text(json.dumps(origin))
    return [f"{data}-{skew}" for data, skew in SCORES]


def test_a_method_is_compared_with_itself(folders: list[str], tmp_path: Path) -> None:
    done = fedcord("report", *folders, "--equivalent", "same.md", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["name"] for row in found["rows"]] == ["moon", "fedavg"]
    for row in found["rows"]:
        strata = [
            np.subtract(SCORES[data, "0.5"][row["name"]], SCORES[data, "0.1"][row["name"]])
            for data in ("mnist", "svhn")
        ]
        expected = equivalence([own.tolist() for own in strata], 0.02)
        assert row["found"]["p"] == pytest.approx(expected.p)
        assert row["by_dataset"] == pytest.approx([own.mean() for own in strata])
    text = (tmp_path / "same.md").read_text(encoding="utf-8")
    assert "| within ±2 points |" in text
    assert "| equivalent |" in text.splitlines()[2]
    assert "| not shown |" in text.splitlines()[3]


def test_what_never_differs_is_equal_and_not_merely_undecided(tmp_path: Path) -> None:
    for skew in ("0.1", "0.5"):
        config = {"dataset": "mnist", "partition": f"dirichlet:{skew}"}
        for seed in range(3):
            write_run(tmp_path / skew, "afl", seed, 0.8 + 0.01 * seed, config=config)
    done = fedcord("report", "0.1", "0.5", "--equivalent", "same.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "same.md").read_text(encoding="utf-8")
    assert "| equal in all seeds |" in text


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ([0.7655, 0.7768, 0.8796, 0.7223], "not shown"),
        ([math.nextafter(0.7654, 1), 0.7767, math.nextafter(0.8795, 0), 0.7222], "equal in all"),
    ],
    ids=["one image more each time", "equal"],
)
def test_the_last_bits_of_differences_show_nothing(
    tmp_path: Path, second: list[float], verdict: str
) -> None:
    """They are all that spreads."""
    first = [0.7654, 0.7767, 0.8795, 0.7222]
    assert equivalence([[b - a for a, b in zip(first, second, strict=True)]], 0.02).is_shown
    sides = {"0.1": first, "0.5": second}
    for skew, values in sides.items():
        config = {"dataset": "mnist", "partition": f"dirichlet:{skew}"}
        for seed, value in enumerate(values):
            write_run(tmp_path / skew, "afl", seed, value, config=config)
    done = fedcord("report", *sides, "--equivalent", "same.md", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["found"]["p"] is None
    assert f"| {verdict}" in (tmp_path / "same.md").read_text(encoding="utf-8")


def test_means_are_of_the_seeds_that_are_compared(tmp_path: Path) -> None:
    """Or else their difference would be another than the one beside them."""
    sides = {"0.1": {0: 0.5, 1: 0.75, 2: 0.6}, "0.5": {1: 0.7, 2: 0.6, 3: 0.95}}
    for skew, values in sides.items():
        config = {"dataset": "mnist", "partition": f"dirichlet:{skew}"}
        for seed, value in values.items():
            write_run(tmp_path / skew, "afl", seed, value, config=config)
    done = fedcord("report", *sides, "--equivalent", "same.md", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["first"], row["second"]) == pytest.approx((0.675, 0.65))
    assert row["found"]["mean"] == pytest.approx(row["second"] - row["first"])


def test_mistakes_are_told(folders: list[str], tmp_path: Path) -> None:
    assert_refused([*folders[:3], "--equivalent", "a.md"], "svhn has 1", tmp_path)
    assert_refused([*folders, "--equivalent", "a.md", "--margin", "0"], "above zero", tmp_path)
    assert_refused([*folders, "--margin", "1"], "of use with --equivalent", tmp_path)


def test_other_examples_are_no_pair(folders: list[str], tmp_path: Path) -> None:
    for config in (tmp_path / "mnist-0.1").glob("*/seed-*/config.toml"):
        config.write_text("subset = 100\n" + config.read_text())
    words = "fedavg: for seed 0 the two studies used different data"
    assert_refused([*folders, "--equivalent", "a.md"], words, tmp_path)
