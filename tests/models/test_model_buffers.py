"""The buffer policy, held against every kind of network."""

from __future__ import annotations

import torch

from fedcord.core.task import tensors_of
from fedcord.models.buffers import Joining, joining_of, joining_policy
from fedcord.models.registry import network_factory


def test_counts_take_the_maximum_everything_else_the_mean_prototype_1_3() -> None:
    factory = network_factory(
        "resnet10,width=4", kind="image", input_shape=(3, 32, 32), num_classes=2
    )
    policy = joining_policy(tensors_of(factory(torch.Generator())))
    counts = {name for name, joining in policy.items() if joining is Joining.MAXIMUM}
    assert len(counts) == 12  # one per batch normalisation
    assert counts == {name for name in policy if name.endswith("num_batches_tracked")}
    assert policy["stem_norm.running_var"] is Joining.MEAN


def test_rule_is_on_the_type_alone() -> None:
    assert joining_of(torch.zeros(2)) is Joining.MEAN
    assert joining_of(torch.zeros(2, dtype=torch.float64)) is Joining.MEAN
    assert joining_of(torch.zeros(2, dtype=torch.int64)) is Joining.MAXIMUM
    assert joining_of(torch.zeros(2, dtype=torch.bool)) is Joining.MAXIMUM


def test_networks_without_batch_norm_have_only_means() -> None:
    for spec in ("mlp", "cnn", "resnet10,width=4,norm=group", "frozen:pixels"):
        factory = network_factory(spec, kind="image", input_shape=(3, 32, 32), num_classes=2)
        policy = joining_policy(tensors_of(factory(torch.Generator())))
        assert set(policy.values()) == {Joining.MEAN}, spec
