"""`fedcord ui DIR`: a page over a folder of studies that follows runs while they go on."""

from __future__ import annotations

import argparse
import sys

from fedcord.cli.flags import path
from fedcord.core.errors import ConfigError, shown
from fedcord.core.toml import parse_value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("folder", type=path, metavar="DIR", help="folder with studies or runs")
    parser.add_argument(
        "--port", metavar="N", help="port on 127.0.0.1 to listen at (default: a free one)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser, too")


def execute(arguments: argparse.Namespace) -> None:
    """Serve until interrupted; the folder is read and never written to."""
    from fedcord.ui.server import Server

    if not arguments.folder.is_dir():
        raise ConfigError(
            f"'{arguments.folder}' is no folder; name one with studies, such as runs."
        )
    port = 0 if arguments.port is None else parse_value(arguments.port)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ConfigError(f"--port {shown(arguments.port)}: must be a whole number up to 65535.")
    with Server(arguments.folder, port) as server:
        sys.stdout.write(f"{server.address}\nOn this machine only; Ctrl-C ends it.\n")
        sys.stdout.flush()
        if arguments.open:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stdout.write("\n")
