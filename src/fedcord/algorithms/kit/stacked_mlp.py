"""Several clients' multi-layer perceptrons trained in one go, without autograd.

For linear models and MLPs the arithmetic of a step is so small that the machinery around it costs
more than the step. Here the weights of K clients are stacked to [K, out, in], forward and backward
passes are written out as batched matrix products, and a plain SGD step is fused into the product
that forms the gradient.

The result for a client has the same bits whatever the stack it was trained in: a batched product
treats each matrix alone, and every batch is padded to the full batch size with rows of weight zero,
so that shapes never depend on the neighbours.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import ClientResult, Env, Update
from fedcord.core.errors import NumericalError
from fedcord.core.examples import ClientData
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


def can_train_stacked(task: Task, local: LocalSGD) -> bool:
    """Whether the task's only network is an MLP and the training is SGD without extras."""
    is_plain = local.optimizer == "sgd" and local.clip is None and local.augment == "none"
    is_plain = is_plain and local.visit_schedule == "constant"
    on_cpu = task.device.type == "cpu"
    return is_plain and on_cpu and len(task.networks) == 1 and _is_mlp(task.scratch_network())


def train_stacked(
    local: LocalSGD,
    shared: Tensors,
    datas: Sequence[ClientData],
    envs: Sequence[Env],
    pull: float = 0.0,
) -> list[ClientResult]:
    """Train every client from the model in `shared` on cross-entropy.

    Args:
        local: how to train; `can_train_stacked` must hold.
        shared: holds `model.linear_layers.<i>.{weight,bias}`.
        datas: one per client.
        envs: one per client.
        pull: strength of a proximal pull towards the received model (0: none).

    Returns:
        One result per client, in the order given.
    """
    order = sorted(range(len(datas)), key=lambda k: -local.num_steps(len(datas[k].train)))
    plan = _Plan.make(local, [datas[k] for k in order], [envs[k] for k in order])
    layers = _StackedLayers.received(shared, len(order), local, pull)
    with torch.inference_mode():
        losses = _run(plan, layers, local.lr_at(envs[0]))
    results: list[ClientResult | None] = [None] * len(datas)
    for place, k in enumerate(order):
        visited = int(plan.num_real[place].sum())
        loss = float(losses[place]) / max(visited, 1)
        if not math.isfinite(loss):
            raise NumericalError(
                f"the training loss became {loss}; lower local.lr (now {local.lr:g}) "
                "or set local.clip."
            )
        envs[k].task.passes.add(envs[k].client, visited, visited)
        update = Update(layers.client(place), len(datas[k].train), {"train_loss": loss})
        results[k] = ClientResult(update)
    return [result for result in results if result is not None]


def _is_mlp(network: nn.Module) -> bool:
    """Linear layers with ReLU between them, all trained, and nothing else that is kept."""
    layers = getattr(network, "linear_layers", None)
    if not isinstance(layers, nn.ModuleList) or not all(type(m) is nn.Linear for m in layers):
        return False
    if not all(p.requires_grad for p in network.parameters()):
        return False
    return all(name.startswith("linear_layers.") for name in network.state_dict())


@dataclass(frozen=True)
class _Plan:
    """Which examples every client reads at every step; clients with most steps come first."""

    stored: list[Tensor]  # per client [n, ...], as stored
    prepare: Callable[[Tensor], Tensor]
    rows: Tensor  # [K, T, B] positions in the client's rows, padded with the first
    labels: Tensor  # [T, K, B, 1]
    num_real: Tensor  # [K, T] rows that are not padding
    num_active: list[int]  # clients that still train, per step

    @staticmethod
    def make(local: LocalSGD, datas: Sequence[ClientData], envs: Sequence[Env]) -> _Plan:
        steps = [local.num_steps(len(data.train)) for data in datas]
        shape = (len(datas), max(steps, default=0), local.batch_size)
        rows, labels = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
        num_real = torch.zeros(shape[:2], dtype=torch.int64)
        for k, (data, env) in enumerate(zip(datas, envs, strict=True)):
            for step, chosen in enumerate(local.batches(len(data.train), env.generator("batches"))):
                rows[k, step, : len(chosen)] = chosen
                num_real[k, step] = len(chosen)
            if steps[k]:
                labels[k] = data.train.labels[rows[k]]
        return _Plan(
            stored=[data.train.inputs for data in datas],
            prepare=envs[0].task.prepare,
            rows=rows,
            labels=labels.transpose(0, 1).contiguous()[..., None],
            num_real=num_real,
            num_active=[sum(s > step for s in steps) for step in range(shape[1])],
        )


