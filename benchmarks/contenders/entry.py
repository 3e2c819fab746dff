"""The command line and the report all contenders share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from meter import RoundLog
from torch import Tensor
from workload import Workload

MARK = "contender-report "


@dataclass(frozen=True)
class Order:
    """What a contender is asked to do.

    Attributes:
        workload: the arrays.
        rounds: how many, the warm-up round included.
        threads: of every computation.
        variant: which of its settings; its meaning is the contender's own.
        fraction: share of the training examples, already applied to the arrays.
        out: where to leave the final weights.
    """

    workload: Workload
    rounds: int
    threads: int
    variant: str
    fraction: float
    out: Path


def read_order() -> Order:
    """From the command line; sets the number of threads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    return Order(
        Workload(given.folder, given.workload),
        given.rounds,
        given.threads,
        given.variant,
        given.fraction,
        given.out,
    )


def report(order: Order, log: RoundLog, weights: Sequence[Tensor]) -> None:
    """Leave the weights as one vector and print the costs as one line."""
    flat = torch.cat([weight.detach().reshape(-1) for weight in weights])
    np.save(order.out, flat.numpy())
    print(MARK + json.dumps(log.plain()), flush=True)


def accuracy_of(scores: Tensor, labels: Tensor) -> float:
    """Share of examples whose highest score is their label."""
    return float((scores.argmax(1) == labels).double().mean())
