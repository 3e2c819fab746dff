"""Models are sent once; a small model on their scores is then trained by federated learning.

Reference: Allouah et al., "Revisiting Ensembling in One-Shot Federated Learning", NeurIPS 2024.

Travels: down the first model, up the trained model, once; down all models, once; then, in every
round, the aggregator down and up. Stays: samples, and the models' scores on them.

| paper | here |
|---|---|
| θ_i | `ensemble.*` |
| f_λ, λ | `aggregator`, `agg.*` |
| local data for models and for the aggregator | all but `holdout`, `holdout` |
| rounds of FL for λ | `aggregator_rounds` |
| FedAdam, its rate at the server | `server_optimizer`, `server_lr`; `server_step` |
| one local step | `training.steps` |
| models quantised to INT8 before their scores are used | `model_format` |

Defaults of the aggregator's training are those of the authors' scripts: FedAdam with rate 1e-3, one
local step of rate 1 on a batch of 128, 500 rounds.

Deviations: the authors quantise activations as well, by PyTorch's static quantisation; here weights
alone are rounded, row by row, and scores are computed in float32 from what travelled. Their linear
mapping (`weights`) has a bias common to all classes, which changes no decision and is left out.
`linear`, a full matrix, is ours. They keep the aggregator that does best on test data; here the
last one counts. The paper's voting and mixture of experts are left out.

Limits: `aggregator_rounds` = 0 with `weights` or `linear`, `holdout` = 0 and `model_format` =
float32 is `ensemble` with weighting=uniform. One client is that client, seen through its
aggregator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.kit.ensemble import ENSEMBLE, member_outputs, num_members, pack
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, cross_entropy
from fedcord.algorithms.kit.outputs import scores_of
from fedcord.algorithms.oneshot.baselines.fedavg_oneshot import FedAvgOneShot
from fedcord.algorithms.oneshot.baselines.one_exchange import ONE_SHOT
from fedcord.algorithms.oneshot.baselines.score_aggregator import KINDS, ScoreAggregator
from fedcord.core.contract import (
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
    Work,
)
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select, spec_of
from fedcord.ops.number_format import FORMATS, grow, shrink, travelling_spec
from fedcord.ops.server_step import ServerRule, server_step
from fedcord.ops.weighted_mean import weighted_mean

AGGREGATOR, SCORES = "agg", "scores"
BATCH = 1024
"""Samples whose scores are computed at once."""


@dataclass(frozen=True)
class FENS:
    """Federated ensembling with a learned aggregator."""

    aggregator: str = param("mlp", "what joins the models' scores (paper: mlp)", choices=KINDS)
    hidden: int = param(4, "hidden units per model, of mlp (released code: 4)", at_least=1)
    aggregator_rounds: int = param(500, "rounds of training the aggregator", at_least=0)
    server_optimizer: str = param(
        "fedadam", "what the server does with trained aggregators", choices=("fedadam", "fedavg")
    )
    server_lr: float = param(1e-3, "learning rate of fedadam at the server", above=0)
    model_format: str = param("int8", "numbers of models on the wire", choices=FORMATS)
    holdout: float = param(
        0.1,
        "share of a client's training data kept for the aggregator; 0: it sees what models saw",
        at_least=0,
        below=1,
    )
    local: LocalSGD = param(ONE_SHOT, "how clients train their models")
    training: LocalSGD = param(
        LocalSGD(steps=1, batch_size=128, lr=1.0, weight_decay=1e-4),
        "how clients train the aggregator",
        tuned=False,
    )

    def __post_init__(self) -> None:
        check_params(self)
        if self.training.augment != "none":
            raise ConfigError(
                f"training.augment = '{self.training.augment}': the aggregator sees scores, not "
                "inputs; leave it at none."
            )

    @property
    def traits(self) -> Traits:
        """One round for the models, then those of the aggregator."""
        return Traits(rounds=1 + self.aggregator_rounds, stacks=True, shares_work=True)

    def review(self, task: Task) -> Review:
        """What the training of models and aggregator has to say."""
        return self.local.review(task) + self.training.review(task)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """The models' training.

        As float32 and without a holdout it is that of every method that sends models.
        """
        if env.round > 0:
            return None
        own: dict[str, Any] = {"holdout": self.holdout} if self.holdout > 0 else {}
        if self.model_format != "float32":
            own["model_format"] = self.model_format
        return Work({**self._alone.client_settings, **own}, shared)

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, the same for every client."""
        return self._alone.init(env)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model in the first round, then the aggregator."""
        if env.round == 0:
            spec = travelling_spec(select(shared, MODEL), self.model_format)
            return {f"{MODEL}.{name}": part for name, part in spec.items()}
        return spec_of(prefixed(AGGREGATOR, select(shared, AGGREGATOR)))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training alone, then of the aggregator on the models' scores."""
        if env.round == 0:
            trained = self._alone.client_update(shared, memory, self._part(data, env)[0], env)
            return self._as_it_travels(trained)
        examples = self._part(data, env)[1]
        with env.task.passes.of(env.client):
            scores = self._scores(shared, memory, examples, env)
        network = self._network(shared, env.task, scores.shape[1] // env.task.num_classes)
        # scores are vectors that need no preparation
        task = dataclasses.replace(env.task, prepare=_as_it_is, input_shape=scores.shape[1:])
        here = dataclasses.replace(env, task=task)
        metrics = self.training.train(
            network, Examples(scores, examples.labels), cross_entropy, here
        )
        tensors = prefixed(AGGREGATOR, network.tensors())
        return ClientResult(Update(tensors, len(examples), metrics), {SCORES: scores})

    def can_stack(self, task: Task) -> bool:
        """Whether models can be trained by the stacked fast path."""
        return self._alone.can_stack(task)

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """`client_update` of several clients; models are trained in one go."""
        visits = list(zip(memories, datas, envs, strict=True))
        if envs[0].round > 0:
            return [self.client_update(shared, memory, data, env) for memory, data, env in visits]
        parts = [self._part(data, env)[0] for _, data, env in visits]
        every = self._alone.client_updates(shared, memories, parts, envs)
        return [self._as_it_travels(trained) for trained in every]

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Keep all models, or move the aggregator towards the mean of what clients made of it."""
        if env.round == 0:
            models = {k: select(u.tensors, MODEL) for k, u in updates if u.weight > 0}
            if not models:
                raise ProtocolError("no client trained on an example; at least one is needed.")
            first = self._new(env.task, len(models)).start(env.generator("aggregator"))
            ordered = {k: models[k] for k in sorted(models)}
            return state.next({**pack(ordered, env), **prefixed(AGGREGATOR, first)})
        mean = weighted_mean((update.tensors, update.weight) for _, update in updates)
        moments = state.private
        if self.server_optimizer == "fedadam":
            before = {name: state.shared[name] for name in mean}
            rule = ServerRule("adam", self.server_lr)
            mean, moments = server_step(rule, before, mean, moments)
        held = {n: t for n, t in state.shared.items() if n.startswith(f"{ENSEMBLE}.")}
        # models were sent with the round that ends here, and are not sent again
        return state.next(mean, moments, result=held or state.result)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the aggregator on the models' scores."""
        if not select(shared, AGGREGATOR):
            raise ProtocolError("there are no models yet; predict after a round.")
        network = self._network(shared, env.task, num_members(shared)).requires_grad_(False).eval()
        side_by_side = _side_by_side(grow(shared), env)
        return Predictor(lambda inputs: network(side_by_side(inputs)))

    @property
    def _alone(self) -> FedAvgOneShot:
        """The method whose clients train the models."""
        return FedAvgOneShot(local=self.local)

    def _as_it_travels(self, trained: ClientResult) -> ClientResult:
        """A client's result of the first round with its model in `model_format`."""
        model = shrink(select(trained.update.tensors, MODEL), self.model_format)
        update = dataclasses.replace(trained.update, tensors=prefixed(MODEL, model))
        return dataclasses.replace(trained, update=update)

    def _new(self, task: Task, num_models: int) -> ScoreAggregator:
        network = ScoreAggregator(self.aggregator, num_models, task.num_classes, self.hidden)
        return network.to(task.device)

    def _network(self, shared: Tensors, task: Task, num_models: int) -> ScoreAggregator:
        return self._new(task, num_models).holding(select(shared, AGGREGATOR))

    def _part(self, data: ClientData, env: Env) -> tuple[ClientData, Examples]:
        """What the model is trained on, and what the aggregator is trained on.

        They are disjoint unless the holdout is too small to hold a sample.
        """
        count = len(data.train)
        held = int(self.holdout * count + 0.5)
        if held == 0:
            return data, data.train
        first = dataclasses.replace(env, round=0)  # the same split in every round
        order = torch.randperm(count, generator=first.generator("holdout"))
        kept, out = (
            Examples(data.train.inputs[rows], data.train.labels[rows])
            for rows in (order[held:], order[:held])
        )
        return dataclasses.replace(data, train=kept), out

    def _scores(self, shared: Tensors, memory: Tensors, examples: Examples, env: Env) -> Tensor:
        """[N, M·C]: computed when the models arrive, kept from then on."""
        if SCORES in memory:
            return memory[SCORES]
        if not select(shared, ENSEMBLE):
            assert env.client is not None
            raise ProtocolError(
                f"{env.said(env.client)} was not there in round 2, when the models were handed "
                "out, and cannot compute their scores; fens needs everybody in every round "
                "(--participation 1)."
            )
        side_by_side = _side_by_side(grow(shared), env)
        parts = [
            side_by_side(env.task.prepare(part).to(env.task.device))
            for part in examples.inputs.split(BATCH)
        ]
        return torch.cat(parts).cpu().clone()


def _side_by_side(models: Tensors, env: Env) -> Callable[[Tensor], Tensor]:
    """Prepared inputs to every model's scores [B, M·C], in ascending order of clients."""
    members = member_outputs(models, env, scores_of)

    def scores(inputs: Tensor) -> Tensor:
        said = dict(members(inputs))
        return torch.cat([said[place] for place in sorted(said)], dim=1)

    return scores


def _as_it_is(inputs: Tensor) -> Tensor:
    return inputs
