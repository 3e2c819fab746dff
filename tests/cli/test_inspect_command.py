import json
from pathlib import Path

import numpy as np

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


def test_clients_and_classes_have_their_names(tmp_path: Path) -> None:
    labels = np.array(["gesund", "krank"])[np.arange(60) % 2]
    sites = np.array(["Köln", "北京", "[bold]"])[np.arange(60) // 20]
    np.savez(tmp_path / "mine.npz", x=np.eye(60), y=labels, site=sites)
    words = ["--dataset", "npz:mine.npz", "--partition", "natural:site"]
    shown = fedcord("inspect", *words, "--out", "map.png", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for name in ("Köln", "北京", "[bold]", "0 gesund, 1 krank"):
        assert name in shown.stdout
    values = json.loads(fedcord("inspect", *words, "--json", cwd=tmp_path).stdout)
    names = ["Köln", "[bold]", "北京"]
    assert sorted(values["client_names"]) == sorted(names)
    run = ["run", "fedavg", *words, "--rounds", "1", "--out", "run", "--json"]
    assert fedcord(*run, cwd=tmp_path).returncode == 0
    kept = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert kept["client_names"] == values["client_names"]
    assert kept["class_names"] == ["gesund", "krank"]
    assert fedcord("report", "run", cwd=tmp_path).returncode == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(name in page for name in (*names, "gesund", "krank"))
