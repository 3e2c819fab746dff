"""The partition a configuration stands for; needs no PyTorch."""

from __future__ import annotations

from fedcord.data.dataset import Dataset
from fedcord.data.partition import Partition, make_partition
from fedcord.experiment.config import RunConfig


def partition_of(config: RunConfig, dataset: Dataset) -> Partition:
    """Which client holds which training examples."""
    return make_partition(
        config.partition,
        dataset.train.labels,
        num_classes=dataset.num_classes,
        num_clients=config.clients,
        seed=config.seed,
        groups=dataset.train.groups,
        group_names=dataset.group_names,
        longtail=config.longtail,
        subset=config.subset,
    )
