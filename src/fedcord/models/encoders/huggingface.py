"""Encoders of Hugging Face `transformers`: ViT-MAE, DINOv2, ResNet and others of their form.

The package is an extra. Weights are read from safetensors only, and no code from a repository runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedcord.core.errors import ConfigError, DataError
from fedcord.models.frozen import Encoder
from fedcord.models.options import FrozenOptions, Inputs

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
DEFAULT_SIZE = 224


class PooledFeatures(nn.Module):
    """One vector per image from a `transformers` vision model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.is_masked = getattr(model.config, "model_type", "") == "vit_mae"

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] images to [B, D]: the model's pooled output, else its class token."""
        more: dict[str, Tensor] = {}
        if self.is_masked:
            # nothing is masked; a rising order instead of noise keeps patches in place and leaves
            # the global generator alone
            config: Any = self.model.config
            patches = (config.image_size // config.patch_size) ** 2
            more["noise"] = torch.arange(patches, device=images.device).float()
            more["noise"] = more["noise"].expand(images.shape[0], -1)
        output = self.model(pixel_values=images, **more)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        last: Tensor = output.last_hidden_state
        return last[:, 0] if last.dim() == 3 else last.mean((2, 3))


def load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    """A pretrained model by hub name or folder."""
    name = options.encoder.removeprefix("hf:")
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(
            f"frozen:{options.encoder} needs the package transformers; "
            "install it with: pip install 'fedcord[huggingface]'."
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        if getattr(config, "model_type", "") == "vit_mae":
            config.mask_ratio = 0.0
        model = transformers.AutoModel.from_pretrained(name, config=config, use_safetensors=True)
    except (OSError, ValueError) as error:
        raise DataError(
            f"transformers cannot load '{name}' ({str(error).splitlines()[0]}); give the name of a "
            "vision model on the hub or a folder with config.json and model.safetensors."
        ) from error
    size = options.size or int(getattr(config, "image_size", 0) or DEFAULT_SIZE)
    mean, std = _normalisation(name)
    module = PooledFeatures(model).eval()
    with torch.no_grad():
        feature_dim = module(torch.zeros(1, 3, size, size)).shape[1]
    return Encoder(module, feature_dim, channels=3, size=size, mean=mean, std=std)


def _normalisation(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What the model's own preprocessing says, else ImageNet's values."""
    from transformers.utils import cached_file

    found = cached_file(
        name,
        "preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    stated = json.loads(Path(found).read_text()) if found else {}
    mean, std = stated.get("image_mean"), stated.get("image_std")
    return tuple(mean or IMAGENET_MEAN), tuple(std or IMAGENET_STD)
