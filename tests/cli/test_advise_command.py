from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedcord.cli import compare_command
from tests.cli.command import fedcord, result_of

SITUATIONS = (
    ("--partition", "dirichlet:0.1", "--clients", "5"),
    ("--partition", "dirichlet:0.1", "--clients", "5", "--private"),
    ("--partition", "dirichlet:0.1", "--clients", "5", "--max-rounds", "1"),
    ("--partition", "dirichlet:0.05", "--clients", "6", "--mixed-networks"),
    ("--partition", "dirichlet:0.05", "--clients", "6", "--personal"),
    ("--partition", "iid", "--clients", "5", "--max-rounds", "1"),
    ("--partition", "iid", "--mixed-networks", "--max-bytes", "50MB"),
    ("--partition", "iid", "--personal"),
    ("--partition", "iid", "--private", "--max-rounds", "8"),
)


@pytest.mark.parametrize("words", SITUATIONS, ids=" ".join)
def test_the_command_that_settles_it_is_one_that_compare_takes(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    command = shlex.split(result_of("advise", *words, cwd=tmp_path)["command"])
    assert command[:2] == ["fedcord", "compare"]
    parser = argparse.ArgumentParser()
    compare_command.add_arguments(parser)
    study = compare_command.study_from(parser.parse_args(command[2:]))
    assert len(study.contenders) > 1
    assert len(study.seeds) == 5
    assert ("--private" in words) == all(c.secure for c in study.contenders.values())


def test_a_recommendation_says_how_sure_it_is_and_where_it_comes_from(tmp_path: Path) -> None:
    done = fedcord("advise", "--partition", "dirichlet:0.1", "--clients", "5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Try first: accord-deep\n" in done.stdout
    assert "How sure: shown on several data sets; not on digits alone." in done.stdout
    assert "results/accord-main-small.md#all-data-sets-against-accord-deep" in done.stdout
    assert "but not shown: +0.09 points [−0.02, 0.21] over 3 settings of digits" in done.stdout
    assert "over the same untrained, accord-deep (training=random): +" in done.stdout
    assert "fedcord compare accord-deep" in done.stdout
    assert "--set afl-deep:features.networks=5" in done.stdout
    values = result_of("advise", "--partition", "dirichlet:0.1", "--clients", "5", cwd=tmp_path)
    assert values["recommendation"]["algorithm"] == "accord-deep"
    assert all(row["source"] for one in values["near"] for row in one["methods"])


def test_where_no_study_is_near_it_says_so(tmp_path: Path) -> None:
    done = fedcord("advise", "--partition", "iid", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No study is near, so there is no recommendation." in done.stdout
    assert "too far away in: label skew" in done.stdout
    assert "Try first" not in done.stdout
    np.savez(tmp_path / "rows.npz", x=np.eye(60), y=np.arange(60) % 2)
    values = result_of("advise", "npz:rows.npz", "--clients", "3", cwd=tmp_path)
    assert values["recommendation"] is None
    assert values["nearest"]["too_far_in"][0] == "kind of data (image, not vector)"


def test_a_folder_of_pictures_is_taken_as_it_is(tmp_path: Path) -> None:
    for number in range(24):
        folder = tmp_path / "mine" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 10 * number).save(folder / f"{number}.png")
    values = result_of("advise", "mine", "--clients", "2", cwd=tmp_path)
    assert values["situation"]["kind"] == "image"
    assert "--dataset folder:mine" in values["command"]


def test_mistakes_are_told_together(tmp_path: Path) -> None:
    done = fedcord("advise", "--max-bytes", "much", "--max-rounds", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--max-bytes 'much': must be a number of bytes" in done.stderr
    assert "--max-rounds '0': must be a whole number from 1" in done.stderr
    twice = fedcord("advise", "digits", "--dataset", "mnist", cwd=tmp_path)
    assert twice.returncode == 2
    assert "given twice" in twice.stderr
