"""`fedcord reproduce`: a published table by name, ours beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import fedcord, result_of

STUDY = ("reproduce", "afl-partitions", "--part", "cifar10-a0.1", "--jobs", "1", "--out", "out")


def test_a_smoke_run_ends_with_ours_beside_the_published_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)  # figures are tested elsewhere
    values = result_of(*STUDY, "--page", "pages", cwd=tmp_path)
    assert (values["study"], values["scale"], values["judges"]) == (
        *("afl-partitions", "smoke"),
        "nothing",
    )
    rows = {(row["contender"], row["against"]): row for row in values["rows"]}
    afl = rows["afl", None]
    assert afl["published"] == 80.75
    assert afl["seeds"] == 2
    assert 20 < afl["ours"] <= 100
    assert {row["verdict"] for row in rows.values()} == {"not comparable"}
    assert list(values["boards"]) == ["cifar10-a0.1"]
    page = (tmp_path / "out" / "reproduction.md").read_text(encoding="utf-8")
    for words in (
        "AFL, main table",
        "tries the study out",
        "fedcord reproduce afl-partitions --scale smoke",
    ):
        assert words in page
    assert json.loads((tmp_path / "out" / "reproduction.json").read_text()) == values
    kept = tmp_path / "pages"
    assert (kept / "afl-partitions-smoke.md").read_text(encoding="utf-8") == page
    beside = kept / "afl-partitions-smoke"
    assert (beside / "cifar10-a0.1.csv").read_text().startswith("rank,algorithm,")
    hashes = json.loads((beside / "hashes.json").read_text())["cifar10-a0.1"]["afl"]
    assert set(hashes) == {"0", "1"}
    assert all(len(hashes["0"][what]) == 64 for what in ("data", "partition", "state"))
    with (kept / "afl-partitions-smoke.md").open("a", encoding="utf-8") as written:
        written.write("\n## What it says\n\nOur own words.\n")
    result_of(*STUDY, "--page", "pages", "--resume", cwd=tmp_path)
    again = (kept / "afl-partitions-smoke.md").read_text(encoding="utf-8")
    assert again == f"{page}\n## What it says\n\nOur own words.\n"
    part = tmp_path / "out" / "cifar10-a0.1"
    assert {"leaderboard.csv", "report.html", "afl"} <= {path.name for path in part.iterdir()}


def test_mistakes_are_told_and_leave_nothing(tmp_path: Path) -> None:
    for words, said in (
        (("reproduce", "flare-tabel2"), "did you mean 'flare-table2'"),
        (("reproduce", "flare-table2", "--scale", "huge"), "unknown scale 'huge'"),
        (("reproduce", "flare-table2", "--part", "svhn"), "unknown part 'svhn'"),
        (("reproduce", "flare-table2", "--seeds", "many"), "seeds = 'many'"),
        (("reproduce", "flare-table2", "--engine", "steam"), "unknown engine 'steam'"),
    ):
        done = fedcord(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = fedcord("reproduce", "flare-table3", "--scale", "small", "--data-dir", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert "svhn" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_studies_are_listed(tmp_path: Path) -> None:
    assert "\nflare-table2  " in fedcord("list", "studies", cwd=tmp_path).stdout
    listed = json.loads(fedcord("list", "studies", "--json", cwd=tmp_path).stdout)
    assert {"name", "summary"} == set(listed[0])
