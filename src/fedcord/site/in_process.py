"""Sites on one machine and in one process: a deployment without the network.

Nothing but bytes passes between the server and a site, every message opens the site's file anew,
and what is remembered lies in the site's own folder, as it would behind a network.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from fedcord.engine.transport import Transport
from fedcord.engine.transports.wire import WireTransport
from fedcord.experiment.survey import Sites
from fedcord.experiment.terms import Terms
from fedcord.site.answering import MakeStore, answer_at_site, on_disk


def sites_here(files: Sequence[Path], store: MakeStore = on_disk) -> Sites:
    """The way to the sites of these files; their nodes are numbered in this order."""

    def reach(terms: Terms) -> Transport:
        text = terms.to_json()

        def handler(path: Path, call: bytes) -> bytes:
            return answer_at_site(path, text, call, store)

        handlers = {node: functools.partial(handler, path) for node, path in enumerate(files)}
        return WireTransport(handlers, are_sites=True)

    return Sites(reach, name="in process")
