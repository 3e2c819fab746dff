"""A model as one program of PyTorch's, which needs nothing else to run.

Preparation is part of it: it takes examples as they are stored, in batches of any size from 1, and
gives class scores. Weights are inside.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from fedcord.core.errors import NumericalError
from fedcord.data.facts import DataFacts
from fedcord.data.transforms import DTYPES
from fedcord.engine.threads import torch_threads
from fedcord.trained.model import TrainedModel

TOLERANCE = 1e-5
"""By how much scores of the program and of the model may differ, absolutely and relatively."""
TRACED = 3
"""Examples that are followed through the model; any other number takes the same way."""
LARGEST_BATCH = 1 << 20


class _Scores(nn.Module):
    """A function as a module, which is what can be exported."""

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._answer = answer

    def forward(self, inputs: Tensor) -> Tensor:
        return self._answer(inputs)


def traced(answer: Callable[[Tensor], Tensor], examples: Tensor) -> ExportedProgram:
    """A function of stored inputs [B, ...] as a program, by following some examples through it."""
    batch = torch.export.Dim("batch", max=LARGEST_BATCH)
    answer(examples[:TRACED])  # what is made once is made now, and becomes a constant
    with torch.no_grad():
        made = torch.export.export(
            _Scores(answer),
            (examples[:TRACED],),
            dynamic_shapes={"inputs": {0: batch}},
            strict=False,
        )
    for name, constant in made.constants.items():
        # a part of a tensor would be saved as all of it, and of other orders PyTorch warns
        if isinstance(constant, Tensor) and not _is_plain(constant):
            made.constants[name] = constant.clone(memory_format=torch.contiguous_format)
    return made


def _is_plain(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes


def program_of(model: TrainedModel) -> ExportedProgram:
    """The model as a program, compared with the model itself."""
    examples = any_examples(model.facts, 2 * TRACED + 1)
    with torch_threads(model.config.threads):
        made = traced(lambda stored: model.predictor.scores(model.prepared(stored)), examples)
        run = made.module()
        for size in (1, len(examples)):
            found, wanted = run(examples[:size]), model.scores(examples[:size])
            if not torch.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE):
                gap = float((found - wanted).abs().max())
                raise NumericalError(
                    f"the exported program's scores differ from the model's by {gap:.1e}; this is "
                    "a mistake in fedcord, please report it. Nothing was written."
                )
    return made


def any_examples(facts: DataFacts, count: int) -> Tensor:
    """Examples that say nothing, in the form that is stored."""
    shape = (count, *facts.input_shape)
    values = torch.arange(torch.Size(shape).numel()) * 37
    limit = facts.vocabulary if facts.kind == "text" else 251
    return (values % limit).view(shape).to(DTYPES[facts.kind])


def program_bytes(program: ExportedProgram, description: str) -> bytes:
    """The content of a `.pt2` file, with `model.json` inside."""
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"model.json": description})
    return file.getvalue()
