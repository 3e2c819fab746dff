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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.core.contract import ClientResult, Env, Update
from fedcord.core.errors import NumericalError
from fedcord.core.examples import ClientData
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


def can_train_stacked(task: Task, local: LocalSGD) -> bool:
    """Whether the task's only network is an MLP and the training is SGD without extras."""
    is_plain = local.optimizer == "sgd" and local.clip is None and local.augment == "none"
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
    order = sorted(range(len(datas)), key=lambda k: -_num_steps(local, len(datas[k].train)))
    plan = _Plan.make(local, [datas[k] for k in order], [envs[k] for k in order])
    layers = _StackedLayers.received(shared, len(order), local, pull)
    losses = _run(plan, layers, local.lr_at(envs[0]))
    results: list[ClientResult | None] = [None] * len(datas)
    for place, k in enumerate(order):
        visited = max(int(plan.num_real[place].sum()), 1)
        loss = float(losses[place]) / visited
        if not math.isfinite(loss):
            raise NumericalError(
                f"client {envs[k].client}: the training loss became {loss}; lower local.lr "
                f"(now {local.lr:g}) or set local.clip."
            )
        update = Update(layers.client(place), len(datas[k].train), {"train_loss": loss})
        results[k] = ClientResult(update)
    return [result for result in results if result is not None]


def _is_mlp(network: nn.Module) -> bool:
    """Linear layers with ReLU between them and nothing else that is trained or kept."""
    layers = getattr(network, "linear_layers", None)
    if not isinstance(layers, nn.ModuleList) or not all(type(m) is nn.Linear for m in layers):
        return False
    return all(name.startswith("linear_layers.") for name in network.state_dict())


def _num_steps(local: LocalSGD, num_examples: int) -> int:
    if num_examples == 0:
        return 0
    return local.steps or local.epochs * math.ceil(num_examples / local.batch_size)


@dataclass(frozen=True)
class _Plan:
    """Which examples every client reads at every step; clients with most steps come first."""

    inputs: Tensor  # [N, D] of all clients, prepared
    labels: Tensor  # [N]
    rows: Tensor  # [T, K, B] positions in inputs, padded with the client's first row
    num_real: Tensor  # [K, T] rows that are not padding
    num_active: list[int]  # clients that still train, per step

    @staticmethod
    def make(local: LocalSGD, datas: Sequence[ClientData], envs: Sequence[Env]) -> _Plan:
        prepared = [
            env.task.prepare(data.train.inputs).flatten(1)
            for data, env in zip(datas, envs, strict=True)
        ]
        sizes = [len(data.train) for data in datas]
        steps = [_num_steps(local, size) for size in sizes]
        batch, longest = local.batch_size, max(steps, default=0)
        rows = torch.zeros(longest, len(datas), batch, dtype=torch.int64)
        num_real = torch.zeros(len(datas), longest, dtype=torch.int64)
        first = 0
        for k, (size, env) in enumerate(zip(sizes, envs, strict=True)):
            for step, chosen in enumerate(local.batches(size, env.generator("batches"))):
                rows[step, k, : len(chosen)] = chosen
                num_real[k, step] = len(chosen)
            rows[:, k] += min(first, sum(sizes) - 1)
            first += size
        return _Plan(
            inputs=torch.cat(prepared),
            labels=torch.cat([data.train.labels for data in datas]),
            rows=rows,
            num_real=num_real,
            num_active=[sum(s > step for s in steps) for step in range(longest)],
        )


@dataclass(frozen=True)
class _StackedLayers:
    """Weights of all clients: per layer [K, out, in] and [K, 1, out]."""

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

    def step(self, layer: int, num: int, delta: Tensor, below: Tensor, lr: float) -> None:
        """Descend along the gradient deltaᵀ·below of the first `num` clients.

        Args:
            layer: which layer.
            num: clients that still train.
            delta: [num, B, out] loss gradient at the layer's output, batch mean included.
            below: [num, B, in] the layer's input.
            lr: learning rate.
        """
        weight, bias = self.weights[layer][:num], self.biases[layer][:num]
        delta_t = delta.transpose(1, 2)
        bias_gradient = delta.sum(1, keepdim=True)
        if not self.velocity:
            shrink = 1 - lr * (self.weight_decay + self.pull)
            if self.pull:
                weight.mul_(shrink).add_(self.start[layer][0], alpha=lr * self.pull)
                bias.mul_(shrink).add_(self.start[layer][1], alpha=lr * self.pull)
            elif self.weight_decay:
                bias.mul_(shrink)
            beta = 1.0 if self.pull else shrink
            weight.baddbmm_(delta_t, below, beta=beta, alpha=-lr)
            bias.sub_(bias_gradient, alpha=lr)
            return
        weight_v, bias_v = (v[:num] for v in self.velocity[layer])
        weight_v.baddbmm_(delta_t, below, beta=self.momentum)
        bias_v.mul_(self.momentum).add_(bias_gradient)
        pairs = ((weight_v, weight, 0), (bias_v, bias, 1))
        for v, value, which in pairs:
            if self.weight_decay:
                v.add_(value, alpha=self.weight_decay)
            if self.pull:
                v.add_(value - self.start[layer][which], alpha=self.pull)
            value.sub_(v, alpha=lr)


def _run(plan: _Plan, layers: _StackedLayers, lr: float) -> Tensor:
    """All steps of all clients; the summed loss of each client."""
    longest, num_clients, batch = plan.rows.shape
    losses = torch.zeros(num_clients, dtype=torch.float64)
    if longest == 0:
        return losses
    # weight 1/n of each real row and 0 of padding: [T, K, B, 1]
    position = torch.arange(batch)
    real = plan.num_real.t()[..., None]  # [T, K, 1]
    row_weight = ((position < real) / real.clamp(min=1)).to(plan.inputs.dtype)[..., None]
    num_classes = layers.weights[-1].shape[1]
    input_dim = plan.inputs.shape[1]
    below_buffer = torch.empty(num_clients * batch, input_dim)
    for step, num in enumerate(plan.num_active):
        rows = plan.rows[step, :num].reshape(-1)
        below = torch.index_select(plan.inputs, 0, rows, out=below_buffer[: num * batch])
        activations = [below.view(num, batch, input_dim)]
        for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
            out = torch.baddbmm(bias[:num], activations[-1], weight[:num].transpose(1, 2))
            activations.append(out if i == len(layers.weights) - 1 else out.relu_())
        log_prob = torch.log_softmax(activations.pop(), dim=-1)
        label = plan.labels[rows].view(num, batch, 1)
        weight_of_row = row_weight[step, :num]
        picked = log_prob.gather(-1, label)
        losses[:num] -= (picked * weight_of_row).sum((1, 2)) * plan.num_real[:num, step]
        # d loss / d scores = (softmax − onehot) / n
        delta = log_prob.exp_()
        delta.view(-1, num_classes)[torch.arange(num * batch), label.view(-1)] -= 1
        delta.mul_(weight_of_row)
        for layer in reversed(range(len(layers.weights))):
            below = activations[layer]
            upstream = None
            if layer > 0:  # read the weight before the step changes it
                upstream = torch.bmm(delta, layers.weights[layer][:num]).mul_(below > 0)
            layers.step(layer, num, delta, below, lr)
            if upstream is not None:
                delta = upstream
    return losses
