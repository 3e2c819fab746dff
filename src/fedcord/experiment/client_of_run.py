"""Which client of a run is meant: by its number, or by its name where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcord.core.contract import ClientId
from fedcord.core.errors import ConfigError, shown, unknown_name
from fedcord.core.names import clients_listed
from fedcord.experiment.records import client_names

MAX_DIGITS = 10


def client_of_run(partition: Mapping[str, Any], given: int | str) -> ClientId:
    """The number of a client; digits are a number.

    Args:
        partition: the content of the run's `partition.json`.
        given: a number or a name.
    """
    names = client_names(partition)
    text = str(given)
    if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS:
        number, count = int(text), partition.get("num_clients")
        if isinstance(count, int) and number >= count:
            called = f" ({clients_listed(names, names)})" if names else ""
            raise ConfigError(
                f"client {number} does not exist; this run has clients 0 to {count - 1}{called}."
            )
        return number
    meant = [client for client, name in names.items() if name == text]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise ConfigError(f"several clients are called '{text}'; give the number of one.")
    if names:
        raise ConfigError(unknown_name("client", text, names.values(), "fedcord inspect"))
    raise ConfigError(f"client {shown(text)}: must be a number; clients of this run have no names.")
