"""Any averaging method, and at the end its classifier calibrated on features drawn at the server.

Reference: Luo et al., "No Fear of Heterogeneity: Classifier Calibration for Federated Learning with
Non-IID Data", NeurIPS 2021 (arXiv 2106.05001).

Travels: as the inner method; in the last round down the model, up for every class the number of the
client's samples and the sums Σ z and Σ z z' of their features, C (1 + D + D(D+1)/2) numbers. Stays:
as with the inner method; samples and features.

| paper | here |
|---|---|
| N_{c,k}; μ_{c,k}, Σ_{c,k} of client k | `class.count`; `class.sum`, `class.square` tell the same |
| μ_c, Σ_c of everybody | `gaussians`, from the sums of sums |
| M_c virtual features of class c | `virtual`, the same for every class |
| calibrated classifier | the averaged one, trained on by `epochs`, `lr`, `batch_size` |

    Σ_c = (Σ_k Σ z z' − N_c μ_c μ_c') / (N_c − 1)

Deviations: clients send sums where the paper's send means and covariances, from which the same μ_c
and Σ_c follow. Sums can also be masked. A class with a single sample has covariance 0;
one that nobody has gets no virtual features.

Limits: all of the model but its classifier has the bits of the inner method after n − 1 rounds.
Classes of one covariance: with ever more virtual features and steps it becomes the Gaussian
classifier with weights Σ⁻¹μ_c and biases −½ μ_c'Σ⁻¹μ_c (linear discriminant analysis). epochs = 0
leaves the classifier as averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from fedcord.algorithms.averaging.exact_head import FEATURES
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.head_round import (
    HasHeadRound,
    averaging_method,
    with_classifier,
)
from fedcord.algorithms.kit.linear_head import Head, head_of, train_head
from fedcord.core.contract import Env, ServerState, Update, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.gram import GramAccumulator
from fedcord.ops.symmetric import decompose, packed_length, unpack

COUNT, SUM, SQUARE = "class.count", "class.sum", "class.square"


@dataclass(frozen=True)
class CCVR(HasHeadRound):
    """An averaging method with a calibrated classifier at its end."""

    of: str = param("fedavg", "the averaging method; its parameters are inner.…")
    virtual: int = param(500, "features drawn for each class (paper: M_c)", at_least=1)
    epochs: int = param(10, "passes over them", at_least=0)
    lr: float = param(0.05, "learning rate of the classifier", above=0, space=(0.001, 0.5, "log"))
    batch_size: int = param(64, "virtual features per step", at_least=1)
    inner: Any = param(
        FedAvg(), "the averaging method's parameters", named_by=("of", averaging_method)
    )

    head_round = "last"

    def __post_init__(self) -> None:
        check_params(self)
        self.check_inner()

    def expected_sums(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Counts, sums and one triangle of the sums of products, for every class."""
        classes, width = env.task.num_classes, FEATURES.num_features(env.task) - 1
        return {
            COUNT: TensorSpec((classes,), torch.int64, counts=True),
            SUM: TensorSpec((classes, width), torch.float64),
            SQUARE: TensorSpec((classes, packed_length(width)), torch.float64),
        }

    def client_sums(self, shared: Tensors, data: ClientData, env: Env) -> Update:
        """One pass over the samples, which are only ever added up."""
        classes, width = env.task.num_classes, FEATURES.num_features(env.task) - 1
        sums = torch.zeros(classes, width, dtype=torch.float64)
        squares = [GramAccumulator(width) for _ in range(classes)]
        for rows, labels in FEATURES.batches(data.train, shared, env):
            sums.index_add_(0, labels, rows[:, :-1])
            for label in labels.unique().tolist():
                squares[label].add(rows[labels == label, :-1])
        tensors = {
            COUNT: torch.bincount(data.train.labels, minlength=classes),
            SUM: sums,
            SQUARE: torch.stack([square.packed() for square in squares]),
        }
        return Update(tensors, weight=len(data.train))

    def solved(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The averaged classifier, trained on virtual features of the classes' Gaussians."""
        total: dict[str, Tensor] = {}
        for _, update in updates:
            for name, tensor in update.tensors.items():
                total[name] = total[name] + tensor if name in total else tensor.clone()
        means, covariances = gaussians(total)
        held = (total[COUNT] > 0).nonzero()[:, 0]
        drawn = env.generator("virtual-features")
        vectors = [draw(means[c], covariances[c], self.virtual, drawn) for c in held.tolist()]
        before = head_of(state.shared, env)
        head = Head(before.weight.clone(), before.bias.clone())
        inputs, labels = torch.cat(vectors).float(), held.repeat_interleave(self.virtual)
        order = env.generator("virtual-order")
        train_head(head, inputs, labels, self.epochs, self.lr, self.batch_size, order)
        return with_classifier(state, head, env)


def gaussians(total: Tensors) -> tuple[Tensor, Tensor]:
    """Means [C, D] and covariances [C, D, D] of classes, from everybody's sums."""
    count = total[COUNT].double()
    means = total[SUM] / count.clamp(min=1)[:, None]
    squares = torch.stack([unpack(packed) for packed in total[SQUARE]])
    products = means[:, :, None] * means[:, None, :]
    centred = squares - count[:, None, None] * products
    covariances = centred / (count - 1).clamp(min=1)[:, None, None]
    return means, torch.where((count > 1)[:, None, None], covariances, 0.0)


def draw(mean: Tensor, covariance: Tensor, number: int, generator: Generator) -> Tensor:
    """[number, D] float64 from N(mean [D], covariance [D, D]), which may be singular."""
    values, vectors = decompose(covariance)
    root = vectors * values.clamp(min=0).sqrt()  # rounding can leave a little below zero
    noise = torch.randn(number, len(mean), generator=generator, dtype=torch.float64)
    return mean + noise @ root.T
