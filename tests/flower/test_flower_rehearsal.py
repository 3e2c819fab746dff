"""Nodes on this machine that rehearse with the run's data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place
from fedcord.flower.rehearsal import write_rehearsing_site
from fedcord.site.own_data import read_site
from fedcord.site.site_file import load_site
from tests.site.in_process import patients


def test_sites_find_a_file_that_the_run_names_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patients().to_csv(tmp_path / "all.csv", index=False)
    monkeypatch.chdir(tmp_path)
    config = load_config(
        {
            "algorithm": "fedavg",
            "dataset": "csv:all.csv?target=sick&client=hospital",
            "partition": "natural:hospital",
            "clients": 3,
        }
    )
    path = tmp_path / "run.sites" / "1" / "site.toml"
    write_rehearsing_site(path, config, 1, Place(None))
    assert read_site(load_site(path), config).sizes(1)[0] > 0
