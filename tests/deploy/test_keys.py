"""With keys and certificates a run works; without, nobody gets in, and nobody gets a byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.keys import Keys, make_keys
from fedcord.flower.network import KeptProcess, LocalNetwork, free_ports
from fedcord.flower.rehearsal import rehearsal
from tests.deploy.processes import PATIENCE


class CountingProxy:
    """Passes bytes on and counts those that come back from the SuperLink."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self._listener.accept()
                ours = socket.create_connection(("127.0.0.1", self._target))
                for source, target in ((theirs, ours), (ours, theirs)):
                    pair = (source, target, source is ours)
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.received += len(data) if counts else 0
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def counted(port: int) -> Iterator[CountingProxy]:
    proxy = CountingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def _stranger(network: LocalNetwork, name: str, words: list[str], site: Path) -> KeptProcess:
    port = str(free_ports(1)[0])
    command = ["flower-supernode", *words, "--host", "127.0.0.1", "--port", port]
    return network.keep(name, [*command, "--node-config", f'site="{site}"'])


def test_sites_with_keys_are_let_in_and_nobody_else_gets_a_byte(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys", ["north", "south"])
    others = make_keys(tmp_path / "others", ["north"])
    settings = {"algorithm": "fedavg", "dataset": "digits", "subset": 300, "clients": 2}
    config = load_config({**settings, "rounds": 1, "model": "mlp:512", "validation": 0.0})
    expected = run(config, Place(tmp_path / "sequential"))
    model_bytes = expected["bytes_down"] // 2
    assert model_bytes > 100_000
    with rehearsal(tmp_path / "run", 2, keys=Keys.read(tmp_path / "keys")) as local:
        network = local.network
        network.start()
        port = int(network.address.rpartition(":")[2])
        sites = network.folder / "sites" / "0" / "site.toml"
        with counted(port) as keyless, counted(port) as unknown, counted(port) as distrusting:
            strangers = {
                "keyless": (keyless, ["--root-certificates", str(keys.ca)]),
                "unknown": (
                    unknown,
                    [
                        *("--root-certificates", str(keys.ca)),
                        *("--auth-supernode-private-key", str(others.private("north"))),
                    ],
                ),
                "distrusting": (
                    distrusting,
                    [
                        *("--root-certificates", str(others.ca)),
                        *("--auth-supernode-private-key", str(keys.private("north"))),
                    ],
                ),
            }
            started = {
                name: _stranger(network, name, [*words, "--superlink", proxy.address], sites)
                for name, (proxy, words) in strangers.items()
            }
            found = local.run(config, Place(tmp_path / "run"), Progress())
            for name, (proxy, _) in strangers.items():
                started[name].keeper.wait(PATIENCE)  # refused, it ends by itself
                assert 0 < proxy.received < 20_000, name
    assert found["state_hash"] == expected["state_hash"]
    assert found["clients"] == 2
