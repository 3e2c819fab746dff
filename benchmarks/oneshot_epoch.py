"""One FAFI epoch of a client against a bare loop that does the same arithmetic.

    .venv/bin/python benchmarks/oneshot_epoch.py [--repeats 7]

One thread. Both sides take turns in one process, so the ratio holds on a busy machine too. The last
column, the largest difference of any final weight, shows that both did the same work. The target is
a ratio of at most 1.05.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.core.contract import Env
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from fedcord.data.transforms import augmentations, prepare_fn
from fedcord.models.registry import network_factory

CLASSES = 10
WORKLOADS = {
    "digits, mlp:64": ((1, 8, 8), "mlp:64", 512, 64, "none"),
    "32x32 colour, cnn": ((3, 32, 32), "cnn", 512, 128, "simclr"),
    "32x32 colour, resnet10 width 16": ((3, 32, 32), "resnet10,width=16", 256, 128, "simclr"),
}


def make_task(shape: tuple[int, ...], model: str) -> Task:
    scale = (0.5,) * shape[0], (0.5,) * shape[0]
    network = network_factory(
        model, kind="image", input_shape=shape, num_classes=CLASSES, mean=scale[0], std=scale[1]
    )
    return Task(
        CLASSES, shape, [network], prepare_fn("image", *scale), augmentations("image", *scale)
    )


def make_data(shape: tuple[int, ...], count: int) -> Examples:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, *shape), generator=generator, dtype=torch.uint8)
    return Examples(pixels, torch.randint(CLASSES, (count,), generator=generator))


def bare_epoch(
    network: nn.Module,
    head: str,
    prototypes: Tensor,
    data: Examples,
    task: Task,
    env: Env,
    local: LocalTraining,
) -> Tensor:
    """FAFI written for this experiment alone: no checks, no records, no options."""
    p = nn.Parameter(prototypes.clone())
    weights = [p, *(w for n, w in network.named_parameters() if not n.startswith(head))]
    optimizer = torch.optim.SGD(weights, lr=local.lr, momentum=local.momentum, fused=True)
    order = torch.randperm(len(data), generator=env.generator("epoch-batches"))
    draws = env.generator("epoch-views")
    classes = torch.arange(CLASSES)
    network.train()
    for batch in order.split(local.batch_size):
        if local.views == "none":
            inputs, y = task.prepare(data.inputs[batch]), data.labels[batch]
        else:
            twice = batch.repeat(2)
            inputs = task.augmentations[local.views](data.inputs[twice], draws)
            y = data.labels[twice]
        z = F.normalize(network.features(inputs), dim=1)  # type: ignore[operator]
        scaled = z / 0.07
        similarity = (scaled @ z.T).fill_diagonal_(float("-inf"))
        sums = torch.zeros(CLASSES, z.shape[1]).index_add(0, y, z)
        partners = torch.bincount(y, minlength=CLASSES)[y] - 1
        positive = (scaled * (sums[y] - z)).sum(1) / partners.clamp(min=1)
        contrast = ((torch.logsumexp(similarity, 1) - positive) * (partners > 0)).mean()
        loss = 2 * F.cross_entropy(z @ p.T, y) + F.cross_entropy(p @ p.T, classes) + contrast
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, local.clip)
        optimizer.step()
    network.eval()
    return p.detach()


def measure(name: str, repeats: int) -> None:
    shape, model, count, batch, views = WORKLOADS[name]
    task, data = make_task(shape, model), make_data(shape, count)
    local = LocalTraining(epochs=1, batch_size=batch, views=views)
    algorithm = OneShot(local=local, checkpoints=1)
    env = Env(task, 0).at(0)
    shared = algorithm.init(dataclasses.replace(env, client=None)).shared
    empty = Examples(data.inputs[:0], data.labels[:0])
    client = ClientData(data, empty, empty)
    network = task.networks[0](torch.Generator().manual_seed(1))
    head = next(n for n, m in network.named_modules() if n and m is network.head) + "."
    start = {n.removeprefix("model."): t for n, t in shared.items() if n.startswith("model.")}
    ours, bare, gap = [], [], 0.0
    for repeat in range(repeats + 1):
        clock = time.process_time()
        update = algorithm.client_update(shared, {}, client, env).update
        middle = time.process_time()
        with torch.no_grad():
            for tensor_name, tensor in network.state_dict().items():
                if tensor_name in start:
                    tensor.copy_(start[tensor_name])
        prototypes = bare_epoch(network, head, shared["proto.weight"], data, task, env, local)
        end = time.process_time()
        if repeat:  # the first one warms up
            ours.append(middle - clock)
            bare.append(end - middle)
        gap = float((prototypes - update.tensors["proto.weight"]).abs().max())
        for tensor_name, tensor in network.state_dict().items():
            if tensor_name in start:
                other = update.tensors[f"model.{tensor_name}"]
                gap = max(gap, float((tensor - other).abs().max()))
    ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    per_step = 1000 / -(-count // batch)
    print(
        f"| {name} | {statistics.median(ours) * per_step:.2f} "
        f"| {statistics.median(bare) * per_step:.2f} | {ratio:.3f} | {gap:.1e} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| workload | ours, CPU ms/step | bare, CPU ms/step | ratio | largest difference |")
    print("|---|---:|---:|---:|---:|")
    for name in WORKLOADS:
        measure(name, arguments.repeats)


if __name__ == "__main__":
    main()
