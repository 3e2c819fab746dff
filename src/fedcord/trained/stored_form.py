"""New examples in the form that a run has stored its own in, or words that say why they are not.

image   uint8 [N, C, H, W], 0 to 255
vector  float32 [N, D], not scaled
text    int64 [N, L], token ids, 0 for padding; or texts, where the run knows its words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array
from fedcord.data.facts import DataFacts
from fedcord.data.transforms import DTYPES
from fedcord.data.vocabulary import Vocabulary

FORMS: Mapping[str, str] = {
    "image": "uint8 images with values from 0 to 255",
    "vector": "numbers as they are, not scaled",
    "text": "token ids, whole numbers with 0 for padding",
}


Inputs = Array | Tensor | Sequence[str]
"""New examples: arrays, or texts as they are written."""


def stored_form(inputs: Inputs, facts: DataFacts) -> Tensor:
    """Examples [N, ...] as the model's own were stored."""
    if isinstance(inputs, str):
        raise DataError("one text was given; give a list of them, such as [text].")
    found = np.asarray(inputs.cpu() if isinstance(inputs, Tensor) else inputs)
    if found.dtype.kind in "UO" and found.ndim == 1 and all(isinstance(x, str) for x in found):
        return torch.from_numpy(known_words(facts).encode(found.tolist()))
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


def known_words(facts: DataFacts) -> Vocabulary:
    """What numbers the words of texts, which is the run's and never made of new ones."""
    if facts.kind != "text":
        raise DataError(f"texts were given; the model takes {FORMS[facts.kind]}.")
    if facts.words is None:
        raise DataError(
            "the run knows its texts by token ids only, and not by which words; give token ids "
            f"[N, {facts.input_shape[0]}] of the same numbers, or train with words beside the ids."
        )
    return facts.words


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
