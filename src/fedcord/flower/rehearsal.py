"""A run over real Flower on this machine: the clients of a named data set, shared out over nodes.

The folder of a run is what it is on every engine. Beside it lies another one, of the same name with
`.sites`, for what nodes keep and processes write; it is removed when the run is finished.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from fedcord.core import errors
from fedcord.core.atomic import write_atomically
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, FedcordError, ProtocolError
from fedcord.data.dataset import Dataset
from fedcord.engine.rounds import RoundRecord
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.finished_run import FinishedRun
from fedcord.experiment.folders import check_folder
from fedcord.experiment.run import Known, Place, Progress
from fedcord.experiment.start_from import first_state
from fedcord.flower.app_folder import AppConfig, write_app
from fedcord.flower.client_app import SITE_FILE
from fedcord.flower.keys import Keys
from fedcord.flower.network import KeptProcess, LocalNetwork
from fedcord.site.site_file import whole_name
from fedcord.store.checksums import RESULT
from fedcord.store.run_folder import RunFolder

LOOK_SECONDS = 0.25
"""Between two looks at how far a run is."""
LAST_WORD_SECONDS = 10.0
"""How long a result may come after the end of the app's log."""
LAST_WRITE_SECONDS = 60.0
"""How long an app may hold its folder when its SuperLink was killed, on a busy machine."""
MAX_NODES = 1024


class Rehearsal:
    """Nodes on this machine, and how to run on them.

    Attributes:
        network: what runs, from the first run on that needs it.
        num_nodes: SuperNodes, or simulated ones.
        simulated: whether they are.
        all_finished: whether every run so far has ended with a result.
        device: where networks run, of the server and of every node; empty: as configured.
    """

    def __init__(
        self, network: LocalNetwork, num_nodes: int, simulated: bool = False, device: str = ""
    ) -> None:
        self.network = network
        self.num_nodes = num_nodes
        self.simulated = simulated
        self.device = device
        self.all_finished = True

    def run(
        self,
        config: RunConfig,
        place: Place,
        watch: Progress,
        dataset: Dataset | None = None,
        start: FinishedRun | None = None,
    ) -> dict[str, Any]:
        """One run; as `experiment.run.run`, with the result of a finished one as it is."""
        assert place.out is not None
        assert dataset is None, "nodes read their data themselves"
        self.all_finished = False
        result = self._run(config, place, watch, start)
        self.all_finished = True
        return result

    def _run(
        self, config: RunConfig, place: Place, watch: Progress, start: FinishedRun | None
    ) -> dict[str, Any]:
        assert place.out is not None
        folder = RunFolder(place.out)
        check_folder(folder, config, resume=place.resume, retry_failed=place.retry_failed)
        if folder.is_finished:
            return folder.read_json(RESULT)
        if folder.is_started:  # Flower's server apps outlive their SuperLink by some seconds
            folder.wait_until_free(LAST_WRITE_SECONDS, watch.note)
        experiment = build_experiment(  # whatever does not fit is told before anything starts
            config, None, place.data_dirs, place.allow_download, watch.feature, watch.download
        )
        if start is not None:
            plan, rounds = experiment.plan, config.rounds or 1
            first_state(config, plan.algorithm, start, Env(plan.task, config.seed, 0, rounds), None)
        self.start_nodes(config, place)
        outcome = self.network.folder / "outcome.json"
        outcome.unlink(missing_ok=True)
        told = AppConfig.of(
            config,
            quorum=place.patience.quorum,
            deadline=place.patience.deadline or 0.0,
            out=str(place.out.absolute()),
            resume=place.resume,
            retry_failed=place.retry_failed,
            metric=place.metric,
            data_dirs=_absolute(place),
            sites=str(self._sites) if self.simulated else "",
            outcome=str(outcome),
            device=self.device,
            start="" if start is None else str(start.path.absolute()),
        )
        app = self.network.folder / "app"
        write_app(app, told)
        watch.started(Known(experiment.plan, experiment.holdings), len(folder.read_metrics()))
        size = f"num-supernodes={self.num_nodes} client-resources-num-cpus=1"
        process = self.network.submit(app, size if self.simulated else "")
        self._follow(process, folder, experiment, watch, outcome)
        return _told(outcome, process)

    def start_nodes(self, config: RunConfig, place: Place) -> None:
        """Have the sites of this run up; a SuperNode serves all runs of a study."""
        for client in range(self.num_nodes):
            file = self._sites / str(client) / SITE_FILE
            write_rehearsing_site(file, config, client, place, self.device)
        self.network.start()
        for client in range(self.num_nodes):
            node = self.network.nodes.get(client)
            if not self.simulated and (node is None or not node.is_running):
                self.network.start_node(client, self._sites / str(client) / SITE_FILE)

    @property
    def _sites(self) -> Path:
        return self.network.folder / "sites"

    def _follow(
        self,
        process: KeptProcess,
        folder: RunFolder,
        experiment: Experiment,
        watch: Progress,
        outcome: Path,
    ) -> None:
        """Tell of rounds as they are written, until the app has ended."""
        seen = len(folder.read_metrics())
        examples = sum(experiment.population.train_sizes)
        ends = None
        while not outcome.exists():
            lines = folder.read_metrics()
            for line in lines[seen:]:
                watch.client(examples)
                watch.round(_as_record(line))
            seen = max(seen, len(lines))
            if not process.is_running:
                ends = ends or time.monotonic() + LAST_WORD_SECONDS
                if time.monotonic() > ends:
                    return
            if self.network.link is not None and not self.network.link.is_running:
                raise ProtocolError(f"the SuperLink has ended: {self.network.link.said()}")
            time.sleep(LOOK_SECONDS)


