"""New examples in the form that a run has stored its own in, or words that say why they are not.

image   uint8 [N, C, H, W], 0 to 255
vector  float32 [N, D], not scaled
text    int64 [N, L], token ids, 0 for padding
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array
from fedcord.data.facts import DataFacts
from fedcord.data.transforms import DTYPES

FORMS: Mapping[str, str] = {
    "image": "uint8 images with values from 0 to 255",
    "vector": "numbers as they are, not scaled",
    "text": "token ids, whole numbers with 0 for padding",
}


def stored_form(inputs: Array | Tensor, facts: DataFacts) -> Tensor:
    """Examples [N, ...] as the model's own were stored."""
    found = np.asarray(inputs.cpu() if isinstance(inputs, Tensor) else inputs)
    _check_shape(found, facts)
    if not _fits(found, facts.kind):
        raise DataError(
            f"examples are {found.dtype}; the model takes {FORMS[facts.kind]}, "
            f"[N, {', '.join(map(str, facts.input_shape))}]."
        )
    with np.errstate(over="ignore"):  # what overflows is told by row
        stored = torch.tensor(found).to(DTYPES[facts.kind])
    if facts.kind == "vector":
        _refuse(~torch.isfinite(stored).all(dim=1), "NaN, infinity or a number beyond float32")
    if facts.kind == "text":
        is_token = (stored >= 0) & (stored < facts.vocabulary)
        _refuse(
            ~is_token.all(dim=1), f"a token id outside 0 to {facts.vocabulary - 1}, which it knows"
        )
    return stored


def _check_shape(found: Array, facts: DataFacts) -> None:
    shape = list(facts.input_shape)
    if found.ndim == 0 or list(found.shape[1:]) != shape:
        raise DataError(
            f"examples have shape {list(found.shape[1:])}, the model takes {shape}: give "
            f"[N, {', '.join(map(str, shape))}]."
        )


def _fits(found: Array, kind: str) -> bool:
    if kind == "image":
        return found.dtype == np.uint8
    return found.dtype.kind in ("iufb" if kind == "vector" else "iu")


def _refuse(wrong: Tensor, what: str) -> None:
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        raise DataError(f"example {row} (from 0) holds {what}; clean or leave out such examples.")
