"""A feature bank from public data: the server trains a teacher on it and sends its features.

Reference: the first feature banks on the way to FLARE (docs/algorithms/ladder.md), whose teacher
was trained briefly on part of a public set; which set is not known, so the user names a file.

Travels: down, once with the first model, up to `feature_bank` features of every class with their
labels. The teacher itself and the public examples stay at the server. The file's name is part of a
run's settings, its content is not: keep it as it is while runs of a study go on.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import encoder_with
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.alignment import Alignment
from fedcord.algorithms.oneshot.conflict import Conflict
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.local_work import Epoch, Learner, LocalWork
from fedcord.algorithms.oneshot.member import MODEL, PROTOTYPES
from fedcord.algorithms.oneshot.objective import Bank, Objective
from fedcord.algorithms.oneshot.policy import Policy
from fedcord.core.contract import Env, Review
from fedcord.core.errors import DataError
from fedcord.core.examples import Examples
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, select

FEATURES, LABELS = "public.features", "public.labels"
AT_ONCE = 256
"""Examples whose features are computed together."""


def public_bank(
    objective: Objective, local: LocalTraining, first: Tensors, env: Env
) -> dict[str, Tensor]:
    """The bank as it is sent; empty where no file is named.

    Args:
        objective: what clients minimise; the teacher minimises it without any bank.
        local: how clients train; the teacher trains the same way.
        first: the first message, whose model the teacher starts from.
        env: the server's place.
    """
    if not objective.bank_file:
        return {}
    task, examples = env.task, read_public(objective.bank_file, env.task)
    counts = torch.bincount(examples.labels, minlength=task.num_classes).float()
    prototypes = nn.Parameter(first[PROTOTYPES].clone().to(task.device))
    network = encoder_with(task, select(first, MODEL))
    teacher = Learner(network, prototypes, counts, Policy().begin(counts))
    alone = dataclasses.replace(objective, memory_bank=0, alignment_epochs=0)
    work = LocalWork(local, alone, Alignment(), Policy(), Conflict())
    epochs = [Epoch(number, 1.0, None, None) for number in range(objective.teacher_epochs)]
    work.train(teacher, examples, epochs, env)
    chosen = torch.cat(
        [
            torch.nonzero(examples.labels == label)[: objective.feature_bank, 0]
            for label in range(task.num_classes)
        ]
    )
    with torch.no_grad():
        features = torch.cat(
            [
                features_of(network, task.prepare(examples.inputs[rows]).to(task.device)).cpu()
                for rows in chosen.split(AT_ONCE)
            ]
        )
    unit = F.normalize(features, dim=1, eps=1e-12)
    return {FEATURES: unit.clone(), LABELS: examples.labels[chosen]}


def received_bank(shared: Tensors, device: torch.device) -> Bank | None:
    """The bank of a message; None where there is none."""
    if FEATURES not in shared:
        return None
    return shared[FEATURES].to(device), shared[LABELS].to(device)


def bank_review(objective: Objective, task: Task) -> Review:
    """Whether the file can be the server's public data."""
    try:
        if objective.bank_file:
            read_public(objective.bank_file, task)
    except DataError as error:
        return Review(errors=(str(error),))
    return Review()


def read_public(file: str, task: Task) -> Examples:
    """Public examples as stored, from a NumPy file with x and y; pickled objects are refused."""
    name = f"objective.bank_file '{file}'"
    if not Path(file).is_file():
        raise DataError(f"{name} does not exist; save public examples by numpy.savez(file, x, y).")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            inputs, labels = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]).long()
    except (KeyError, ValueError, TypeError, OSError, AttributeError) as error:
        raise DataError(
            f"{name} has no x and y of numbers ({error}); save public examples by "
            "numpy.savez(file, x=inputs, y=labels)."
        ) from error
    if tuple(inputs.shape[1:]) != tuple(task.input_shape) or labels.shape != inputs.shape[:1]:
        raise DataError(
            f"{name} holds x of {list(inputs.shape)} and y of {list(labels.shape)}, expected "
            f"inputs of shape {list(task.input_shape)} with one label each."
        )
    missing = sorted(set(range(task.num_classes)) - set(labels.tolist()))
    strange = sorted(set(labels.tolist()) - set(range(task.num_classes)))
    if missing or strange:
        raise DataError(
            f"{name} lacks the classes {missing} and has the unknown ones {strange}; a bank needs "
            f"examples of all {task.num_classes} classes, numbered from 0."
        )
    return Examples(inputs, labels)
