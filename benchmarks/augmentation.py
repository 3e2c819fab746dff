"""Random views per second, against the same views made one image at a time.

    .venv/bin/python benchmarks/augmentation.py

One thread, batch 256. The ratio is what working on whole batches gives; both sides run in turn in
one process, so it holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from fedcord.data.transforms import augmentations, prepare_fn

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def seconds(work: Callable[[Tensor], Tensor], images: Tensor, size: int) -> float:
    start = time.process_time()
    for part in images.split(size):
        work(part)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    prepare = prepare_fn("image", MEAN, STD)
    print("| side | view | images/CPU-s | one at a time | ratio |")
    print("|---:|---|---:|---:|---:|")
    for side in (32, 64):
        shape = (arguments.batch, 3, side, side)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        views: dict[str, Callable[[Tensor], Tensor]] = {"prepare": prepare}
        for name, view in augmentations("image", MEAN, STD).items():
            views[name] = lambda x, view=view: view(x, generator)  # type: ignore[misc]
        for name, work in views.items():
            work(images)
            whole, single = [], []
            for _ in range(arguments.repeats):
                whole.append(seconds(work, images, arguments.batch))
                single.append(seconds(work, images, 1))
            fast, slow = sorted(whole)[len(whole) // 2], sorted(single)[len(single) // 2]
            rate, base = arguments.batch / fast, arguments.batch / slow
            print(f"| {side} | {name} | {rate:,.0f} | {base:,.0f} | {slow / fast:.1f} |")


if __name__ == "__main__":
    main()