@dataclass(frozen=True)
class _StackedLayers:
    """Weights of all clients, per layer [K, out, in] and [K, 1, out], and how they descend."""

    names: list[tuple[str, str]]
    weights: list[Tensor]
    biases: list[Tensor]
    momentum: float
    velocity: list[tuple[Tensor, Tensor]]
    weight_decay: float
    pull: float
    start: list[tuple[Tensor, Tensor]]

    @staticmethod
    def received(shared: Tensors, num_clients: int, local: LocalSGD, pull: float) -> _StackedLayers:
        depth = sum(name.endswith(".weight") for name in shared)
        names = [
            (f"model.linear_layers.{i}.weight", f"model.linear_layers.{i}.bias")
            for i in range(depth)
        ]
        start = [(shared[w][None], shared[b][None, None]) for w, b in names]
        weights = [w.repeat(num_clients, 1, 1) for w, _ in start]
        biases = [b.repeat(num_clients, 1, 1) for _, b in start]
        velocity = [
            (torch.zeros_like(w), torch.zeros_like(b))
            for w, b in zip(weights, biases, strict=True)
            if local.momentum > 0
        ]
        return _StackedLayers(
            names, weights, biases, local.momentum, velocity, local.weight_decay, pull, start
        )

    def client(self, place: int) -> dict[str, Tensor]:
        """One client's tensors, detached from the stack."""
        out = {}
        for (weight, bias), w, b in zip(self.names, self.weights, self.biases, strict=True):
            out[weight] = w[place].clone()
            out[bias] = b[place, 0].clone()
        return out

    def first(self, num: int) -> _StackedLayers:
        """Views of the first `num` clients."""
        return dataclasses.replace(
            self,
            weights=[w[:num] for w in self.weights],
            biases=[b[:num] for b in self.biases],
            velocity=[(w[:num], b[:num]) for w, b in self.velocity],
        )

    def descend(self, layer: int, delta: Tensor, below: Tensor, ones: Tensor, lr: float) -> None:
        """A step along the gradient deltaᵀ·below.

        Args:
            layer: which layer.
            delta: [K, B, out] loss gradient at the layer's output, batch mean included.
            below: [K, B, in] the layer's input.
            ones: [K, 1, B]; ones·delta is the bias gradient.
            lr: learning rate.
        """
        for place, (value, left, right) in enumerate(
            ((self.weights[layer], delta.transpose(1, 2), below), (self.biases[layer], ones, delta))
        ):
            if self.velocity:
                velocity = self.velocity[layer][place]
                velocity.baddbmm_(left, right, beta=self.momentum)
                if self.weight_decay:
                    velocity.add_(value, alpha=self.weight_decay)
                if self.pull:
                    velocity.add_(value - self.start[layer][place], alpha=self.pull)
                value.sub_(velocity, alpha=lr)
                continue
            if self.weight_decay or self.pull:
                value.mul_(1 - lr * (self.weight_decay + self.pull))
                value.add_(self.start[layer][place], alpha=lr * self.pull)
            value.baddbmm_(left, right, alpha=-lr)  # gradient and step in one pass


def _run(plan: _Plan, layers: _StackedLayers, lr: float) -> Tensor:
    """All steps of all clients; the summed loss of each client [K]."""
    num_clients, longest, batch = plan.rows.shape
    is_real = torch.arange(batch) < plan.num_real.t()[..., None]  # [T, K, B]
    # 1/n for each real row and 0 for padding: [T, K, B, 1]
    row_weight = (is_real / plan.num_real.t()[..., None].clamp(min=1)).float()[..., None]
    picked = torch.zeros(longest, num_clients, batch, 1)  # log-probability of the label
    # rows are gathered as stored and prepared step by step, which stays in cache
    first = plan.stored[0]
    gathered = torch.empty((num_clients * batch, *first.shape[1:]), dtype=first.dtype)
    places = gathered.split(batch)
    # slicing once per step is dear where a step takes a fifth of a millisecond
    rows_of = [rows.unbind(0) for rows in plan.rows]
    labels_of, weights_of, picked_of = plan.labels.unbind(0), row_weight.unbind(0), picked.unbind(0)
    for num, steps in itertools.groupby(range(longest), lambda step: plan.num_active[step]):
        active, block = layers.first(num), gathered[: num * batch]
        turned = [weight.transpose(1, 2) for weight in active.weights]
        minus_one, ones = torch.full((num, batch, 1), -1.0), torch.ones(num, 1, batch)
        for step in steps:
            for k in range(num):
                torch.index_select(plan.stored[k], 0, rows_of[k][step], out=places[k])
            values = [plan.prepare(block).view(num, batch, -1)]  # what each layer reads
            for bias, weight in zip(active.biases[:-1], turned[:-1], strict=True):
                values.append(torch.baddbmm(bias, values[-1], weight).relu_())
            scores = torch.baddbmm(active.biases[-1], values[-1], turned[-1])
            log_prob, label = torch.log_softmax(scores, dim=-1), labels_of[step][:num]
            torch.gather(log_prob, -1, label, out=picked_of[step][:num])
            # d loss / d scores = (softmax − onehot) / n
            delta = log_prob.exp_().scatter_add_(-1, label, minus_one)
            delta.mul_(weights_of[step][:num])
            for layer in range(len(values) - 1, 0, -1):
                # read the weight before the step changes it
                upstream = torch.bmm(delta, active.weights[layer]).mul_(values[layer] > 0)
                active.descend(layer, delta, values[layer], ones, lr)
                delta = upstream
            active.descend(0, delta, values[0], ones, lr)
    return -(picked[..., 0] * is_real).sum((0, 2), dtype=torch.float64)
