import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import ProtocolError
from fedcord.ops.weighted_mean import weighted_mean

WEIGHTS = st.lists(st.floats(0.5, 1000), min_size=1, max_size=6)


def _clients(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(count)
    return [
        {"w": torch.randn(3, 4, generator=generator), "n": torch.tensor(k, dtype=torch.int64)}
        for k in range(count)
    ]


@given(WEIGHTS)
def test_fedavg_spec_3_equals_a_slow_loop(weights: list[float]) -> None:
    clients = _clients(len(weights))
    mean = weighted_mean(zip(clients, weights, strict=True))
    slow = [
        [
            sum(k * float(c["w"][i, j]) for c, k in zip(clients, weights, strict=True))
            / sum(weights)
            for j in range(4)
        ]
        for i in range(3)
    ]
    assert torch.allclose(mean["w"].double(), torch.tensor(slow, dtype=torch.float64), atol=1e-6)
    assert mean["n"] == len(weights) - 1
    assert mean["w"].dtype == torch.float32


@given(WEIGHTS)
def test_fedavg_spec_3_identical_clients_give_exactly_themselves(weights: list[float]) -> None:
    client = _clients(1)[0]
    mean = weighted_mean((client, weight) for weight in weights)
    assert torch.equal(mean["w"], client["w"])


def test_fedavg_spec_3_order_and_scale() -> None:
    clients, weights = _clients(5), [1.0, 7.0, 2.0, 3.0, 0.5]
    pairs = list(zip(clients, weights, strict=True))
    forward, backward = weighted_mean(pairs), weighted_mean(reversed(pairs))
    assert torch.allclose(forward["w"], backward["w"], atol=1e-6)
    doubled = weighted_mean(({"w": 2 * c["w"]}, weight) for c, weight in pairs)
    assert torch.allclose(doubled["w"], 2 * forward["w"], atol=1e-6)


def test_arguments_stay_as_they_are_and_results_do_not_alias() -> None:
    client = _clients(1)[0]
    before = client["w"].clone()
    mean = weighted_mean([(client, 3.0)])
    mean["w"].zero_()
    mean["n"].add_(5)
    assert torch.equal(client["w"], before)
    assert client["n"] == 0


def test_no_weight_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="positive total weight"):
        weighted_mean([(_clients(1)[0], 0.0)])


def test_weights_without_a_finite_sum_are_an_error_not_a_mean_of_zero() -> None:
    with pytest.raises(ProtocolError, match="finite; it is inf"):
        weighted_mean([(client, 1e308) for client in _clients(2)])
