"""Words a command does not know are answered with what was probably meant."""

from pathlib import Path

import pytest

from tests.cli.command import fedcord


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "fedavg", "--lr", "0.1"], "--set local.lr=0.1. See 'fedcord run --help'."),
        (["run", "fedavg", "--lr=0.1"], "--set local.lr=0.1."),
        (["run", "fedavg", "--lr"], "--set local.lr=VALUE."),
        (["run", "fedprox", "--proximal-weight", "1"], "--set proximal_weight=1."),
        (["run", "fedavg", "--local.lr", "1"], "--set local.lr=1."),
        (
            ["compare", "fedavg", "fedprox", "--proximal-weight", "1"],
            "--set fedprox:proximal_weight=1. See 'fedcord compare --help'.",
        ),
        (["compare", "fedavg", "fedprox", "--lr", "1"], "--set local.lr=1."),
        (["inspect", "--partitoin", "iid"], "did you mean '--partition'? See 'fedcord inspect"),
        (["run", "fedavg", "fedprox"], "'fedprox' is not expected here. See 'fedcord run --help'."),
        (["run", "fedavgg", "--lr", "1"], "unknown flag '--lr'. See 'fedcord run --help'."),
        (["report", ".", "--lr", "1"], "unknown flag '--lr'. See 'fedcord report --help'."),
        (["reproduce", "accord-full", "--lr", "1"], "unknown flag '--lr'. See 'fedcord reproduce"),
    ],
)
def test_the_answer_says_what_to_write(words: list[str], expected: str, tmp_path: Path) -> None:
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr + done.stdout


def test_all_of_them_in_one_message(tmp_path: Path) -> None:
    done = fedcord("run", "fedavg", "--lr", "1", "--roundz", "2", "extra", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: 3 problems\n")
    assert done.stdout == ""
