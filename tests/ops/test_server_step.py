"""Steps of the server against torch.optim and against loops over single numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedcord.ops.server_step import RULES, ServerRule, server_step


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
        tensors, moments = server_step(ServerRule("adam", 0.02), tensors, mean, moments)
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
        tensors, moments = server_step(ServerRule("adam", 0.01), tensors, mean, moments)
        root = math.sqrt(1 - 0.99**step)
        theirs.param_groups[0].update(lr=0.01 * (1 - 0.9**step) / root, eps=1e-3 / root)
        parameter.grad = -change["b"]
        theirs.step()
        torch.testing.assert_close(tensors["b"], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_momentum_is_torchs_sgd_on_the_pseudo_gradient() -> None:
    parameter = torch.zeros(3, requires_grad=True)
    theirs = torch.optim.SGD([parameter], lr=0.3, momentum=0.8)
    rule = ServerRule("momentum", 0.3, 0.8)
    tensors, moments = {"b": torch.zeros(3)}, dict[str, Tensor]()
    for change in _changes(6):
        mean = {"b": tensors["b"] + change["b"]}
        tensors, moments = server_step(rule, tensors, mean, moments)
        parameter.grad = -change["b"]
        theirs.step()
        torch.testing.assert_close(tensors["b"], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_adagrad_is_torchs_on_the_pseudo_gradient() -> None:
    parameter = torch.zeros(3, requires_grad=True)
    theirs = torch.optim.Adagrad([parameter], lr=0.1, eps=1e-3, initial_accumulator_value=1e-6)
    rule = ServerRule("adagrad", 0.1, momentum=0.0, second_start=1e-6)
    tensors, moments = {"b": torch.zeros(3)}, dict[str, Tensor]()
    for change in _changes(6):
        mean = {"b": tensors["b"] + change["b"]}
        tensors, moments = server_step(rule, tensors, mean, moments)
        parameter.grad = -change["b"]
        theirs.step()
        torch.testing.assert_close(tensors["b"], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_yogi_against_a_loop_over_single_numbers() -> None:
    rule = ServerRule("yogi", 0.02, second_start=1e-6)
    tensors, moments = {"b": torch.zeros(3)}, dict[str, Tensor]()
    x, m, v = [0.0] * 3, [0.0] * 3, [1e-6] * 3
    for change in _changes(5):
        mean = {"b": tensors["b"] + change["b"]}
        tensors, moments = server_step(rule, tensors, mean, moments)
        for i, delta in enumerate(change["b"].tolist()):
            m[i] = 0.9 * m[i] + 0.1 * delta
            towards = (v[i] > delta * delta) - (v[i] < delta * delta)
            v[i] = v[i] - 0.01 * delta * delta * towards
            x[i] = x[i] + 0.02 * m[i] / (math.sqrt(v[i]) + 1e-3)
        assert tensors["b"].tolist() == pytest.approx(x, rel=1e-4)


@pytest.mark.parametrize("kind", RULES)
def test_inputs_are_left_alone_and_no_change_is_no_step(kind: str) -> None:
    rule, before = ServerRule(kind, 0.1), {"b": torch.ones(3)}
    after, moments = server_step(rule, before, before, {})
    assert torch.equal(after["b"], torch.ones(3))
    held = {name: tensor.clone() for name, tensor in moments.items()}
    server_step(rule, before, {"b": torch.zeros(3)}, moments)
    assert torch.equal(before["b"], torch.ones(3))
    assert all(torch.equal(held[name], tensor) for name, tensor in moments.items())
