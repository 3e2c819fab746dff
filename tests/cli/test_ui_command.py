from __future__ import annotations

import http.client
import signal
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.command import FEDCORD


def test_it_says_where_it_is_and_ends_quietly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*FEDCORD, "ui", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            place = urlsplit(process.stdout.readline().strip())
            assert (place.scheme, place.hostname) == ("http", "127.0.0.1")
            connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=10)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()
