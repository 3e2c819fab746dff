"""The device as a setting: what is refused, what is recorded, and what it is part of."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from fedcord.core.device import chosen_device, described, find_device
from fedcord.core.errors import ConfigError
from fedcord.data.facts import DataFacts
from fedcord.experiment.compare import load_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.jobs import job_count
from fedcord.experiment.load import load_config
from fedcord.experiment.task_values import task_from_values, task_values
from fedcord.report.caveats import caveats
from fedcord.report.load import load_run
from fedcord.store.checksums import PROVENANCE
from fedcord.store.provenance import changes_since
from tests.cli.command import fedcord, result_of

SMALL = ["--clients", "2", "--rounds", "1", "--subset", "60", "--model", "mlp:2"]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_device_that_is_not_there_is_refused_in_words(command: str, tmp_path: Path) -> None:
    done = fedcord(command, "fedavg", *SMALL, "--device", "cuda:7", "--out", "a", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: device = cuda:7: PyTorch finds no such device here; ")
    assert "there is cpu" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("text", ["gpu", "cuda:", "cuda:x", "cuda:-1", "", "CPU", "meta"])
def test_a_word_that_names_no_device_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"device = .*: must be auto, cpu, cuda, cuda:N"):
        load_config({"device": text})


def test_auto_is_settled_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert load_config({"device": "auto"}) == load_config({})
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert chosen_device("auto") == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert load_config({"device": "auto"}).device == "cuda"
    assert chosen_device("cpu") == "cpu"


def test_cards_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Card")
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert find_device("cuda") == torch.device("cuda")
    with pytest.raises(ConfigError, match="there is cpu, cuda:0, cuda:1"):
        find_device("cuda:2")
    assert described(torch.device("cuda:1")) == "cuda (Card)"
    assert described(torch.device("cpu")) == "cpu"


def test_the_kind_of_device_is_part_of_a_run_and_the_card_is_not() -> None:
    cpu, cuda = load_config({}), load_config({"device": "cuda"})
    assert "device" not in cpu.plain()
    assert cuda.plain()["device"] == "cuda"
    assert cuda.hash == load_config({"device": "cuda:3"}).hash != cpu.hash
    assert cuda.differences(cpu.plain()) == ["device is 'cpu' there and 'cuda' here"]
    assert cpu.differences(cuda.plain()) == ["device is 'cuda' there and 'cpu' here"]
    assert load_config(cuda.plain()).hash == cuda.hash


def test_runs_from_before_there_was_a_choice_keep_their_identity() -> None:
    assert RunConfig().hash == "da1a505401194fffd638ea1afddf1609c10c60b8d66083c785b80e154ea27823"


def test_the_device_reaches_the_task_and_its_values() -> None:
    facts = DataFacts("vector", (4,), ("a", "b", "c"))
    assert "device" not in task_values(facts, ["mlp:2"])
    values = json.loads(json.dumps(task_values(facts, ["mlp:2"], device="cuda:1")))
    assert task_from_values(values).device == torch.device("cuda:1")


def test_a_study_file_has_one_device_for_all(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('algorithms = ["fedavg", "afl"]\n[settings]\ndevice = "cuda:1"\n')
    study = load_study(path, {}, ())
    assert {config.device for config in study.contenders.values()} == {"cuda:1"}
    assert job_count(None, list(study.contenders.values()), "sequential") == 1  # its memory is one
    assert job_count(3, list(study.contenders.values()), "sequential") == 3
    path.write_text('[variants.a]\nalgorithm = "fedavg"\ndevice = "cpu"\n')
    with pytest.raises(ConfigError, match="variant 'a' has device"):
        load_study(path, {}, ())


def test_it_is_recorded_and_a_report_over_several_devices_says_so(tmp_path: Path) -> None:
    result = result_of("run", "fedavg", *SMALL, "--device", "cpu", "--out", "a", cwd=tmp_path)
    assert result["device"] == "cpu"
    origin = json.loads((tmp_path / "a" / PROVENANCE).read_text())
    assert origin["device"] == "cpu"
    assert changes_since(origin, "cpu") == []
    assert changes_since(origin, "cuda (Card)") == ["device cpu → cuda (Card)"]
    one = load_run(tmp_path / "a")
    other = dataclasses.replace(one, provenance={**one.provenance, "device": "cuda (Card)"})
    older = dataclasses.replace(
        one, provenance={k: v for k, v in one.provenance.items() if k != "device"}
    )
    words = "These runs were made with different devices: cpu and cuda (Card)."
    assert words in caveats({"one": [one], "other": [other]})
    assert not any("devices" in note for note in caveats({"one": [one], "older": [older]}))
