"""A finished run as its folder holds it: settings, task, and the states it ended with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedcord.core.contract import ClientId
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.core.names import client_said, clients_listed
from fedcord.core.tensors import Tensors
from fedcord.data.facts import DataFacts
from fedcord.experiment.build import build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.deployment import MEMBERS
from fedcord.experiment.holdings import TASK
from fedcord.experiment.load import OWN_DATA, load_config
from fedcord.experiment.records import client_names
from fedcord.store.checkpoint import Checkpoint, load_final
from fedcord.store.checksums import PARTITION, PROVENANCE, RESULT
from fedcord.store.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """All that a folder says of a run, compared with its checksums.

    Attributes:
        path: of the folder.
        config: the settings.
        partition: the content of `partition.json`.
        provenance: the content of `provenance.json`.
        metrics: one line per round.
        result: the content of `result.json`.
        checkpoint: what it ended with.
        data_dirs: where to look for data and weights.
    """

    path: Path
    config: RunConfig
    partition: Mapping[str, Any]
    provenance: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    result: Mapping[str, Any]
    checkpoint: Checkpoint
    data_dirs: Sequence[Path] | None = None

    @property
    def names(self) -> dict[ClientId, str]:
        """What clients are called."""
        return client_names(self.partition)

    @property
    def is_over_sites(self) -> bool:
        """Whether clients were sites, which keep their own parts of the model themselves."""
        return MEMBERS in self.partition

    @cached_property
    def facts(self) -> DataFacts:
        """Of the task, as recorded; in older folders, made again from the data set it names."""
        return _facts(self.path, self.config, self.partition, self.provenance, self.data_dirs)

    def memory(self, client: ClientId | None) -> Tensors:
        """What a client alone has of the model; nothing for the one that all share."""
        return {} if client is None else self.checkpoint.memories.get(client, {})

    def check_client(self, client: ClientId | None) -> None:
        """Refuse a model that does not exist."""
        traits, has_model = self.config.method.traits, sorted(self.checkpoint.memories)
        is_own = traits.keeps_own_models or (client is not None and traits.personalizes)
        if not is_own or client in has_model:
            return
        who = f"{self.config.algorithm}" if client is None else client_said(client, self.names)
        if self.is_over_sites:
            raise ConfigError(
                f"{who}: the models of {self.config.algorithm} are with the sites, where they were "
                "made; use 'fedcord site predict' there."
            )
        has = clients_listed(has_model, self.names) or "none"
        if client is None:
            raise ConfigError(
                f"{who} makes a model for every client and none for all; choose a client with "
                f"--client ({has})."
            )
        raise ConfigError(
            f"{who} has no model in this run, because it did not take part; these have: {has}."
        )


def read_finished(run: Path, data_dirs: Sequence[Path] | None = None) -> FinishedRun:
    """What the folder of a finished run holds.

    Nothing is loaded but the folder, unless it is of a version that did not record the task: then
    the task is made again from the data set that it names.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(
            f"'{run}' holds no finished run; name the folder of one run, such as "
            "runs/demo/afl/seed-0, or finish it with --resume first."
        )
    is_verified = folder.check()
    config = load_config(folder.read_config())
    partition, origin = folder.read_json(PARTITION), folder.read_json(PROVENANCE)
    result = folder.read_json(RESULT)
    saved = final_checkpoint(folder, config, result, is_verified and MEMBERS not in partition)
    metrics = folder.read_metrics()
    return FinishedRun(run, config, partition, origin, metrics, result, saved, data_dirs)


def final_checkpoint(
    folder: RunFolder, config: RunConfig, result: Mapping[str, Any], is_whole: bool
) -> Checkpoint:
    """What a run ended with.

    Args:
        folder: of the run.
        config: its settings.
        result: what came out.
        is_whole: whether the folder holds all that the result's hash is of; sites keep their own
            parts, and older versions wrote no checksums.
    """
    saved = load_final(folder.path, config.hash)
    if saved is None:
        raise CheckpointError(f"'{folder.path}' has no checkpoint; run it again.")
    if is_whole and saved.hash != result.get("state_hash"):
        raise CheckpointError(
            f"the newest checkpoint in '{folder.path}' is not the state that its result is of; "
            "restore the folder from a copy, or delete it and run again."
        )
    return saved


def _facts(
    run: Path,
    config: RunConfig,
    partition: Mapping[str, Any],
    origin: Mapping[str, Any],
    data_dirs: Sequence[Path] | None,
) -> DataFacts:
    if TASK in partition:
        try:
            return DataFacts.from_plain(partition[TASK])
        except (TypeError, AttributeError, ConfigError, DataError) as error:
            raise CheckpointError(
                f"'{run / PARTITION}' does not say how examples are prepared ({error}); restore "
                "the folder from a copy, or run again."
            ) from error
    missing = (
        f"'{run}' is of a version that did not record how examples are prepared and what classes "
        "are called"
    )
    if config.dataset.startswith(OWN_DATA):
        raise CheckpointError(f"{missing}, and its data was passed as an object; run it again.")
    try:
        experiment = build_experiment(config, data_dirs=data_dirs)
    except DataError as error:
        raise CheckpointError(
            f"{missing}; that can be made again from the data set '{config.dataset}', but: {error}"
        ) from error
    if experiment.data_hash != origin.get("data_hash"):
        raise CheckpointError(
            f"{missing}, and the data set '{config.dataset}' is not what it was then; restore that "
            "data, or run again."
        )
    return experiment.plan.facts
