"""One model from the members' layer-wise posteriors.

Reference: Liu et al., "FedLPA: One-shot Federated Learning with Layer-Wise Posterior Aggregation",
NeurIPS 2024.

Travels: up, besides the model, A [in, in] and B [out, out] of every layer.

| paper | here |
|---|---|
| A_i, B_i | `extra.<layer>.inputs`, `extra.<layer>.outputs`; see `kronecker` |
| M_i | a layer's weights [out, in], bias as the last column |
| √(1 − ρ) on the diagonals of A_i and B_i | `damping`; ρ = 0.999 as in the authors' main scripts |

Solves Σ w_i B_i M A_i = Σ w_i B_i M_i A_i for M by conjugate gradients, started from and
preconditioned by the "expectation" solution (Σ w_i B_i)⁻¹ Z (Σ w_i A_i)⁻¹. Everything
without factors is averaged.

Deviations: the authors take 10,000 plain gradient steps and report the better of both solutions on
test data; we solve to a residual and select nothing.

Limits: identical members give that member; factors A = B = I, and `damping` → ∞, give `param_avg`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.kronecker import (
    PROTOTYPES,
    factored_layers,
    layer_matrix,
)
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.algorithms.oneshot.servers.param_avg import MODEL, ParamAvg, fused_scores
from fedcord.algorithms.oneshot.servers.param_avg import PROTOTYPES as FUSED_PROTOTYPES
from fedcord.core.contract import Env, Scores
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors

RHO = 0.999
"""ρ of the authors' main scripts."""


@dataclass(frozen=True)
class Posterior:
    """How posteriors are regularised and solved."""

    damping: float = param(
        math.sqrt(1 - RHO),
        "added to the diagonal of both factors; √(1 − ρ), authors: ρ = 0.999",
        above=0,
    )
    tolerance: float = param(1e-6, "relative residual at which a solve ends", above=0, below=1)
    max_iterations: int = param(1000, "most conjugate-gradient steps per layer", at_least=1)
    batch_size: int = param(64, "examples at once when a client computes factors", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)


@dataclass(frozen=True)
class LPA:
    """Posterior fusion into one model."""

    average: ParamAvg
    posterior: Posterior

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """`fused.model.*` and `fused.prototypes` [C, D]."""
        fused = self.average.fuse(members, common, env)
        weights = member_weights(members, self.average.weighting).double()
        everyone = list(members.values())
        network = env.task.scratch_network(next(iter(members)))

        def solve(name: str, matrices: list[Tensor]) -> Tensor:
            solved = solve_layer(
                [m.extra[f"{name}.inputs"] for m in everyone],
                [m.extra[f"{name}.outputs"] for m in everyone],
                matrices,
                weights,
                self.posterior,
            )
            return solved.to(matrices[0].dtype)

        for name, layer in factored_layers(network).items():
            weight, bias = f"{name}.weight", f"{name}.bias"
            matrices = [layer_matrix(m.model[weight], m.model.get(bias)) for m in everyone]
            solved = solve(name, matrices)
            if layer.bias is not None:
                fused[f"{MODEL}.{bias}"] = solved[:, -1].clone()
                solved = solved[:, :-1]
            fused[f"{MODEL}.{weight}"] = solved.reshape(layer.weight.shape).clone()
        fused[FUSED_PROTOTYPES] = solve(PROTOTYPES, [m.prototypes for m in everyone])
        return fused

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Scores of the one model."""
        return fused_scores(result, env)


def solve_layer(
    input_factors: Sequence[Tensor],
    output_factors: Sequence[Tensor],
    matrices: Sequence[Tensor],
    weights: Tensor,
    posterior: Posterior,
) -> Tensor:
    """M [out, in] with Σ w_i B_i M A_i = Σ w_i B_i M_i A_i, in float64.

    Args:
        input_factors: A_i [in, in], without damping.
        output_factors: B_i [out, out], without damping.
        matrices: M_i [out, in].
        weights: w [K].
        posterior: damping and when to stop.
    """
    a = torch.stack([damped(f, posterior.damping) for f in input_factors])  # [K, in, in]
    b = torch.stack([damped(f, posterior.damping) for f in output_factors])  # [K, out, out]
    b = b * weights[:, None, None]
    own = torch.stack([matrix.double() for matrix in matrices])  # [K, out, in]
    inverse_a = torch.linalg.inv((weights[:, None, None] * a).sum(0))
    inverse_b = torch.linalg.inv(b.sum(0))

    def apply(matrix: Tensor) -> Tensor:
        total: Tensor = (b @ matrix @ a).sum(0)
        return total

    def precondition(matrix: Tensor) -> Tensor:
        """The exact inverse of `apply` when all members have equal factors."""
        out: Tensor = inverse_b @ matrix @ inverse_a
        return out

    target = apply(own)
    limit = posterior.tolerance * float(target.norm())
    solved = precondition(target)
    residual = target - apply(solved)
    direction = precondition(residual)
    product = (residual * direction).sum()
    for _ in range(posterior.max_iterations):
        if float(residual.norm()) <= limit:
            return solved
        image = apply(direction)
        step = product / (direction * image).sum()
        solved = solved + step * direction
        residual = residual - step * image
        improved = precondition(residual)
        before, product = product, (residual * improved).sum()
        direction = improved + product / before * direction
    raise NumericalError(
        f"lpa: residual {float(residual.norm()):.1e} after {posterior.max_iterations} steps, "
        f"wanted {limit:.1e}; raise server.posterior.damping (now {posterior.damping:g}), "
        "server.posterior.max_iterations or server.posterior.tolerance."
    )


def damped(factor: Tensor, damping: float) -> Tensor:
    """A factor as a symmetric positive definite float64 matrix."""
    symmetric = (factor.double() + factor.double().T) / 2
    return symmetric + damping * torch.eye(len(factor), dtype=torch.float64)
