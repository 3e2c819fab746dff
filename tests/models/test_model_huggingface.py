"""Hugging Face encoders on small random models of the real classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from fedcord.core.errors import DataError
from fedcord.core.task import Network, tensors_of
from fedcord.models.registry import network_factory

transformers: Any = pytest.importorskip(
    "transformers", reason="the extra fedcord[huggingface] is not installed"
)


def small(kind: str) -> Any:
    vit = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "image_size": 32,
        "patch_size": 8,
    }
    if kind == "vit_mae":
        return transformers.ViTMAEModel(transformers.ViTMAEConfig(**vit))
    if kind == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**vit))
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetModel(config)


@pytest.mark.parametrize("kind", ["vit_mae", "dinov2", "resnet"])
def test_pooled_features(kind: str, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        model = small(kind).eval()
    model.save_pretrained(tmp_path)
    size = ",size=64" if kind == "resnet" else ""
    state = torch.get_rng_state()
    factory = network_factory(
        f"frozen:hf:{tmp_path}{size}", kind="image", input_shape=(3, 32, 32), num_classes=5
    )
    network = cast(Network, factory(torch.Generator().manual_seed(0)))
    assert network.feature_dim == 16
    assert set(tensors_of(cast(torch.nn.Module, network))) == {"head.weight", "head.bias"}
    x = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    found = network.features(x)
    assert found.shape == (3, 16)
    assert torch.equal(found, network.features(x))  # ViT-MAE would mask at random
    torch.testing.assert_close(found[:1], network.features(x[:1]), atol=1e-5, rtol=1e-4)
    assert torch.equal(state, torch.get_rng_state())
    if kind == "dinov2":
        mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
        with torch.no_grad():
            wanted = model(pixel_values=(x - mean) / std).pooler_output
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_model_that_is_not_there(tmp_path: Path) -> None:
    factory = network_factory(
        f"frozen:hf:{tmp_path / 'nothing'}", kind="image", input_shape=(3, 32, 32), num_classes=5
    )
    with pytest.raises(DataError, match="transformers cannot load"):
        factory(None)
