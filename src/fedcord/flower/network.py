"""A SuperLink and SuperNodes as processes on this machine, for as long as somebody needs them.

Everything they write lies in one folder. Nothing of theirs outlives us for long, however we end:
each is held by a process that ends it when its pipe from here does. What a SuperLink has started in
a session of its own, the server app, ends itself some seconds after it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import ProtocolError
from fedcord.flower.keys import Keys

KEEPER = str(Path(__file__).with_name("kept_process.py"))
HERE = "127.0.0.1"
START_SECONDS = 120.0
"""A SuperLink that takes longer on a busy machine will not come."""
LOG_LINES = 6
"""Of a process's log, in a message that it has failed."""
CONNECTION = "fedcord"
"""Name of the SuperLink in Flower's configuration."""

ALONE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Flower's words for: talk to nobody outside, install nothing."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class KeptProcess:
    """A command that runs, and its keeper.

    Attributes:
        name: what people call it.
        keeper: ends the command when we close its input.
        pid: of the command itself.
        log: where it writes.
    """

    name: str
    keeper: subprocess.Popen[bytes]
    pid: int
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.keeper.poll() is None

    def said(self) -> str:
        """The end of its log, for a message."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " | ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())

    def let_go(self) -> None:
        """Have it end; somebody must still wait for that."""
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()


class LocalNetwork:
    """A SuperLink and its SuperNodes; whoever makes it must close it."""

    def __init__(
        self,
        folder: Path,
        simulated: bool = False,
        modules: Path | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            folder: for everything that is written, logs and Flower's own files among it.
            simulated: whether Flower's simulation engine takes the place of SuperNodes.
            modules: where a user's own algorithm is found.
            keys: of the server and the sites, which then let in nobody else; None: everybody on
                this machine can come, and nothing is encrypted.
        """
        self.folder = folder.absolute()
        self._simulated = simulated
        self._keys = keys
        self._modules = [] if modules is None else [str(modules.absolute())]
        self.nodes: dict[int, KeptProcess] = {}
        self.link: KeptProcess | None = None
        self._started: list[KeptProcess] = []
        self._home = self.folder / "flower"
        self._port = 0

    def start(self) -> None:
        """Start the SuperLink, unless it runs."""
        if self.link is not None and self.link.is_running:
            return
        self._home.mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        if not self._port:
            (self._port,) = free_ports(1)
        self._start_link()

    @property
    def address(self) -> str:
        """Where the SuperLink listens."""
        return f"{HERE}:{self._port}"

    def _start_link(self) -> None:
        """Wait until it listens."""
        keys = self._keys
        connection: dict[str, str | bool] = {"address": self.address}
        if keys is None:
            connection["insecure"] = True
            secured = ["--insecure"]
        else:
            connection["root-certificates"] = str(keys.ca)
            secured = ["--ssl-ca-certfile", str(keys.ca), "--ssl-certfile", str(keys.server)]
            secured += ["--ssl-keyfile", str(keys.server_key), "--enable-supernode-auth"]
        values = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        write_atomically(self._home / "config.toml", tomli_w.dumps(values))
        command = ["flower-superlink", *secured, "--host", HERE, "--port", str(self._port)]
        # so that SuperNodes find their SuperLink again when it was killed and started again
        command += ["--database", str(self._home / "link.sqlite")]
        command += ["--simulation"] if self._simulated else []
        self.link = self.keep("SuperLink", command)
        ends = time.monotonic() + START_SECONDS
        while not _listens(self._port):
            if not self.link.is_running or time.monotonic() > ends:
                raise ProtocolError(f"the SuperLink did not start: {self.link.said()}")
            time.sleep(0.1)
        if keys is not None:
            self._register(keys)

    def _register(self, keys: Keys) -> None:
        """Tell the SuperLink of every site; it lets in no other."""
        for name in keys.sites:
            command = ["flwr", "supernode", "register", str(keys.public(name)), CONNECTION]
            registering = self.keep(f"registration of {name}", command)
            if registering.keeper.wait() != 0:
                raise ProtocolError(f"site {name} could not be registered: {registering.said()}")

    def start_node(self, number: int, site: Path) -> KeptProcess:
        """Start a SuperNode for a site's file; it takes a while until it is connected."""
        (port,) = free_ports(1)
        words = f"site={quoted(str(site))}"
        if self._keys is None:
            secured = ["--insecure"]
        else:
            key = self._keys.private(self._keys.sites[number])
            secured = ["--root-certificates", str(self._keys.ca)]
            secured += ["--auth-supernode-private-key", str(key)]
        command = ["flower-supernode", *secured, "--superlink", self.address]
        command += ["--host", HERE, "--port", str(port), "--node-config", words]
        self.nodes[number] = self.keep(f"SuperNode {number}", command)
        return self.nodes[number]

    def submit(self, app: Path, federation: str = "") -> KeptProcess:
        """Start the app in a folder; the process ends when the app does, and has its log.

        Args:
            app: the folder.
            federation: how large a simulated one is, in Flower's words.
        """
        command = ["flwr", "run", str(app), CONNECTION, "--stream"]
        return self.keep(
            "app", command + (["--federation-config", federation] if federation else [])
        )

    def keep(self, name: str, command: Sequence[str]) -> KeptProcess:
        """Start one of Flower's commands, which ends when we do."""
        log = self.folder / "logs" / f"{name.replace(' ', '-').lower()}.log"
        programs = str(Path(sys.executable).parent)
        paths = [path for path in [os.environ.get("PYTHONPATH")] if path]
        keeper = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", KEEPER, str(log), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for us, who then end the others
            env={
                **os.environ,
                **ALONE,
                **ONE_THREAD,
                "FLWR_HOME": str(self._home),
                "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
                "PYTHONPATH": os.pathsep.join(self._modules + paths),
            },
        )
        assert keeper.stdout is not None
        with keeper.stdout as told:
            first = told.readline()
        if not first:
            raise ProtocolError(f"{name} could not be started ({command[0]}).")
        process = KeptProcess(name, keeper, int(first), log)
        self._started.append(process)
        return process

    def close(self) -> None:
        """End everything: nodes first, which otherwise would look for their SuperLink."""
        others = [process for process in self._started if process is not self.link]
        for group in (others, [self.link] if self.link in self._started else []):
            for process in group:
                process.let_go()
            for process in group:
                process.keeper.wait()
        self._started = []


def quoted(value: str) -> str:
    """A word as Flower's command lines take it."""
    if '"' in value or "\\" in value:
        raise ProtocolError(f"Flower's command line cannot take {value!r}.")
    return f'"{value}"'


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((HERE, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex((HERE, port)) == 0
