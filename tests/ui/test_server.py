"""A real server on a free port, asked by a real client."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.ui.server import Server
from tests.cli.command import fedcord
from tests.ui.conftest import GrowingRun, Running


def test_the_state_grows_with_the_run(running: Running, growing: GrowingRun) -> None:
    assert json.loads(running.ask("/state.json").body)["studies"] == []
    growing.begin()
    growing.add_rounds(2)
    (study,) = json.loads(running.ask("/state.json").body)["studies"]
    assert [run["rounds"] for run in study["runs"]] == [2]
    growing.finish()
    ended = running.ask("/state.json")
    (study,) = json.loads(ended.body)["studies"]
    assert study["runs"][0]["state"] == "finished"
    again = running.ask("/state.json", If_None_Match=ended.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


def test_the_page_asks_nobody_else_and_runs_only_its_own_script(running: Running) -> None:
    page = running.ask("/")
    text = page.body.decode()
    assert page.status == 200
    assert not re.search(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    (nonce,) = set(re.findall(r'nonce="([^"]+)"', text))
    policy = page.headers["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonce}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert nonce not in running.ask("/").body.decode()
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert danger not in text


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/../secret.txt",
        "/study/fedavg/seed-0/config.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/report?study=../..",
        "/report?study=%2Fetc",
        "/report?study=study/../study",
        "/report",
    ],
)
def test_no_path_leads_to_a_file(running: Running, growing: GrowingRun, path: str) -> None:
    growing.begin()
    (growing.folder.parents[1] / "report.html").write_text("<p>a report</p>")
    answer = running.ask(path)
    assert answer.status == 404
    assert b"secret" not in answer.body


def test_a_report_is_shown_in_a_sandbox(running: Running, growing: GrowingRun) -> None:
    growing.begin()
    assert running.ask("/report?study=study").status == 404
    page = growing.folder.parents[1] / "report.html"
    page.write_text("<p>a report</p>")
    answer = running.ask("/report?study=study")
    assert (answer.status, answer.body) == (200, b"<p>a report</p>")
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts ")
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
    page.unlink()
    outside = growing.source / "result.json"
    page.symlink_to(outside)
    assert running.ask("/report?study=study").status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "", "0.0.0.0:1"])
def test_requests_under_another_name_are_refused(running: Running, host: str) -> None:
    for path in ("/", "/state.json"):
        answer = running.ask(path, Host=host)
        assert answer.status == 403
        assert b"studies" not in answer.body
    right = f"localhost:{running.server.server_port}"
    assert running.ask("/state.json", Host=right).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_can_only_be_read(running: Running, method: str) -> None:
    assert running.ask("/state.json", method).status == 405


def test_heads_have_no_body(running: Running) -> None:
    answer = running.ask("/", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_it_listens_on_the_loopback_address_only(running: Running) -> None:
    assert running.server.server_address[0] == "127.0.0.1"
    assert running.server.address == f"http://127.0.0.1:{running.server.server_port}/"


def test_bad_ports_and_folders_are_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} is taken"):
            Server(tmp_path, port)
    for words, said in (
        (("ui", "nowhere"), "'nowhere' is no folder"),
        (("ui", ".", "--port", "99999"), "must be a whole number up to 65535"),
        (("ui", ".", "--port", "x"), "must be a whole number up to 65535"),
    ):
        done = fedcord(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
