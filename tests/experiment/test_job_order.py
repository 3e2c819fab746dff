"""Which run goes first, and how long the rest will take."""

from __future__ import annotations

from dataclasses import replace

from fedcord.experiment.job_order import JobOrder, estimated_cost
from fedcord.experiment.load import load_config


def test_the_biggest_go_first_and_measured_seconds_win() -> None:
    order = JobOrder({"big": 100.0, "middle": 10.0, "small": 1.0})
    assert max(["small", "big", "middle"], key=order.expected) == "big"
    assert not order.is_measured
    order.measured("small", 40.0)
    order.measured("small", 60.0)
    order.measured("big", 5.0)
    assert order.expected("small") == 50.0
    assert order.expected("middle") == 10.0 * (0.05 + 50.0) / 2  # its cost at the others' pace
    assert order.seconds_left(["small", "small"], [("big", 2.0)], jobs=2) == (100 + 3) / 2
    assert order.seconds_left([], [("small", 10.0), ("big", 7.0)], jobs=2) == 40.0


def test_a_cost_counts_rounds_epochs_and_weights() -> None:
    usual = load_config({"rounds": 3, "params": {"local": {"epochs": 2}}})
    assert estimated_cost(usual, 10) == 3 * 2 * 10
    assert estimated_cost(replace(usual, participation=0.5), 10) == 3 * 10
    by_round = replace(usual, participation=(1.0, 0.5))  # the last holds on
    assert estimated_cost(by_round, 10) == (1.0 + 0.5 + 0.5) * 2 * 10
    assert estimated_cost(load_config({"algorithm": "afl"}), 0) == 1
