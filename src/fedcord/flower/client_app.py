"""The one ClientApp: whatever is asked, the site's node answers.

Flower starts a process for every message. So nothing is kept here: the site is opened anew from its
file, and what clients remember lies in the site's own folder.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedcord.core.errors import ConfigError, FedcordError, ProtocolError
from fedcord.engine.disk_memory import DiskMemory
from fedcord.engine.requests import pack_failure
from fedcord.flower.messages import TERMS, from_records, to_records
from fedcord.site.answering import answer_at_site

SITE, SITES, SITE_FILE = "site", "sites", "site.toml"
"""Where a node finds its file: named by its SuperNode, or by number in the app of a simulation."""

app = ClientApp()
log = logging.getLogger("fedcord.site")


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Hand the bytes to the site, and the site's back; also a failure is an answer."""
    try:
        data, words = from_records(message.content)
        path = site_file(context)
        found = answer_at_site(
            path, words.get(TERMS, ""), data, lambda site, run: DiskMemory(site.memory, run)
        )
        content = to_records(found)
    except FedcordError as error:
        content = to_records(pack_failure(error))
    except Exception as error:  # Flower would send all of its traceback, paths included
        log.exception("the site failed")
        kind = type(error).__name__
        failure = ProtocolError(f"its app failed ({kind}); the site's own log says more.")
        content = to_records(pack_failure(failure))
    return Message(content, reply_to=message)


def site_file(context: Context) -> Path:
    """The file of the site that this process works for."""
    named, simulated = context.node_config.get(SITE), context.run_config.get(SITES)
    if named:
        return Path(str(named))
    if simulated and "partition-id" in context.node_config:
        return Path(str(simulated)) / str(context.node_config["partition-id"]) / SITE_FILE
    raise ConfigError(
        "this SuperNode does not know its site; start it with --node-config 'site=\"site.toml\"'."
    )
