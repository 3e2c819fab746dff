"""Every site and the server compute where they like; the run is the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedcord.core.contract import Review
from fedcord.core.errors import ConfigError
from fedcord.data.facts import Stated
from fedcord.experiment import build
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.flower.app_folder import AppConfig
from fedcord.flower.rehearsal import write_rehearsing_site
from fedcord.site.check import expected_facts
from fedcord.site.own_data import read_site
from fedcord.site.own_plan import plan_at
from fedcord.site.site_file import load_site
from tests.cli.command import fedcord
from tests.site.in_process import Hospitals, own_table

SETTINGS = {"algorithm": "fedavg", "dataset": "sites:tumours", "clients": 2, "rounds": 1}


def _sites(folder: Path, *devices: str) -> Hospitals:
    files = {}
    for client, device in enumerate(devices):
        files[client] = own_table(folder, client)
        text = files[client].read_text()
        files[client].write_text(text + (f'device = "{device}"\n' if device else ""))
    return Hospitals(files)


def test_a_sites_own_device_wins_over_the_studys(tmp_path: Path) -> None:
    """A study for GPUs at sites that have none."""
    config = load_config({**SETTINGS, "device": "cuda"})
    there = _sites(tmp_path, "cpu", "auto")
    with pytest.raises(ConfigError, match="device = cuda: PyTorch finds no such device here"):
        run(config, Place(tmp_path / "run"), sites=there.sites())  # the server's
    assert there.sent == []
    sites = there.sites()
    own = type(sites)(sites.reach, sites.stated, sites.name, "cpu")
    result = run(config, Place(tmp_path / "run"), sites=own)
    assert result["config_hash"] == config.hash
    plain = run(load_config(SETTINGS), Place(tmp_path / "cpu"), sites=there.sites())
    assert result["state_hash"] == plain["state_hash"]


def test_the_device_is_the_sites_and_the_agreement_everybodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(build, "_reviewed", lambda *_: Review())  # both would make a network there
    monkeypatch.setattr(build, "is_applicable", lambda *_: False)
    config = load_config(SETTINGS)
    plans = []
    for device in ("cuda:1", "auto", ""):
        (file,) = _sites(tmp_path / f"with {device}", device).files.values()
        site = load_site(file)
        data = read_site(site, config)
        plans.append(plan_at(site, config, expected_facts(data, Stated())))
    assert [str(plan.task.device) for plan in plans] == ["cuda:1", "cuda", "cpu"]
    assert len({plan.agreement.configuration for plan in plans}) == 1
    assert plans[0].agreement == plans[2].agreement


def test_a_device_that_is_not_there_is_told_at_the_site_and_to_the_server(tmp_path: Path) -> None:
    there = _sites(tmp_path, "cuda:7", "cpu")
    done = fedcord(
        "site", "check", str(there.files[0]), "fedavg", "--dataset", "sites:tumours", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "device = cuda:7: PyTorch finds no such device here; there is cpu" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(ConfigError, match="device = cuda:7: PyTorch finds no such device here"):
        run(load_config(SETTINGS), Place(tmp_path / "run"), sites=there.sites())
    there.files[0].write_text(there.files[0].read_text().replace("cuda:7", "gpu"))
    with pytest.raises(ConfigError, match=r"site\.toml': device = 'gpu': must be auto, cpu, cuda"):
        load_site(there.files[0])


@pytest.mark.parametrize("command", ["run", "app"])
def test_the_device_of_nodes_is_no_setting_of_the_run(command: str, tmp_path: Path) -> None:
    place = ["app"] if command == "app" else []
    words = ["flower", command, "fedavg", *place, "--clients", "2"]
    done = fedcord(*words, "--device", "gpu", cwd=tmp_path)
    assert done.returncode == 2
    assert "device = 'gpu': must be auto, cpu, cuda" in done.stderr
    done = fedcord(*words, "--device", "cuda:7", cwd=tmp_path)
    if command == "run":
        assert done.returncode == 2
        assert "device = cuda:7: PyTorch finds no such device here" in done.stderr
        assert list(tmp_path.iterdir()) == []
        return
    assert done.returncode == 0, done.stderr  # it is for another machine
    text = (tmp_path / "app" / "pyproject.toml").read_text()
    assert 'device = "cuda:7"' in text
    plain = load_config({"algorithm": "fedavg", "clients": 2})
    assert plain.hash in text


def test_a_rehearsal_hands_its_device_to_nodes_and_server(tmp_path: Path) -> None:
    config = load_config({"algorithm": "fedavg", "clients": 2})
    path = tmp_path / "site.toml"
    write_rehearsing_site(path, config, 1, Place(None), "cuda:1")
    assert load_site(path).device == "cuda:1"
    write_rehearsing_site(path, config, 1, Place(None))
    assert load_site(path).device is None
    told = AppConfig.of(config, device="cuda:1")
    assert AppConfig.from_run_config(told.plain()).device == "cuda:1"
    assert told.config().hash == config.hash