def write_rehearsing_site(
    path: Path, config: RunConfig, client: int, place: Place, device: str = ""
) -> None:
    """The file of a site that takes a client's share of the run's data set."""
    values = {
        "client": client,
        "data": whole_name(config.dataset, Path.cwd()),
        "partition": config.partition,
        "clients": config.clients,
        "algorithms": [config.algorithm] if ":" in config.algorithm else [],
        "data_dirs": list(_absolute(place)),
        **({"device": device} if device else {}),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, tomli_w.dumps(values))


@contextmanager
def rehearsal(
    root: Path,
    num_nodes: int,
    simulated: bool = False,
    modules: Path | None = None,
    keys: Keys | None = None,
    device: str = "",
) -> Iterator[Rehearsal]:
    """Nodes for as long as somebody needs them; their folder stays where a run is unfinished."""
    folder = root.parent / f"{root.name}.sites"
    with closing(LocalNetwork(folder, simulated, modules, keys)) as network:
        made = Rehearsal(network, num_nodes, simulated, device)
        yield made
    if made.all_finished:
        shutil.rmtree(folder, ignore_errors=True)


def _absolute(place: Place) -> tuple[str, ...]:
    return tuple(str(folder.absolute()) for folder in place.data_dirs or ())


def _as_record(line: dict[str, Any]) -> RoundRecord:
    """What a watcher wants to know of a round's line."""
    return RoundRecord(
        line["round"],
        line.get("clients", 0),
        tuple(line.get("refused", ())),
        line.get("train_loss"),
        line.get("bytes_up", 0),
        line.get("bytes_down", 0),
        line.get("seconds", 0.0),
        None,
        tuple(line.get("notes", ())),
    )


def _told(outcome: Path, process: KeptProcess) -> dict[str, Any]:
    """The result that the server app has left, or what it failed with."""
    try:
        told = json.loads(outcome.read_text())
    except FileNotFoundError:
        raise ProtocolError(
            f"the server app ended without a result (its log is '{process.log}'): "
            f"{process.said()}; --resume goes on from its last checkpoint."
        ) from None
    if "result" in told:
        result: dict[str, Any] = told["result"]
        return result
    kind = getattr(errors, told["error"], ProtocolError)
    problems = told["problems"]
    failed: FedcordError = kind(problems if kind is ConfigError else "\n".join(problems))
    raise failed
