"""What a server sends ahead of everything else, so that a site can make its node: the terms.

They hold the run's settings and, once it is agreed, what the task is. A site makes the same
algorithm and the same task from them, and answers for its version.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.errors import ConfigError, DataError, ProtocolError, shown
from fedcord.core.version import __version__
from fedcord.data.facts import DataFacts
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config

MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Terms:
    """The terms of a run.

    Attributes:
        config: the settings.
        facts: what was agreed about the data; None before, in a survey.
        run: identity of the run, which tells it from an earlier one with the same settings.
        version: the server's.
    """

    config: RunConfig
    facts: DataFacts | None = None
    run: str = ""
    version: str = __version__

    def __post_init__(self) -> None:
        """Refuse, at the server and at every site, methods that no site should be asked for."""
        method = self.config.method
        if method is not None and method.traits.gathers_examples:
            raise ConfigError(
                f"{self.config.algorithm} has clients send their training examples, so raw data "
                "would leave the sites; it is a bound for simulations. Simulate it on data you "
                "hold, or choose another method for the sites."
            )

    def to_json(self) -> str:
        """As text; the inverse of `from_json`."""
        facts = None if self.facts is None else self.facts.plain()
        values = {"version": self.version, "run": self.run, "config": self.config.plain()}
        return json.dumps({**values, "facts": facts}, sort_keys=True)

    @staticmethod
    def from_json(text: str, allowed: Collection[str] = ()) -> Terms:
        """What `to_json` was made from, every value checked.

        Args:
            text: from the server.
            allowed: methods beside the registered ones whose modules may be imported.
        """
        values = _read(text)
        version = str(values.get("version"))
        if version != __version__:  # before anything else: others have other settings
            raise ProtocolError(
                f"the server has fedcord {version} and this site {__version__}; install the same "
                "version."
            )
        try:
            settings, facts = dict(values["config"]), values["facts"]
            method = settings["algorithm"]
            if method not in ALGORITHMS and method not in allowed:
                raise ConfigError(
                    f"{shown(method)} is no method of fedcord's; if this site trusts it, add it "
                    "to algorithms in site.toml."
                )
            config = load_config(settings)
            agreed = None if facts is None else DataFacts.from_plain(facts)
            return Terms(config, agreed, str(values["run"]), version)
        except (KeyError, TypeError, ValueError, ConfigError, DataError) as error:
            raise ProtocolError(f"the terms of the run cannot be used here: {error}") from error


def _read(text: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise ProtocolError(f"the terms of a run have {len(text):,} bytes; they are something else")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the terms of a run are not JSON ({error}).") from error
    if not isinstance(values, dict):
        raise ProtocolError("the terms of a run are not a JSON object.")
    return values
