import json
from pathlib import Path

from tests.cli.command import fedcord


def test_numbers_and_pictures(tmp_path: Path) -> None:
    words = ["inspect", "--partition", "dirichlet:0.1", "--clients", "6"]
    for name, start in (("map.png", b"\x89PNG"), ("map.svg", b"<?xml")):
        done = fedcord(*words, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(start)
        assert "mean entropy" in done.stdout
    values = json.loads(fedcord(*words, "--json", cwd=tmp_path).stdout)
    assert len(values["counts"]) == 6
    assert sum(map(sum, values["counts"])) == values["num_held"]


def test_the_partition_shown_is_the_partition_run(tmp_path: Path) -> None:
    shown = json.loads(fedcord("inspect", "--clients", "5", "--json", cwd=tmp_path).stdout)
    run = fedcord("run", "fedavg", "--clients", "5", "--rounds", "1", "--json", cwd=tmp_path)
    assert json.loads(run.stdout)["partition_hash"] == shown["partition_hash"]
