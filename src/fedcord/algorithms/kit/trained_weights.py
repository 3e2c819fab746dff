"""The part of a model that is trained, as it is named in what is sent.

Corrections of steps are about weights. Batch-norm statistics are measured, not descended to, and
stay with the plain mean.
"""

from __future__ import annotations

from torch import Tensor

from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


def trained_weights(model: Tensors, task: Task) -> dict[str, Tensor]:
    """Of a model as it is sent, the trained weights, in the network's order."""
    parameters = task.scratch_network().named_parameters()
    names = [f"{MODEL}.{name}" for name, own in parameters if own.requires_grad]
    return {name: model[name] for name in names}
