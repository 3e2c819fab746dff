"""Study files of any content end in a study or in one message, never in another exception."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import load_study, named_in
from tests.faults.budget import examples

WHOLE: dict[str, Any] = {
    "name": "mine",
    "algorithms": ["fedavg", "afl"],
    "seeds": 2,
    "settings": {"clients": 5, "partition": "iid", "model": ["mlp:8"], "longtail": 2, "test": 0.1},
    "params": {},
    "variants": {
        "strong": {
            "algorithm": "fedprox",
            "rounds": 3,
            "model": "auto",
            "params": {"proximal_weight": 1.0, "local": {"lr": 0.1, "epochs": 2}},
        }
    },
}
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
number = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 10**30, 10**400]),
    st.floats(allow_nan=True),
)
name = st.sampled_from(
    ["fedavg", "iid", "none", "../x", "..", "", "a/b", "os:path", "a:b", "plots"]
)
plain = st.recursive(
    st.one_of(number, st.booleans(), text, name),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=2)),
    max_leaves=4,
)


@st.composite
def study(draw: st.DrawFn) -> dict[str, Any]:
    """A study that would be right but for a few of its values or names."""
    values: dict[str, Any] = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 2))):
        part: Any = values
        key = draw(st.sampled_from(sorted(part)))
        while isinstance(part[key], dict) and part[key] and draw(st.integers(0, 3)):
            part = part[key]
            key = draw(st.sampled_from(sorted(part)))
        if draw(st.integers(0, 3)):
            part[key] = draw(plain)
        else:
            part[draw(st.one_of(name, text, st.sampled_from(["algorithm", "params"])))] = part[key]
    return values


def loads_or_refuses(content: bytes, folder: Path) -> None:
    path = folder / "study.toml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        named_in(path)
        found = load_study(path, {}, ())
        assert found.seeds
        assert found.contenders
        for label in (found.name, *found.contenders):
            assert (folder / label).resolve().parent == folder.resolve()


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=study())
def test_any_values_are_loaded_or_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    loads_or_refuses(tomli_w.dumps(values).encode(), tmp_path)


TEXT = tomli_w.dumps(WHOLE).encode()


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers(0, len(TEXT)), length=st.integers(0, 5), put=st.binary(max_size=4))
def test_any_damage_is_loaded_or_refused(
    tmp_path: Path, place: int, length: int, put: bytes
) -> None:
    loads_or_refuses(TEXT[:place] + put + TEXT[place + length :], tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 5000, b"seeds = " + b"9" * 5000, b"seeds = 0x" + b"F" * 5000, b"\xff", b"\0"],
    ids=["nesting", "digits", "hexadecimal", "bytes", "null"],
)
def test_extremes_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"study\.toml|seeds"):
        load_study(tmp_path / "study.toml", {}, ())
