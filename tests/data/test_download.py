"""Downloads against a real HTTP server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedcord.core.errors import DataError
from fedcord.data.download import RemoteFile, download
from fedcord.data.locate import Search, Wanted

BODY = bytes(range(256)) * 12_000  # 3 MB: several chunks
SHA256 = hashlib.sha256(BODY).hexdigest()


@dataclass
class Site:
    """What the server does, and what it was asked."""

    body: bytes = BODY
    ranges: bool = True
    cut_after: int | None = None  # close the connection early, keeping Content-Length
    shift: int = 0  # continue at a wrong byte
    stall: threading.Event | None = None
    requests: list[str | None] = field(default_factory=list)
    url: str = ""


def _handler(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.requests.append(asked)
            if self.path != "/file.bin":
                self.send_error(404)
                return
            start = 0
            if asked and site.ranges:
                start = int(asked.removeprefix("bytes=").removesuffix("-")) + site.shift
                if start >= len(site.body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(site.body)}")
                    self.end_headers()
                    return
                self.send_response(206)
                end = len(site.body) - 1
                self.send_header("Content-Range", f"bytes {start}-{end}/{len(site.body)}")
            else:
                self.send_response(200)
            rest = site.body[start:]
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            if site.stall is not None:
                site.stall.wait(10)
                return
            self.wfile.write(rest if site.cut_after is None else rest[: site.cut_after])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the test output quiet."""

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    site = Site()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}/file.bin"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        if site.stall is not None:
            site.stall.set()
        server.shutdown()
        thread.join()


def _remote(site: Site, checksum: str = f"sha256:{SHA256}", size: int | None = None) -> RemoteFile:
    return RemoteFile(site.url, "set/file.bin", checksum, size)


