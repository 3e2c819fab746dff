"""The app of a run: whole, verified at both ends, without a path of this machine."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ConfigError
from fedcord.data.facts import Stated
from fedcord.experiment.load import load_config
from fedcord.flower.app_folder import AppConfig, write_app

CONFIG = load_config(
    {"algorithm": "fedprox", "clients": 3, "secure": 0.6, "params": {"local": {"lr": 0.5}}}
)


def _read(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def test_an_app_says_the_run_and_nothing_of_this_machine(tmp_path: Path) -> None:
    write_app(tmp_path / "app", AppConfig.of(CONFIG, quorum=0.5))
    text = (tmp_path / "app" / "pyproject.toml").read_text()
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    told = AppConfig.from_run_config(_read(tmp_path / "app")["tool"]["flwr"]["app"]["config"])
    assert told == AppConfig.of(CONFIG, quorum=0.5)
    assert told.config() == CONFIG


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what its command line imports
def test_flower_takes_it_for_an_app(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import get_fab_metadata

    write_app(tmp_path / "app", AppConfig.of(CONFIG))
    assert get_fab_metadata(build_fab_from_disk(tmp_path / "app"))[0] == "fedcord/fedcord-run"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "0.0.9"}, "written by fedcord 0.0.9 and is run by"),
        ({"settings_hash": "0" * 64}, "not those it was written with"),
        ({"settings": "{"}, "are not JSON"),
        ({"settings": '{"algorithm": "fedavgg"}'}, "unknown algorithm"),
    ],
)
def test_another_version_or_other_settings_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(AppConfig.of(CONFIG), **change).config()


def test_an_app_says_what_the_study_says_of_the_data() -> None:
    stated = Stated(input_shape=(6,), class_names=("benign", "malignant"))
    told = AppConfig.of(CONFIG, stated)
    assert AppConfig.from_run_config(told.plain()).stated() == stated
    assert AppConfig.of(CONFIG).stated() == Stated()
    with pytest.raises(ConfigError, match=r"unknown entry of \[task\] 'shape'"):
        replace(told, task='{"shape": [6]}').stated()


def test_an_app_of_somebody_else_is_refused() -> None:
    values = AppConfig.of(CONFIG).plain()
    del values["quorum"]
    with pytest.raises(ConfigError, match="says nothing of 'quorum'; was it written by fedcord"):
        AppConfig.from_run_config(values)
    with pytest.raises(ConfigError, match="cannot be understood"):
        AppConfig.from_run_config({**AppConfig.of(CONFIG).plain(), "data-dirs": "{"})
