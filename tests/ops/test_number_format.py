"""Networks in fewer bits: how far they are off, that stacks agree, and what they weigh."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import NumericalError
from fedcord.core.rng import torch_generator
from fedcord.core.tensors import num_bytes, spec_of
from fedcord.ops.number_format import grow, shrink, travelling_bytes, travelling_spec
from tests.federation import IMAGE, task

TENSORS = st.tuples(st.integers(0, 10**6), st.floats(1e-4, 1e3))


@given(TENSORS)
def test_int8_is_within_half_a_step_and_float16_within_its_precision(drawn: Any) -> None:
    seed, scale = drawn
    draws = torch_generator(seed, "w", 0, 0)
    tensors = {
        "kernel": scale * torch.randn(4, 3, 2, 2, generator=draws),
        "matrix": scale * torch.randn(5, 7, generator=draws),
        "vector": scale * torch.randn(5, generator=draws),
        "zero": torch.zeros(2, 3),
        "count": torch.tensor(7),
    }
    small = grow(shrink(tensors, "int8"))
    assert small.keys() == tensors.keys()
    for name in ("kernel", "matrix", "zero"):
        step = tensors[name].flatten(1).abs().amax(1) / 127
        error = (small[name] - tensors[name]).flatten(1).abs()
        assert bool((error <= 0.5 * step[:, None] * (1 + 1e-4)).all())
    assert torch.equal(small["vector"], tensors["vector"])
    assert torch.equal(small["count"], tensors["count"])
    half = grow(shrink(tensors, "float16"))
    for name in ("kernel", "matrix", "vector"):
        assert half[name].dtype == torch.float32
        error = (half[name] - tensors[name]).abs()
        assert bool((error <= tensors[name].abs() * 2**-11 + 2**-25).all())
    assert all(torch.equal(grow(shrink(tensors, "float32"))[n], t) for n, t in tensors.items())


@pytest.mark.parametrize("form", ["float32", "float16", "int8"])
def test_shapes_and_bytes_are_known_without_values(form: str) -> None:
    network = task(IMAGE).initial_network(torch_generator(0, "w", 0, 0))
    tensors = dict(network.state_dict())
    assert travelling_spec(tensors, form) == spec_of(shrink(tensors, form))
    assert travelling_bytes(tensors, form) == num_bytes(shrink(tensors, form))
    garbage = {
        n: torch.full_like(t, 1e30) if t.is_floating_point() else t for n, t in tensors.items()
    }
    assert travelling_bytes(garbage, form) == travelling_bytes(tensors, form)


def test_weights_beyond_float16_are_refused() -> None:
    with pytest.raises(NumericalError, match=r"w has values up to 70000, beyond float16; use"):
        shrink({"w": torch.tensor([7e4])}, "float16")


@pytest.mark.parametrize("form", ["float32", "float16", "int8"])
def test_networks_stacked_after_they_travelled_are_those_that_travelled(form: str) -> None:
    own = []
    for seed in range(3):
        draws = torch_generator(seed, "w", 0, 0)
        kernel = torch.randn(4, 3, 2, 2, generator=draws)
        own.append(shrink({"kernel": kernel, "bias": kernel[:, 0, 0, 0].clone()}, form))
    stacked = grow({name: torch.stack([each[name] for each in own]) for name in own[0]})
    for place, each in enumerate(own):
        for name, tensor in grow(each).items():
            assert torch.equal(stacked[name][place], tensor)
