"""λ policies: the σ loss by autograd, its rest points, the valve, and entropy."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.oneshot.policy import KINDS, LOG_LIMIT, Policy, Sigma
from fedcord.core.errors import ConfigError

LEARNED = (
    "uw",
    "uw_ext_coupled",
    "uw_ext",
    "uw_meta_data_raw",
    "uw_meta_data",
    "uw_meta_log",
    "kendall_coupled",
)
S_D = {"uw_ext_coupled", "uw_meta_data_raw", "uw_meta_data"}
S_L = {"uw_meta_log"}
S_W = {"uw_ext_coupled", "uw_ext", "uw_meta_data"}


def sigma_loss(policy: Policy, ell: Tensor, base: float, align: float, s: float) -> Tensor:
    """L_σ as `policy` states it, written out with autograd."""
    local, towards = ell
    a, b = local.exp(), towards.exp()
    s_d = s if policy.kind in S_D else 1.0
    s_l = s if policy.kind in S_L else 1.0
    loss = base / (2 * a) + s_d * align / (2 * b) + local / 2 + s_l * towards / 2
    loss = loss + policy.align_floor / b + policy.local_pull * local**2
    if policy.lambda_max > 0:
        over = torch.relu(a / b - policy.lambda_max)
        loss = loss + policy.hinge_weight * (over if policy.hinge == "linear" else over**2)
    assert isinstance(loss, Tensor)
    return loss


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("hinge", ["linear", "squared"])
@pytest.mark.parametrize("start", [(0.3, -0.2), (3.0, -2.0), (-1.0, 2.5)])
def test_gradient_is_that_of_the_sigma_loss(
    kind: str, hinge: str, start: tuple[float, float]
) -> None:
    policy = Policy(
        kind, lambda_max=20, hinge=hinge, hinge_weight=0.03, align_floor=0.01, local_pull=0.002
    )
    ell = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    sigma_loss(policy, ell, 7.0, 0.8, 0.4).backward()
    found = policy.gradient(Sigma(*start), 7.0, 0.8, 0.4)
    assert ell.grad is not None
    assert found == pytest.approx(ell.grad.tolist(), rel=1e-10)


@pytest.mark.parametrize("kind", LEARNED)
def test_descent_is_torch_sgd_with_momentum(kind: str) -> None:
    policy = Policy(kind, lambda_max=20, sigma_lr=0.02)
    ell = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([ell], lr=0.02, momentum=0.9)
    sigma = Sigma(1.0, 0.0)
    for step in range(20):
        s = 1 - step / 20
        optimizer.zero_grad()
        sigma_loss(policy, ell, 7.0, 0.8, s).backward()
        optimizer.step()
        sigma = policy.descend(sigma, policy.gradient(sigma, 7.0, 0.8, s), 0.9)
    assert (sigma.log_local, sigma.log_align) == pytest.approx(ell.tolist(), rel=1e-9)


def rest(policy: Policy, base: float, align: float, s: float = 1.0, steps: int = 8_000) -> Sigma:
    """Where frozen losses lead; the last steps are small so that kinks do not chatter."""
    sigma = Sigma(math.log(10.0), 0.0)
    for step in range(steps):
        lr = 0.3 if step < steps // 2 else 0.3 * 1e-4 ** (2 * step / steps - 1)
        g = policy.gradient(sigma, base, align, s)
        shrink = lr / max(1.0, math.hypot(*g))
        sigma = Sigma(sigma.log_local - shrink * g[0], sigma.log_align - shrink * g[1])
    return sigma


@pytest.mark.parametrize(
    ("policy", "base", "align", "s", "expected"),
    [
        (Policy("uw"), 7, 0.8, 1.0, 8.75),
        (Policy("uw_meta_data"), 7, 0.8, 0.1, 87.5),
        (Policy("uw_meta_data_raw"), 7, 0.8, 0.1, 87.5),
        (Policy("uw_ext_coupled"), 7, 0.8, 0.1, 87.5),
        (Policy("uw_ext"), 7, 0.8, 0.1, 8.75),
        (Policy("uw_meta_log"), 7, 0.8, 0.1, 0.875),
        (Policy("kendall_coupled"), 7, 0.8, 1.0, 8.75),
        (Policy("uw", align_floor=0.001), 7, 1e-4, 1.0, 3333.3),
    ],
)
def test_invariant_17_rest_points_for_frozen_losses(
    policy: Policy, base: float, align: float, s: float, expected: float
) -> None:
    assert rest(policy, base, align, s).ratio == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kind", ["uw_ext_coupled", "uw_meta_data"])
def test_invariant_18_the_schedule_cancels_in_the_weight_used(kind: str) -> None:
    policy = Policy(kind)
    used = [policy.weights(rest(policy, 7, 0.8, s), s)[1] for s in (1.0, 0.5, 0.1)]
    assert used == pytest.approx([8.75] * 3, rel=1e-3)


@pytest.mark.parametrize("kind", ["uw_ext", "uw_meta_log"])
def test_the_recommended_kinds_follow_the_schedule(kind: str) -> None:
    policy = Policy(kind)
    used = [policy.weights(rest(policy, 7, 0.8, s), s)[1] for s in (1.0, 0.5, 0.1)]
    assert used == pytest.approx([8.75, 4.375, 0.875], rel=1e-3)


@pytest.mark.parametrize("unbound", [140.0, 7000.0, 7e5])
def test_invariant_20_a_strong_valve_holds_whatever_the_losses(unbound: float) -> None:
    policy = Policy("uw", lambda_max=50, hinge_weight=0.02)
    assert rest(policy, 7, 7 / unbound).ratio == pytest.approx(50, abs=1)


def test_invariant_20_a_weak_valve_is_a_soft_cap() -> None:
    policy = Policy("uw", lambda_max=50, hinge_weight=0.001)
    assert rest(policy, 7, 7 / 7000).ratio == pytest.approx(440.8, abs=1)


def test_invariant_20_a_valve_leaves_small_weights_alone() -> None:
    policy = Policy("uw", lambda_max=50, hinge_weight=0.02)
    assert rest(policy, 7, 7 / 35).ratio == pytest.approx(35, rel=1e-3)


def test_the_bound_of_the_valve_is_one_over_twice_lambda_max() -> None:
    def held(weight: float) -> float:
        policy = Policy("uw", lambda_max=50, hinge_weight=weight)
        return rest(policy, 7, 7 / 1e5).ratio

    assert held(0.0101) == pytest.approx(50, abs=1)
    assert held(0.0090) > 52


def test_invariant_19_the_valve_changes_no_bit_below_its_threshold() -> None:
    with_valve, without = Policy("uw_meta_data", lambda_max=50), Policy("uw_meta_data")
    a = b = with_valve.begin(torch.tensor([5, 3, 0]))
    largest = 0.0
    for step in range(300):
        s, align = 1 - step / 400, 0.5 * 0.999**step
        a = with_valve.descend(a, with_valve.gradient(a, 6.0, align, s), 0.9)
        b = without.descend(b, without.gradient(b, 6.0, align, s), 0.9)
        largest = max(largest, a.ratio)
        assert a == b
    assert 10 < largest < 50


def test_invariant_12_which_weights_end_at_zero() -> None:
    sigma = Sigma(1.0, 0.0)
    for kind in ("anneal", "entropy", "uw_ext", "uw_meta_data", "uw_ext_coupled"):
        assert Policy(kind).weights(sigma, 0.0)[1] == 0
    for kind in ("fixed", "uw", "uw_meta_log", "uw_meta_data_raw"):
        assert Policy(kind).weights(sigma, 0.0)[1] == sigma.ratio


def test_invariant_12_meta_log_falls_step_by_step_once_the_schedule_is_zero() -> None:
    policy, sigma = Policy("uw_meta_log"), Sigma(2.0, 0.0)
    ratios = []
    for _ in range(500):
        sigma = policy.descend(sigma, policy.gradient(sigma, 7.0, 0.8, 0.0), 0.0)
        ratios.append(sigma.ratio)
    tail = ratios[100:]
    assert all(x > y for x, y in pairwise(tail))
    assert tail[-1] > 0


@pytest.mark.parametrize(
    ("bits", "expected"),
    [(1.9079, 5.7859), (1.7997, 5.4634), (0.6091, 1.9152), (1.1689, 3.5837), (1.7245, 5.2395)],
)
def test_invariant_13_entropy_table(bits: float, expected: float) -> None:
    low, high = 0.0, 1.0  # mix one class with ten alike until the entropy is right
    for _ in range(80):
        share = (low + high) / 2
        q = torch.full((10,), share / 10, dtype=torch.float64)
        q[0] += 1 - share
        found = -float((q * q.log2()).sum())
        low, high = (share, high) if found < bits else (low, share)
    assert Policy().by_entropy(q * 1e6) == pytest.approx(expected, abs=5e-4)


def test_invariant_13_entropy_ends() -> None:
    policy = Policy(entropy_min=0.1, entropy_max=10)
    assert policy.by_entropy(torch.tensor([0, 9, 0])) == pytest.approx(0.1)
    assert policy.by_entropy(torch.tensor([4, 4, 4])) == pytest.approx(10)


def test_edge_a_client_without_examples_gets_the_middle() -> None:
    assert Policy().by_entropy(torch.zeros(5)) == pytest.approx(5.05)
    assert Policy().by_entropy(torch.tensor([7])) == pytest.approx(5.05)


@pytest.mark.parametrize("kind", LEARNED)
def test_invariant_15_warm_start_gives_the_entropy_weight(kind: str) -> None:
    counts = torch.tensor([8, 1, 1, 0])
    policy = Policy(kind)
    assert policy.begin(counts).ratio == pytest.approx(policy.by_entropy(counts), rel=1e-6)
    assert Policy(kind, start="unbiased").begin(counts) == Sigma()


def test_given_weights() -> None:
    counts = torch.tensor([3, 3])
    for kind in ("fixed", "anneal"):
        policy = Policy(kind, weight=2.5)
        assert policy.begin(counts).ratio == pytest.approx(2.5)
    fading = Policy("anneal", weight=4)
    assert fading.weights(fading.begin(counts), 0.25) == pytest.approx((1.0, 1.0))
    assert Policy("none").weights(Policy("none").begin(counts), 1.0) == (1.0, 0.0)
    assert not Policy("fixed", weight=0).is_used
    assert not Policy("none").is_used


def test_invariant_21_coupled_weights_are_the_decoupled_ones_over_two_a() -> None:
    sigma = Sigma(1.3, -0.4)
    base, align = Policy("kendall_coupled").weights(sigma, 1.0)
    one, ratio = Policy("uw").weights(sigma, 1.0)
    a = math.exp(1.3)
    assert (base, align) == pytest.approx((one / (2 * a), ratio / (2 * a)))


def test_edge_alignment_of_zero_drifts_only_to_the_clamp() -> None:
    policy, sigma = Policy("uw", sigma_lr=1.0), Sigma()
    for _ in range(500):
        sigma = policy.descend(sigma, policy.gradient(sigma, 1.0, 0.0, 1.0), 0.0)
    assert sigma.log_align == -LOG_LIMIT
    assert math.isfinite(sigma.ratio)


def test_state_survives_as_a_tensor() -> None:
    sigma = Sigma(0.1, -0.2, 1e-9, 3.0)
    assert Sigma.of(sigma.tensor()) == sigma


def test_bad_values_are_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"entropy_min = 0.0: must be > 0"):
        Policy(entropy_min=0.0)
    with pytest.raises(ConfigError, match=r"entropy_min = 3 is above policy\.entropy_max = 2"):
        Policy(entropy_min=3, entropy_max=2)
    with pytest.raises(ConfigError, match="must be one of none, fixed, anneal"):
        Policy("magic")
    assert set(LEARNED) | {"none", "fixed", "anneal", "entropy"} == set(KINDS)
