"""Named settings of FedHPro as plain values; this module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

REFERENCE: Mapping[str, Any] = MappingProxyType(
    {
        "extraction": {"scale": "reference"},
        "matching": {"lr": 0.1, "metric": "coordinate", "classifier": "updated"},
        "objective": {"margin": "off", "contrast_reduction": "reference"},
    }
)
"""What the authors' code computes, its plain bugs corrected."""

AVERAGED: Mapping[str, Any] = MappingProxyType({"source": "prototypes"})
"""Class means instead of gradients, a mean instead of matching; nothing else."""
