"""A convolutional network trained without gradients: one round and one least squares per layer.

Reference: Gu et al., "Analytic Personalized Federated Meta-Learning", 2025 (arXiv 2502.06915), of
which this is the framework FedACnnL.

Travels: in every round up the sums of one layer's patches, D(D+1)/2 + DC numbers, down the layers
so far. Stays: samples and activations.

| paper | here |
|---|---|
| A_l | patches of layer l, with a constant 1 |
| Q_l, T_l = Y Q_l | random label codes, the hidden layer's targets |
| γ | `ridge`, per row |
| W_l | `layer{l}.weight` |

    W_l = (Σ A'A + γ N P I)⁻¹ (Σ A'Y) Q_l        the last layer without Q

What a layer minimises is the error of its own label codes, a surrogate of the network's error.

Deviations: the paper's label encoding is not readable to us; codes are Gaussian. Clients send A'Y,
which does not depend on Q, instead of A'T. Without more, all channels of a layer lie in C
directions; so a share `random_channels` of them are random filters (1 gives the baseline that the
method has to beat). Channels are scaled to mean square 1 from the sums. The last map is averaged
down to `layers.grid`.

With `batches.rule=adaptive`, clients choose by their speed how many samples they take at once,
which changes nothing but time.

Limits: without hidden layers it is `afl` on flattened inputs with ridge γN. random_channels = 1 is
a random-filter network with a solved last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.analytic.adaptive_batch import (
    SECONDS,
    Batches,
    TimedBatches,
    deadline_of,
    even_batches,
    pace_memory,
    with_seconds,
)
from fedcord.algorithms.analytic.closed_form import SEEN, mask_unseen, zero_predictor
from fedcord.algorithms.analytic.layerwise import (
    Layers,
    collected,
    label_codes,
    layer_stats,
    random_filters,
    unit_variance,
)
from fedcord.algorithms.analytic.stats import SufficientStats, feature_tag
from fedcord.algorithms.analytic.sum_messages import STATS, add_messages, stats_update, summed_stats
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.ridge import solve_ridge


@dataclass(frozen=True)
class FedACnnL:
    """Analytic convolutional network learning in a federation."""

    layers: Layers = param(Layers(), "the network")
    ridge: float = param(1e-2, "per patch (paper: γ)", above=0, space=(0.001, 0.1, "log"))
    last_ridge: float = param(
        1e-3, "per sample, of the last layer", above=0, space=(0.0001, 0.01, "log")
    )
    random_channels: float = param(
        0.5, "share of channels that are random filters", at_least=0, at_most=1
    )

    batches: Batches = param(Batches(), "samples taken at once")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round per layer, whose updates are sums over samples; timings are not."""
        return Traits(
            rounds=self.layers.depth, additive=not self.batches.is_adaptive, sums_suffice=True
        )

    def needs_only(self, env: Env) -> Combination | None:
        """Sums; where batches follow the clock, the server looks at everybody's timing."""
        return None if self.batches.is_adaptive else "sum"

    def review(self, task: Task) -> Review:
        """Whether inputs are numbers, and what the clock does."""
        return numbers_needed(task) + self.batches.review(task)

    def init(self, env: Env) -> ServerState:
        """No layer yet."""
        return network_start(env)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums of this round's layer, and how long they would take at best."""
        size = self.layers.num_inputs(env.round, env.task)
        spec = SufficientStats.spec(size, env.task.num_classes)
        timed = {SECONDS: TensorSpec((), torch.float64)} if self.batches.is_adaptive else {}
        return {**{f"{STATS}.{name}": part for name, part in spec.items()}, **timed}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass through the layers so far, then sums."""
        tag, weights, count = (
            layer_tag(self.layers, shared, env),
            collected(shared),
            len(data.train),
        )
        most = self.batches.most(8 * self.layers.sample_numbers(len(weights), env.task))
        size = self.batches.size(count, most, shared, memory)
        timed = TimedBatches(count, size) if self.batches.is_adaptive else None
        batches = timed or even_batches(0, count, size)
        stats = layer_stats(self.layers, weights, data.train, env.task, tag, batches)
        update = stats_update(stats, "packed64")
        if timed is None:
            return ClientResult(update)
        pace = timed.pace(most)
        best = torch.tensor(pace.best_seconds if pace else 0.0, dtype=torch.float64)
        tensors = {**update.tensors, SECONDS: best}
        return ClientResult(replace(update, tensors=tensors), pace_memory(pace))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Solve this round's layer."""
        tag = layer_tag(self.layers, state.shared, env)
        seconds: list[float] = []
        sums = add_messages({}, with_seconds(updates, seconds), tag, env)
        stats = summed_stats(sums, "packed64")
        weight = self.solve_layer(stats, env)
        shared = {**state.shared, f"layer{env.round}.weight": weight, **deadline_of(seconds)}
        return state.next(shared, result={SEEN: stats.class_count > 0})

    def solve_layer(self, stats: SufficientStats, env: Env) -> Tensor:
        """Weights [D, C'] of this round's layer from everybody's sums."""
        gram, layer, count = stats.gram_matrix(), env.round, max(stats.count, 1)
        if layer == self.layers.depth - 1:
            return solve_ridge(gram, stats.moment, self.last_ridge * count)[0]
        rows = count * self.layers.num_positions(layer, env.task)
        base, _ = solve_ridge(gram, stats.moment, self.ridge * rows)
        weight = base @ label_codes(self.layers, layer, env.task.num_classes, env.seed)
        filters = random_filters(self.layers, layer, len(gram), env.seed)
        num_random = round(self.random_channels * weight.shape[1])
        mixed = torch.cat([filters[:, :num_random], weight[:, num_random:]], dim=1)
        return unit_variance(mixed, gram, rows)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]; zero until the last layer is there."""
        return layers_predictor(self.layers, shared, env)


def numbers_needed(task: Task) -> Review:
    """Whether the task's inputs are numbers that a layer can be fitted on."""
    if task.prepare(torch.zeros(1, *task.input_shape)).is_floating_point():
        return Review()
    text = (
        "layer-wise least squares needs images or vectors, not text; use afl with a frozen model."
    )
    return Review(errors=(text,))


def network_start(env: Env) -> ServerState:
    """The state before the first layer."""
    seen = torch.zeros(env.task.num_classes, dtype=torch.bool)
    return ServerState(shared={}, result={SEEN: seen})


def layer_tag(layers: Layers, shared: Tensors, env: Env) -> int:
    """The tag of this round's patches: the network's shape, and how many layers came before."""
    return feature_tag(f"{layers}|{env.task.input_shape}|{env.seed}|{len(collected(shared))}")


def layers_predictor(
    layers: Layers, shared: Tensors, env: Env, last: Tensor | None = None
) -> Predictor:
    """Scores [B, C] of the global network, or of one with another last layer."""
    task, seen, weights = env.task, shared[SEEN], collected(shared)
    if len(weights) < layers.depth:
        return zero_predictor(task)
    if last is not None:
        weights = [*weights[:-1], last.clone(memory_format=torch.contiguous_format)]
    return Predictor(lambda inputs: mask_unseen(layers.scores(inputs.cpu(), weights, task), seen))
