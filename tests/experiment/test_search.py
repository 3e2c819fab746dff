import math
import sys

import pytest

from fedcord.core.space import Space
from fedcord.experiment.search import propose, search_problems
from fedcord.store.tuning_file import Trial

SPACES = {
    "local.lr": Space(0.001, 1.0, "log"),
    "local.epochs": Space(1, 5),
    "local.optimizer": Space(values=("sgd", "adam")),
}
GIVEN = Trial(0, {"local.lr": 0.05, "local.epochs": 1, "local.optimizer": "sgd"})


def test_spread_leaves_no_large_gap_in_any_space() -> None:
    values = propose("spread", SPACES, [GIVEN], 17, seed=3)
    assert len(values) == 16
    shares = sorted(math.log10(own["local.lr"]) / 3 + 1 for own in values)
    gaps = [b - a for a, b in zip([0.0, *shares], [*shares, 1.0], strict=True)]
    assert max(gaps) <= 3 / 16  # independent draws leave 1/5 on average
    assert {own["local.epochs"] for own in values} == {1, 2, 3, 4, 5}
    assert [own["local.optimizer"] for own in values].count("sgd") in range(6, 11)


def test_spread_is_decided_by_the_seed() -> None:
    first, again, other = (propose("spread", SPACES, [GIVEN], 6, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_who_has_more_parameters_searches_the_common_ones_as_well_as_its_rivals() -> None:
    common = {"local.lr"}
    alone = propose("spread", {"local.lr": SPACES["local.lr"]}, [GIVEN], 9, 0, common=common)
    more = propose("spread", SPACES, [GIVEN], 9, 0, common=common)
    names = ("local.epochs", "local.optimizer")
    as_given = [all(own[name] == GIVEN.values[name] for name in names) for own in more]
    assert as_given.count(True) == 4
    rates = [own["local.lr"] for own in more]
    assert rates == [own["local.lr"] for own in alone]
    in_order = [flag for _, flag in sorted(zip(rates, as_given, strict=True))]
    halves = in_order[:4], in_order[4:]
    assert all(any(half) and not all(half) for half in halves)  # small rates and large ones


def test_without_optuna_its_search_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    (problem,) = search_problems("tpe")
    assert 'pip install "fedcord[tune]"' in problem
    assert search_problems("spread") == []


def test_tpe_learns_from_what_was_tried() -> None:
    pytest.importorskip("optuna")
    tried = [GIVEN]
    while len(tried) < 24:
        for values in propose("tpe", SPACES, tried, 24, seed=5):
            assert all(SPACES[name].holds(value) for name, value in values.items())
            score = -abs(math.log(values["local.lr"] / 0.3))
            tried.append(Trial(len(tried), values, (score,)))
    late = [trial.scores[0] for trial in tried[-8:]]
    early = [trial.scores[0] for trial in tried[1:9]]
    assert sum(late) > sum(early)


def test_tpe_is_decided_by_the_seed_and_goes_the_right_way() -> None:
    pytest.importorskip("optuna")
    tried = [
        Trial(i, {"local.lr": lr}, (lr,)) for i, lr in enumerate((0.001, 0.003, 0.1, 0.3, 0.9, 1.0))
    ]
    tried.append(Trial(6, {"local.lr": 0.5}, failure="it diverged"))
    space = {"local.lr": SPACES["local.lr"]}
    upwards, again, downwards = (
        [own["local.lr"] for own in propose("tpe", space, tried, 11, 0, sign)]
        for sign in (1, 1, -1)
    )
    assert upwards == again
    assert len(upwards) == 4
    assert sum(map(math.log, upwards)) > sum(map(math.log, downwards))