def test_whole_file_is_fetched_verified_and_reported(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(
        _remote(site), tmp_path, progress=lambda held, total: seen.append((held, total))
    )
    assert path == tmp_path / "set" / "file.bin"
    assert path.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert len(seen) > 1
    assert os.listdir(path.parent) == ["file.bin"]


def test_md5_is_accepted_as_checksum(site: Site, tmp_path: Path) -> None:
    md5 = hashlib.md5(BODY).hexdigest()
    assert download(_remote(site, f"md5:{md5}"), tmp_path).read_bytes() == BODY


def test_complete_file_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    download(_remote(site), tmp_path)
    download(_remote(site), tmp_path)
    assert len(site.requests) == 1


def test_foreign_file_under_the_name_is_refused_and_kept(site: Site, tmp_path: Path) -> None:
    target = tmp_path / "set" / "file.bin"
    target.parent.mkdir()
    target.write_bytes(b"mine")
    with pytest.raises(DataError, match="delete it or move it away"):
        download(_remote(site), tmp_path)
    assert target.read_bytes() == b"mine"
    assert site.requests == []


def test_truncated_transfer_keeps_the_part_and_the_next_call_resumes(
    site: Site, tmp_path: Path
) -> None:
    site.cut_after = 1_500_000
    with pytest.raises(
        DataError, match=r"ended after 1500000 of 3072000 bytes.*next try continues"
    ):
        download(_remote(site), tmp_path)
    part = tmp_path / "set" / "file.bin.part"
    assert part.read_bytes() == BODY[:1_500_000]
    assert not (tmp_path / "set" / "file.bin").exists()
    site.cut_after = None
    assert download(_remote(site), tmp_path).read_bytes() == BODY
    assert site.requests == [None, "bytes=1500000-"]
    assert not part.exists()


def test_interruption_by_the_user_can_be_resumed(site: Site, tmp_path: Path) -> None:
    def interrupt(held: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(_remote(site), tmp_path, progress=interrupt)
    held = (tmp_path / "set" / "file.bin.part").stat().st_size
    assert 0 < held < len(BODY)
    assert download(_remote(site), tmp_path).read_bytes() == BODY
    assert site.requests[1] == f"bytes={held}-"


def test_server_without_ranges_starts_again_cleanly(site: Site, tmp_path: Path) -> None:
    _leave_part(tmp_path, b"x" * 2_000_000)
    site.ranges = False
    assert download(_remote(site), tmp_path).read_bytes() == BODY


def test_server_that_continues_elsewhere_starts_again_cleanly(site: Site, tmp_path: Path) -> None:
    _leave_part(tmp_path, BODY[:100])
    site.shift = 7
    assert download(_remote(site), tmp_path).read_bytes() == BODY
    assert site.requests == ["bytes=100-", None]


def test_complete_part_is_only_verified(site: Site, tmp_path: Path) -> None:
    _leave_part(tmp_path, BODY)
    assert download(_remote(site), tmp_path).read_bytes() == BODY


def test_part_longer_than_the_file_starts_again_cleanly(site: Site, tmp_path: Path) -> None:
    _leave_part(tmp_path, BODY + b"more")
    assert download(_remote(site), tmp_path).read_bytes() == BODY


def test_wrong_checksum_deletes_the_part(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"has sha256 {SHA256}, expected {'0' * 64}.*was deleted"):
        download(_remote(site, f"sha256:{'0' * 64}"), tmp_path)
    assert os.listdir(tmp_path / "set") == []


def test_wrong_size_is_refused_before_the_bytes_are_fetched(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="offers 3072000 bytes, the official file has 5"):
        download(_remote(site, size=5), tmp_path)
    assert (tmp_path / "set" / "file.bin.part").stat().st_size == 0


def test_missing_page_is_reported(site: Site, tmp_path: Path) -> None:
    remote = RemoteFile(f"{site.url}.gone", "file.bin", f"sha256:{SHA256}")
    with pytest.raises(DataError, match="answered 404 Not Found; fetch the file by hand"):
        download(remote, tmp_path)


def test_refused_connection_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    remote = RemoteFile(f"http://127.0.0.1:{port}/file.bin", "file.bin", f"sha256:{SHA256}")
    with pytest.raises(
        DataError, match=r"could not be fetched \(.*refused.*\); check the network\."
    ):
        download(remote, tmp_path)


def test_silent_server_is_given_up(site: Site, tmp_path: Path) -> None:
    site.stall = threading.Event()
    with pytest.raises(DataError, match=r"could not be fetched .*timed out"):
        download(_remote(site), tmp_path, timeout=0.2)


def test_only_web_addresses_are_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only https and http addresses"):
        download(RemoteFile("file:///etc/hostname", "x", "sha256:0"), tmp_path)


def test_folder_that_cannot_be_written_is_reported(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set").write_bytes(b"a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot write to .*set.*choose a writable data folder"):
        download(_remote(site), tmp_path)


def test_two_threads_share_one_download(site: Site, tmp_path: Path) -> None:
    results: list[bytes] = []

    def fetch() -> None:
        results.append(download(_remote(site), tmp_path).read_bytes())

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [BODY] * 3
    assert len(site.requests) == 1


def test_allowed_search_fetches_and_unpacks_what_is_missing(site: Site, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {"../../evil/a.bin": b"aa", "deep/b.bin": b"b", "c.bin": b"c"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    site.body = packed.getvalue()
    remote = RemoteFile(
        site.url,
        "archive.tar.gz",
        f"sha256:{hashlib.sha256(site.body).hexdigest()}",
        members=("a.bin", "b.bin"),
        unpack_to="unpacked",
    )
    wanted = Wanted("thing", ("unpacked",), (("a.bin",), ("b.bin",)), (remote,))
    folder = tmp_path / "data"
    found = Search((folder,), allow_download=True).require(wanted)
    assert found.path == folder / "unpacked"
    assert {p.name: p.read_bytes() for p in found.path.iterdir()} == {"a.bin": b"aa", "b.bin": b"b"}
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()].count("a.bin") == 1
    assert not (folder / "archive.tar.gz").exists()
    Search((folder,), allow_download=True).require(wanted)
    assert len(site.requests) == 1


def _leave_part(tmp_path: Path, data: bytes) -> None:
    part = tmp_path / "set" / "file.bin.part"
    part.parent.mkdir()
    part.write_bytes(data)
