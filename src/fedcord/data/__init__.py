"""Data sets, and how they are shared out over clients."""

from fedcord.data.dataset import Dataset, Split
from fedcord.data.registry import DATASETS, USER_FORMATS, DatasetInfo, check_spec, load_dataset

__all__ = [
    "DATASETS",
    "USER_FORMATS",
    "Dataset",
    "DatasetInfo",
    "Split",
    "check_spec",
    "load_dataset",
]
