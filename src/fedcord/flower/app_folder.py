"""The app that a coordinator starts: a folder for `flwr run`.

It holds no code. Both ends run the fedcord that is installed there, and refuse to work with another
version or other settings than the app was written with.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import ConfigError
from fedcord.core.version import __version__
from fedcord.data.facts import Stated
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.metrics.registry import DEFAULT

SERVER, CLIENT = "fedcord.flower.server_app:app", "fedcord.flower.client_app:app"
WAIT_SECONDS = 300.0


@dataclass(frozen=True)
class AppConfig:
    """What an app says, beside where its two halves are; `flwr run -c 'NAME=VALUE'` changes it.

    Attributes:
        settings: the run's settings, as JSON.
        settings_hash: of the settings, so that nobody changes them by accident.
        task: what the study says of the data, as JSON; the sites' answers must fit it.
        version: of fedcord, at both ends.
        wait: seconds to wait until every client's node is there, before it goes on without.
        quorum: the share of clients that must answer for a round to count.
        deadline: seconds a round waits for answers; 0: no limit.
        out: the run folder, relative to where the SuperLink was started; empty: a new one.
        resume: go on with what the folder holds.
        retry_failed: also with a run that has failed.
        metric: what reports of the run are about; it is measured in every evaluated round.
        data_dirs: where the server looks for the weights of frozen networks.
        sites: a folder with the sites' files by number, for simulated nodes.
        outcome: a file to write the result to, for whoever waits for it.
        device: where the server's own networks run; empty: as the settings say.
        start: folder of the run whose state this one begins with; empty: a state of its own.
    """

    settings: str
    settings_hash: str
    task: str = "{}"
    version: str = __version__
    wait: float = WAIT_SECONDS
    quorum: float = 1.0
    deadline: float = 0.0
    out: str = ""
    resume: bool = False
    retry_failed: bool = False
    metric: str = DEFAULT
    data_dirs: tuple[str, ...] = ()
    sites: str = ""
    outcome: str = ""
    device: str = ""
    start: str = ""

    @staticmethod
    def of(config: RunConfig, stated: Stated | None = None, **more: Any) -> AppConfig:
        """For a run with these settings, over data of which this is stated."""
        known = {} if stated is None else dataclasses.asdict(stated)
        task = {name: value for name, value in known.items() if value is not None}
        settings = json.dumps(config.plain(), sort_keys=True)
        return AppConfig(settings, config.hash, json.dumps(task, sort_keys=True), **more)

    def config(self) -> RunConfig:
        """The settings, if they and the version are those the app was written with."""
        if self.version != __version__:
            raise ConfigError(
                f"this app was written by fedcord {self.version} and is run by {__version__}; "
                "install that version, or write the app anew with `fedcord flower app`."
            )
        config = load_config(_object(self.settings))
        if config.hash != self.settings_hash:
            raise ConfigError(
                "the settings in this app are not those it was written with; write it anew with "
                "`fedcord flower app`."
            )
        return config

    def stated(self) -> Stated:
        """What the study says of the data."""
        return Stated.from_plain(_object(self.task))

    def plain(self) -> dict[str, Any]:
        """As Flower's run configuration holds it: words, numbers, and nothing nested."""
        values = dataclasses.asdict(self) | {"data_dirs": json.dumps(self.data_dirs)}
        return {name.replace("_", "-"): value for name, value in values.items()}

    @staticmethod
    def from_run_config(values: Mapping[str, Any]) -> AppConfig:
        """The inverse of `plain`."""
        found: dict[str, Any] = {}
        for field in dataclasses.fields(AppConfig):
            name = field.name.replace("_", "-")
            if name not in values:
                raise ConfigError(f"the app says nothing of '{name}'; was it written by fedcord?")
            found[field.name] = values[name]
        try:
            found["data_dirs"] = tuple(map(str, json.loads(found["data_dirs"])))
            return AppConfig(**found)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"what the app says cannot be understood ({error}).") from error


def _object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the settings in this app are not JSON ({error}).") from error
    return values


def write_app(folder: Path, told: AppConfig, name: str = "fedcord-run") -> None:
    """Write the app into `folder`, which must be empty or new."""
    folder.mkdir(parents=True, exist_ok=True)
    project = {
        "project": {
            "name": name,
            "version": "1.0.0",
            "description": f"A run of fedcord {told.version}, settings {told.settings_hash[:16]}.",
            "dependencies": [],
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "fedcord",
                    "components": {"serverapp": SERVER, "clientapp": CLIENT},
                    "config": told.plain(),
                }
            }
        },
    }
    write_atomically(folder / "pyproject.toml", tomli_w.dumps(project))
