"""The table of presets: complete, valid, one part at a time, and every one runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.params import build, plain
from tests.algorithms.oneshot.small_runs import QUICK, method, run

NAMES = [
    "fafi",
    "drcl",
    "v6",
    "v7",
    "v8",
    "v9a",
    "v9b",
    "v9b-feedback",
    "v9ab",
    "plan-c",
    "v10",
    "v10-rescaled",
    "v11-linear",
    "v11-cosine",
    "v11-fixed",
    "v12",
    "v13",
    "flare",
    "flare-as-logged",
    "flare-scale-free",
    "memory-bank",
    "feature-bank",
    "two-stage",
    "flare-lpa",
    "flare-fisher",
    "flare-ties",
    "flare-dare",
]

NEIGHBOURS = [
    ("fafi", "memory-bank", {"objective"}),
    ("fafi", "feature-bank", {"objective"}),
    ("feature-bank", "two-stage", {"objective"}),
    ("fafi", "drcl", {"anchors", "policy"}),
    ("drcl", "v6", {"policy"}),
    ("v6", "v7", {"anchors"}),
    ("v7", "v8", {"anchors"}),
    ("v7", "v9a", {"policy"}),
    ("v7", "v9b", {"server"}),
    ("v9b", "v9b-feedback", {"server"}),
    ("v9a", "v9ab", {"server"}),
    ("v9b", "v9ab", {"policy"}),
    ("v7", "plan-c", {"conflict"}),
    ("v7", "v10", {"policy"}),
    ("v10", "v10-rescaled", {"policy"}),
    ("v10-rescaled", "v11-linear", {"policy"}),
    ("v11-linear", "v11-cosine", {"policy"}),
    ("v11-linear", "v11-fixed", {"policy"}),
    ("v10-rescaled", "v12", {"policy"}),
    ("v12", "v13", {"policy"}),
    ("v12", "flare", {"policy"}),
    ("v13", "flare-as-logged", {"policy", "local"}),
    ("flare", "flare-scale-free", {"alignment", "policy"}),
    ("flare", "flare-lpa", {"server"}),
    ("flare", "flare-fisher", {"server"}),
    ("flare", "flare-ties", {"server"}),
    ("flare", "flare-dare", {"server"}),
]


def parts(name: str) -> dict[str, Any]:
    return plain(build(OneShot, PRESETS[name].values))


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def test_every_name_is_there_and_registered() -> None:
    assert set(PRESETS) == set(NAMES)
    for name in NAMES:
        assert ALGORITHMS[name].preset == PRESETS[name].values
        assert ALGORITHMS[name].family == "oneshot"
        assert algorithm_class(name) is OneShot


@pytest.mark.parametrize(("left", "right", "expected"), NEIGHBOURS)
def test_neighbouring_rungs_differ_in_what_they_should(
    left: str, right: str, expected: set[str]
) -> None:
    assert differing(parts(left), parts(right)) == expected


def test_every_rung_stands_beside_another() -> None:
    assert {name for left, right, _ in NEIGHBOURS for name in (left, right)} == set(NAMES)


def test_no_two_names_mean_the_same() -> None:
    seen = [parts(name) for name in NAMES]
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize(
    ("left", "right", "within"),
    [
        ("drcl", "v6", {"kind", "weight"}),
        ("v11-linear", "v11-cosine", {"schedule"}),
        ("v12", "v13", {"align_floor"}),
        ("v12", "flare", {"kind", "lambda_max"}),
        ("v10-rescaled", "v12", {"kind"}),
        ("v11-linear", "v11-fixed", {"kind", "progress"}),
        ("v7", "v9a", {"kind"}),
    ],
)
def test_policies_differ_in_one_idea(left: str, right: str, within: set[str]) -> None:
    assert differing(parts(left)["policy"], parts(right)["policy"]) == within


def test_fafi_is_the_default_and_flare_is_the_recommended_reading() -> None:
    assert build(OneShot, {}) == build(OneShot, PRESETS["fafi"].values)
    flare = parts("flare")
    assert flare["policy"]["kind"] == "uw_meta_log"
    assert flare["policy"]["lambda_max"] == 50
    assert flare["policy"]["hinge_weight"] >= 1 / (2 * 50)
    assert flare["anchors"]["kind"] == "etf"
    assert flare["server"]["kind"] == "feature_ensemble"


def test_the_table_needs_no_torch() -> None:
    code = "import sys, fedcord.algorithms.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_runs_end_to_end(name: str) -> None:
    state, records, reached = run(method(QUICK, PRESETS[name].values, {"checkpoints": 2}))
    assert [record.refused for record in records] == [(), ()]
    last = records[-1].evaluation
    assert last is not None
    assert last.accuracy > 0.34
    assert state.result
    assert reached.gather_memory() == {client: {} for client in range(4)}
