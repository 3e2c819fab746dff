"""The page over HTTP, for browsers on this machine and nobody else.

Three addresses, all read only: `/` the page, `/state.json` what it shows, `/report?study=NAME` the
report of a study. No address is ever turned into a path. The server listens on the loopback address
and answers only requests that name it so: a page elsewhere whose own name points to 127.0.0.1 is
refused. Reports may come from others' folders, so they are shown in a sandbox that can read nothing
here.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from fedcord.core.errors import ConfigError
from fedcord.core.regular_files import read_regular
from fedcord.ui.follow import Follower

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
NONCE = "NONCE-OF-THIS-ANSWER"
"""Where the page has a place for one."""
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; font-src data:"
)


def page_policy(nonce: str) -> str:
    """What the page itself may do: its own script and style, and asking this server."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class Server(ThreadingHTTPServer):
    """Serves one folder until it is shut down."""

    daemon_threads = True

    def __init__(self, root: Path, port: int) -> None:
        self.follower = Follower(root)
        self.looking = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (PermissionError, OverflowError) as error:
            raise ConfigError(
                f"--port {port} cannot be used here ({error}); choose one from 1024 to 65535, or "
                "leave it out."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"port {port} is taken ({error.strerror}); choose another with --port, or leave "
                "it out."
            ) from error

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://{LOOPBACK}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "fedcord", ""
    timeout = 30  # seconds for a request that never ends

    def do_GET(self) -> None:
        if not self._is_addressed_here():
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 and localhost")
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._send_page()
        elif asked.path == "/state.json":
            self._send_state()
        elif asked.path == "/report":
            self._send_report(parse_qs(asked.query).get("study", [""])[0])
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    do_HEAD = do_GET  # noqa: N815

    def _only_reading(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this server can only be read")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _only_reading  # noqa: N815

    def _is_addressed_here(self) -> bool:
        return self.headers.get("Host", "") in {f"{n}:{self.server.server_port}" for n in NAMES}

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(18)
        text = files("fedcord.ui").joinpath("page.html").read_text(encoding="utf-8")
        body = text.replace(NONCE, nonce).encode()
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", body, page_policy(nonce))

    def _send_state(self) -> None:
        with self.server.looking:  # several windows share one look at the disk
            body = json.dumps(self.server.follower.look(), allow_nan=False).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            self._send(HTTPStatus.NOT_MODIFIED, None, b"", "default-src 'none'", tag)
            return
        self._send(HTTPStatus.OK, "application/json", body, "default-src 'none'", tag)

    def _send_report(self, study: str) -> None:
        with self.server.looking:
            self.server.follower.look()
            page = self.server.follower.report_of(study)
        try:
            body = None if page is None else read_regular(page)
        except OSError:  # written anew this very moment, or not ours to read
            body = None
        if body is None:
            self._refuse(HTTPStatus.NOT_FOUND, "no such study, or it has no report yet")
            return
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", body, REPORT_POLICY)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{why}\n".encode(), "default-src 'none'")

    def _send(
        self, status: HTTPStatus, kind: str | None, body: bytes, policy: str, tag: str = ""
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": None if status == HTTPStatus.NOT_MODIFIED else str(len(body)),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store" if not tag else "no-cache",
            "Cross-Origin-Resource-Policy": "same-origin",
            "ETag": tag or None,
        }
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server's name)
        """Nothing: the terminal is for the address, not for every look."""
