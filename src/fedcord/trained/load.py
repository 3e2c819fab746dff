"""`fedcord.load`: a run's model as an object that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcord.core.contract import ClientId
from fedcord.core.errors import ConfigError
from fedcord.core.task import load_into
from fedcord.core.tensors import select
from fedcord.data.facts import DataFacts
from fedcord.experiment.client_of_run import client_of_run
from fedcord.experiment.config import RunConfig
from fedcord.experiment.finished_run import read_finished
from fedcord.trained.exported import is_exported, read_exported
from fedcord.trained.model import TrainedModel, model_of
from fedcord.trained.program import any_examples
from fedcord.trained.stored_form import Inputs, stored_form

Client = int | str | None
Floats = NDArray[np.floating[Any]]

PROBES, CLOSE = 4, 1e-6
"""Examples on which a network is compared with the model, and by how much it may differ."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The model, or the clients' models, of a finished run.

    Inputs are given as the run's own examples were stored: uint8 images [N, C, H, W] from 0 to 255,
    vectors [N, D] as they are, or token ids [N, L]; a run that knows its words also takes a list of
    texts. They are prepared as the run has prepared its own; the new examples decide nothing.

    Attributes:
        path: where it was loaded from.
        config: the settings of the run.
        metrics: its result: accuracy, bytes, seconds and so on.
        facts: the form of examples, and the names of classes.
    """

    path: Path
    config: RunConfig
    metrics: Mapping[str, Any]
    facts: DataFacts
    _find: Callable[[Client], TrainedModel] = field(repr=False)
    _found: dict[Client, TrainedModel] = field(default_factory=dict, init=False, repr=False)

    @property
    def class_names(self) -> tuple[str, ...]:
        """In the order of scores."""
        return self.facts.class_names

    def model(self, client: Client = None) -> TrainedModel:
        """The model that all share, or that of a client, by number or name."""
        if client not in self._found:
            self._found[client] = self._find(client)
        return self._found[client]

    def scores(self, inputs: Inputs, client: Client = None) -> Floats:
        """Class scores [N, C], the larger the likelier; what they measure depends on the method."""
        found: Floats = self.model(client).scores(stored_form(inputs, self.facts)).numpy()
        return found

    def predict(self, inputs: Inputs, client: Client = None) -> NDArray[np.str_]:
        """The name of each example's class, the one with the highest score."""
        best = self.scores(inputs, client).argmax(axis=1)
        answers: NDArray[np.str_] = np.array(self.class_names)[best]
        return answers

    def predict_proba(self, inputs: Inputs, client: Client = None) -> Floats:
        """Scores as shares that add up to 1, by softmax, which is how a run measures its loss.

        Methods that solve least squares were not made to give probabilities.
        """
        scores = torch.from_numpy(self.scores(inputs, client)).double()
        found: Floats = scores.softmax(dim=1).numpy()
        return found

    def features(self, inputs: Inputs, client: Client = None) -> Floats:
        """What the model makes of examples inside, [N, D], where one network makes it."""
        found: Floats = self.model(client).features(stored_form(inputs, self.facts)).numpy()
        return found

    def network(self, client: Client = None) -> nn.Module:
        """The model as a plain network of prepared inputs, where it is nothing else."""
        found = plain_network(self.model(client))
        if found is None:
            raise ConfigError(
                f"{self.config.algorithm} answers by more than one plain network; use predict, or "
                "export it as a program with 'fedcord export'."
            )
        return found


def load(run: str | Path, data_dirs: Sequence[str | Path] | None = None) -> LoadedModel:
    """The model of a finished run, from its folder alone, or one that was exported.

    Args:
        run: the folder of the run, or of what `fedcord export` wrote.
        data_dirs: where to look for the weights of frozen networks.
    """
    path = Path(run)
    folders = None if data_dirs is None else [Path(folder) for folder in data_dirs]
    if is_exported(path):
        return _exported(path, folders)
    done = read_finished(path, folders)

    def find(given: Client) -> TrainedModel:
        client: ClientId | None = None if given is None else client_of_run(done.partition, given)
        return model_of(done, client)

    return LoadedModel(path, done.config, done.result, done.facts, find)


def _exported(path: Path, folders: Sequence[Path] | None) -> LoadedModel:
    model, description = read_exported(path, folders)

    def find(given: Client) -> TrainedModel:
        own = (None, str(model.moment.client), description.get("client_name"))
        if given is not None and str(given) not in own:
            raise ConfigError(f"client {given}: '{path}' holds one exported model; leave it out.")
        return model

    return LoadedModel(path, model.config, description["result"], model.facts, find)


def plain_network(model: TrainedModel) -> nn.Module | None:
    """The network whose answers are the model's, or None where there is more to it."""
    plan, client = model.plan, model.moment.client
    if plan.encoder is not None:
        return None
    task = plan.task
    network = task.networks[task.architecture(client)](None).eval()
    # a network that only looks alike makes other scores of them
    inputs = model.prepared(any_examples(model.facts, PROBES))
    for tensors in ({**model.shared, **model.memory}, model.memory, model.shared):
        own = select(tensors, "model")
        if own.keys() != network.state_dict().keys():
            continue
        load_into(network, own)
        with torch.inference_mode():
            same = torch.allclose(network(inputs), model.predictor.scores(inputs), atol=CLOSE)
        if same:
            return network
    return None
