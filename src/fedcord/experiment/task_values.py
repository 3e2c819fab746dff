"""The task as plain values, by which processes and sites make the very same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from fedcord.core.device import CPU
from fedcord.core.task import FixedNetwork, NetworkFactory, Task
from fedcord.data.facts import DataFacts
from fedcord.data.transforms import DTYPES, augmentations, fixed_views, prepare_fn
from fedcord.models.registry import network_factory

TASK_FACTORY = "fedcord.experiment.task_values:task_from_values"
TEST_VIEWS = "test_views"


def task_values(
    facts: DataFacts,
    models: Sequence[str],
    data_dirs: Sequence[Path] = (),
    device: str = CPU,
    test_views: str | None = None,
) -> dict[str, Any]:
    """The task as plain values, from which any process can rebuild it.

    What was not there to choose when others did their work is left out where it is as it was.
    """
    table = facts.preparation
    return {
        "kind": facts.kind,
        "input_shape": list(facts.input_shape),
        "num_classes": facts.num_classes,
        "mean": list(facts.mean),
        "std": list(facts.std),
        "vocabulary": facts.vocabulary,
        "models": list(models),
        "data_dirs": [str(folder) for folder in data_dirs],
        **({} if table is None else {"preparation": table.to_json()}),
        **({} if device == CPU else {"device": device}),
        **({} if test_views is None else {TEST_VIEWS: test_views}),
    }


def task_from_values(values: Mapping[str, Any]) -> Task:
    """The inverse of `task_values`."""
    kind, mean, std = values["kind"], tuple(values["mean"]), tuple(values["std"])
    shape = tuple(values["input_shape"])

    def factory(model: str) -> NetworkFactory:
        return network_factory(
            model,
            kind=kind,
            input_shape=shape,
            num_classes=values["num_classes"],
            vocabulary=values["vocabulary"],
            mean=mean,
            std=std,
            data_dirs=values["data_dirs"],
        )

    return Task(
        num_classes=values["num_classes"],
        input_shape=shape,
        networks=[factory(model) for model in values["models"]],
        prepare=prepare_fn(kind, mean, std),
        augmentations=augmentations(kind, mean, std),
        device=torch.device(values.get("device", CPU)),
        input_dtype=DTYPES[kind],
        make_fixed=lambda name: cast(FixedNetwork, factory(f"frozen:{name}")(None)),
        test_views=fixed_views(values.get(TEST_VIEWS), kind, mean, std),
    )
