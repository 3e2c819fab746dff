"""FedAdam's step against torch.optim and against a loop over single numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedcord.ops.server_adam import server_adam


def _changes(steps: int) -> list[dict[str, Tensor]]:
    """What clients would change in each round, from huge to far below τ."""
    draws = torch.Generator().manual_seed(3)
    scale = torch.tensor([1e-6, 1e-3, 1.0, 1e3])
    return [
        {"w": scale * torch.randn(2, 4, generator=draws), "b": torch.randn(3, generator=draws)}
        for _ in range(steps)
    ]


def _start() -> dict[str, Tensor]:
    return {"w": torch.zeros(2, 4), "b": torch.zeros(3)}


def test_five_steps_against_a_loop_over_single_numbers() -> None:
    tensors, moments = _start(), dict[str, Tensor]()
    x, m, v = ([0.0] * 8 for _ in range(3))
    for change in _changes(5):
        mean = {name: tensor + change[name] for name, tensor in tensors.items()}
        tensors, moments = server_adam(tensors, mean, moments, 0.02)
        for i, delta in enumerate(change["w"].flatten().tolist()):
            m[i] = 0.9 * m[i] + 0.1 * delta
            v[i] = 0.99 * v[i] + 0.01 * delta * delta
            x[i] = x[i] + 0.02 * m[i] / (math.sqrt(v[i]) + 1e-3)
        assert tensors["w"].flatten().tolist() == pytest.approx(x, rel=1e-3, abs=1e-5)
    assert moments.keys() == {"first.w", "second.w", "first.b", "second.b"}


def test_it_is_adam_without_bias_correction_on_the_pseudo_gradient() -> None:
    """torch's Adam divides m and √v by 1 − β₁ᵗ and √(1 − β₂ᵗ); its rate and ε take that back."""
    parameter = torch.zeros(3, requires_grad=True)
    theirs = torch.optim.Adam([parameter], betas=(0.9, 0.99))
    tensors, moments = {"b": torch.zeros(3)}, dict[str, Tensor]()
    for step, change in enumerate(_changes(6), start=1):
        mean = {"b": tensors["b"] + change["b"]}
        tensors, moments = server_adam(tensors, mean, moments, 0.01)
        root = math.sqrt(1 - 0.99**step)
        theirs.param_groups[0].update(lr=0.01 * (1 - 0.9**step) / root, eps=1e-3 / root)
        parameter.grad = -change["b"]
        theirs.step()
        torch.testing.assert_close(tensors["b"], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_inputs_are_left_alone_and_no_change_is_no_step() -> None:
    before = {"b": torch.ones(3)}
    after, moments = server_adam(before, before, {}, 0.1)
    assert torch.equal(after["b"], torch.ones(3))
    held = {name: tensor.clone() for name, tensor in moments.items()}
    server_adam(before, {"b": torch.zeros(3)}, moments, 0.1)
    assert torch.equal(before["b"], torch.ones(3))
    assert all(torch.equal(held[name], tensor) for name, tensor in moments.items())
