"""Stored inputs to network inputs, plain or randomly changed by draws from a passed generator."""

from fedcord.data.transforms.augmentations import augmentations
from fedcord.data.transforms.color import color_jitter, random_grayscale
from fedcord.data.transforms.fixed_views import NUM_VIEWS, fixed_views
from fedcord.data.transforms.geometry import random_crop, random_flip, random_resized_crop
from fedcord.data.transforms.prepare import DTYPES, normalize, prepare_fn, to_unit

__all__ = [
    "DTYPES",
    "NUM_VIEWS",
    "augmentations",
    "color_jitter",
    "fixed_views",
    "normalize",
    "prepare_fn",
    "random_crop",
    "random_flip",
    "random_grayscale",
    "random_resized_crop",
    "to_unit",
]
