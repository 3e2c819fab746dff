"""A model as a run has left it, with all that turns stored examples into its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from fedcord.algorithms.analytic.features import network_features
from fedcord.core.contract import ClientId, Env, Predictor
from fedcord.core.device import CPU
from fedcord.core.errors import ConfigError, NumericalError
from fedcord.core.prediction import make_predictor
from fedcord.core.tensors import Tensors
from fedcord.data.facts import DataFacts
from fedcord.engine.evaluation import BATCH
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Plan, make_plan
from fedcord.experiment.config import RunConfig
from fedcord.experiment.finished_run import FinishedRun


@dataclass(frozen=True)
class Moment:
    """When and where in its run a model was made: the address of its random numbers.

    Attributes:
        seed: the run's.
        round: its last, from 0.
        num_rounds: how many it had.
        client: whose model it is; None for the one that all share.
    """

    seed: int
    round: int
    num_rounds: int
    client: ClientId | None = None

    @staticmethod
    def after(rounds: int, seed: int, client: ClientId | None = None) -> Moment:
        """The end of a run of so many rounds."""
        return Moment(seed, max(rounds - 1, 0), rounds, client)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model and how examples are prepared for it; the examples it is asked about decide nothing.

    Attributes:
        config: the settings of its run.
        facts: the form of its examples, their constants and the names of its classes.
        shared: what all clients have of it.
        memory: what its client alone has; empty for the model that all share.
        moment: when it was made.
        data_dirs: where to look for the weights of frozen networks.
    """

    config: RunConfig
    facts: DataFacts
    shared: Tensors
    memory: Tensors
    moment: Moment
    data_dirs: Sequence[Path] | None = None

    @cached_property
    def plan(self) -> Plan:
        """Method and task, on the CPU: whoever asks a model need not have what trained it."""
        return make_plan(replace(self.config, device=CPU), self.facts, self.data_dirs)

    @cached_property
    def predictor(self) -> Predictor:
        """What answers prepared inputs."""
        at = self.moment
        env = Env(self.plan.task, at.seed, at.round, at.num_rounds, at.client)
        return make_predictor(self.plan.algorithm, self.shared, self.memory, env)

    def prepared(self, stored: Tensor) -> Tensor:
        """Stored inputs [B, ...] to what the predictor reads; see `stored_form`."""
        task, encoder = self.plan.task, self.plan.encoder
        if encoder is not None:
            inputs = encoder.prepare(stored).to(encoder.device)
            stored = network_features(encoder.scratch_network(), inputs).to(torch.float32)
        return task.prepare(stored).to(task.device)

    def scores(self, stored: Tensor) -> Tensor:
        """Class scores [B, C] of stored inputs; those of a batch need not be few."""
        return self._in_batches(stored, self.predictor.scores)

    def features(self, stored: Tensor) -> Tensor:
        """What the model makes of inputs inside, [B, D]."""
        look = self.predictor.features
        if look is None:
            raise ConfigError(
                f"{self.config.algorithm} has no single network whose features could be shown; "
                "methods that average models or exchange prototypes have."
            )
        return self._in_batches(stored, lambda inputs: look(inputs).features)

    def _in_batches(self, stored: Tensor, answer: Callable[[Tensor], Tensor]) -> Tensor:
        def answers() -> Iterator[Tensor]:
            for part in stored.split(BATCH):
                found = answer(self.prepared(part)).cpu()
                if bool(torch.isnan(found).any()):
                    raise NumericalError("the model answers with NaN; it has diverged: train anew.")
                yield found

        with torch_threads(self.config.threads), torch.inference_mode():
            return torch.cat(list(answers()))


def model_of(run: FinishedRun, client: ClientId | None = None) -> TrainedModel:
    """The model that all share, or a client's, as a run has left it."""
    run.check_client(client)
    at = Moment.after(run.checkpoint.state.round, run.config.seed, client)
    state = run.checkpoint.state
    return TrainedModel(run.config, run.facts, state.model, run.memory(client), at, run.data_dirs)
