"""Batches by the clock: the rule, its limits, and that models do not care."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from fedcord.algorithms.analytic.adaptive_batch import (
    DEADLINE,
    PER_BATCH,
    PER_SAMPLE,
    SECONDS,
    Batches,
    Pace,
    TimedBatches,
    deadline_of,
)
from fedcord.algorithms.analytic.fedacnnl import FedACnnL
from fedcord.algorithms.analytic.layerwise import Layers, collected, layer_stats
from fedcord.algorithms.analytic.pfedacnnl import PFedACnnL
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.core.tensors import Tensors
from tests.algorithms.analytic.samples import client, dealt, env, gap, samples, trained, updates

DATA = samples(90, images=True)
LAYERS = Layers(channels=(4, 6), kernel=3)
HERE = env(images=True)
ADAPTIVE = FedACnnL(LAYERS, batches=Batches(rule="adaptive"))


class Clock:
    """A clock that the one who works moves on by hand."""

    now = 5.0

    def __call__(self) -> float:
        return self.now


def worked(batches: TimedBatches, clock: Clock, per_batch: float, per_sample: float) -> list[int]:
    sizes = []
    for part in batches:
        sizes.append(part.stop - part.start)
        clock.now += per_batch + per_sample * sizes[-1]
    return sizes


def test_slow_clients_get_the_smallest_batch_that_meets_the_median() -> None:
    quick = Pace(1000, per_batch=0.01, per_sample=0.0001, most_samples=64)
    slow = Pace(1000, per_batch=0.01, per_sample=0.001, most_samples=512)
    small = Pace(100, per_batch=0.01, per_sample=0.0001, most_samples=512)

    def seconds(p: Pace, b: int) -> float:
        return math.ceil(p.samples / b) * (p.per_batch + p.per_sample * b)

    best = [
        min(seconds(p, 2**k) for k in range(p.most_samples.bit_length())) for p in (quick, slow)
    ]
    best.append(min(seconds(small, 2**k) for k in range(10)))
    deadline = float(deadline_of(best)[DEADLINE])
    assert deadline == sorted(best)[1]
    assert slow.batch_for(deadline) == 512  # too slow at any size: the largest that fits
    for pace in (quick, small):
        batch = pace.batch_for(deadline)
        assert seconds(pace, batch) <= deadline
        assert all(seconds(pace, 2**k) > deadline for k in range(batch.bit_length() - 1))
    assert quick.batch_for(math.inf) == 1
    assert quick.batch_for(0.0) == 64


def test_pace_follows_from_two_timings() -> None:
    pace = Pace.timed(100, [(32, 0.42), (8, 0.18)], most_samples=64)
    assert (pace.per_sample, pace.per_batch) == pytest.approx((0.01, 0.1))
    with pytest.raises(ConfigError, match="two batches of 8 samples tell no pace"):
        Pace.timed(100, [(8, 0.1), (8, 0.2)], 64)


@pytest.mark.parametrize(
    ("samples_", "batch", "sizes"),
    [(20, 8, [8, 4, 8]), (7, 64, [4, 2, 1]), (3, 2, [2, 1]), (2, 8, [2]), (5, 1, [1] * 5)],
)
def test_the_first_two_batches_tell_the_pace(samples_: int, batch: int, sizes: list[int]) -> None:
    clock = Clock()
    batches = TimedBatches(samples_, batch, clock)
    assert worked(batches, clock, per_batch=0.5, per_sample=0.25) == sizes
    pace = batches.pace(most_samples=16)
    if sizes[0] in (1, 2) and samples_ != 3:
        assert pace is None  # too few samples, or room for one alone: no two sizes
    else:
        assert pace is not None
        assert (pace.per_batch, pace.per_sample) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize("batch", [1, 2, 7, 64, 90])
def test_t6_every_sample_is_summed_once_in_batches_of_any_size(batch: int) -> None:
    whole = layer_stats(LAYERS, [], DATA, HERE.task, 1, [slice(0, 90)])
    found = layer_stats(LAYERS, [], DATA, HERE.task, 1, TimedBatches(90, batch))
    assert gap(found.gram, whole.gram) < 1e-12
    assert gap(found.moment, whole.moment) < 1e-12
    assert torch.equal(found.class_count, whole.class_count)


def test_memory_limits_a_batch() -> None:
    megabyte = Batches(memory=1.0)
    assert megabyte.most(8 * LAYERS.sample_numbers(0, HERE.task)) == 1_000_000 // (8 * 64 * 10)
    assert megabyte.most(10**9) == 1
    timed = {
        PER_BATCH: torch.tensor(1.0),
        PER_SAMPLE: torch.tensor(0.0),
    }
    adaptive = Batches(rule="adaptive")
    hopeless = {DEADLINE: torch.tensor(0.0)}
    assert adaptive.size(100, 24, hopeless, timed) == 16
    assert adaptive.size(100, 24, {}, timed) == 16  # nobody was heard yet
    assert adaptive.size(100, 24, {DEADLINE: torch.tensor(26.0)}, timed) == 4
    assert megabyte.size(100, 24, hopeless, timed) == 24
    with pytest.raises(ConfigError, match=r"batches\.memory = 0.*must be > 0"):
        build(FedACnnL, {"batches": {"memory": 0}})


def test_clients_follow_the_deadline_of_the_layer_before(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    through = TimedBatches.__iter__

    def noted(self: TimedBatches) -> Iterator[slice]:
        for part in through(self):
            taken.append(part.stop - part.start)
            yield part

    monkeypatch.setattr(TimedBatches, "__iter__", noted)
    memory = {PER_BATCH: torch.tensor(1.0), PER_SAMPLE: torch.tensor(0.1)}
    state = trained(replace(ADAPTIVE, batches=Batches()), [client(DATA)], HERE)
    first = {"layer0.weight": state.shared["layer0.weight"], DEADLINE: torch.tensor(90.0)}
    taken.clear()
    ADAPTIVE.client_update(first, memory, client(DATA), env(1, 3, images=True).at(0))
    # 90 samples: 23 batches of 4 take 32 s, 45 of 2 take 54 s, 90 of 1 take 99 s
    assert taken[0] == 2
    assert max(taken) == 2


@pytest.mark.parametrize("kind", [FedACnnL, PFedACnnL])
def test_the_clock_changes_no_model(kind: type[FedACnnL] | type[PFedACnnL]) -> None:
    # some clients are too small to be timed
    clients = dealt(DATA, torch.arange(90).split([40, 1, 30, 2, 17, 0]))
    by_memory = trained(kind(LAYERS), clients, HERE)
    by_clock = with_memories(kind(LAYERS, batches=Batches(rule="adaptive")), clients)
    for found, wanted in zip(collected(by_clock.shared), collected(by_memory.shared), strict=True):
        assert gap(found, wanted) < 1e-10
    assert float(by_clock.shared[DEADLINE]) > 0
    assert DEADLINE not in by_memory.shared


def with_memories(method: FedACnnL | PFedACnnL, clients: list) -> ServerState:  # type: ignore[type-arg]
    """All rounds, clients keeping what they know of their pace."""
    state = method.init(HERE)
    memories: list[Tensors] = [{} for _ in clients]
    for round_ in range(method.layers.depth):
        here = env(round_, method.layers.depth, images=True)
        results = [
            method.client_update(state.shared, memories[k], data, here.at(k))
            for k, data in enumerate(clients)
        ]
        memories = [result.memory for result in results]
        heard = [(k, result.update) for k, result in enumerate(results)]
        state = method.aggregate(state, iter(heard), here)
    return state


def test_what_is_sent_is_what_was_agreed_and_clients_that_cannot_be_timed_do_not_count() -> None:
    clients = dealt(DATA, torch.arange(90).split([60, 2, 28]))
    state = ADAPTIVE.init(HERE)
    expected = ADAPTIVE.expected_update(state.shared, HERE)
    sent = updates(ADAPTIVE, state, clients, HERE)
    assert all(set(update.tensors) == set(expected) for _, update in sent)
    seconds = [float(update.tensors[SECONDS]) for _, update in sent]
    assert seconds[1] == 0
    after = ADAPTIVE.aggregate(state, iter(sent), HERE)
    assert float(after.shared[DEADLINE]) == pytest.approx((seconds[0] + seconds[2]) / 2)
    assert deadline_of([]) == {}


def test_that_runs_agree_up_to_rounding_only_is_said_before() -> None:
    for method in (ADAPTIVE, PFedACnnL(LAYERS, batches=Batches(rule="adaptive"))):
        (note,) = method.review(HERE.task).notes
        assert "not in every bit" in note
    assert FedACnnL(LAYERS).review(HERE.task).notes == ()
    assert FedACnnL(LAYERS).traits.additive
    assert not ADAPTIVE.traits.additive
