"""Study files of any content end in a study or in one message, never in another exception."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import load_study, named_in
from fedcord.experiment.config import RunConfig
from tests.faults.budget import examples

SETTINGS = list(RunConfig.__dataclass_fields__)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
number = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 10**30, 10**400]),
    st.floats(allow_nan=True),
)
plain = st.recursive(
    st.one_of(number, st.booleans(), text, st.sampled_from(["fedavg", "iid", "auto", "none"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=2)),
    max_leaves=6,
)
name = st.one_of(st.sampled_from(["fedavg", "fedprox", "afl", "../x", "os:path", "a:b"]), plain)
parts = st.dictionaries(
    st.sampled_from(["lr", "epochs", "batch_size", "optimizer", "odd"]), plain, max_size=2
)
params = st.one_of(
    plain,
    st.dictionaries(
        st.sampled_from(["local", "proximal_weight", "odd"]), st.one_of(plain, parts), max_size=2
    ),
)
common = st.dictionaries(st.sampled_from([*SETTINGS, "seeds", "odd"]), plain, max_size=3)
form = st.fixed_dictionaries(
    {},
    optional={"algorithm": name, "params": params, "rounds": plain, "model": plain, "odd": plain},
)
study = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(text, plain),
        "algorithms": st.one_of(st.lists(name, max_size=3), plain),
        "seeds": plain,
        "settings": st.one_of(common, plain),
        "params": params,
        "variants": st.one_of(st.dictionaries(text, st.one_of(form, plain), max_size=2), plain),
        "odd": plain,
    },
)


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
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=study)
def test_any_values_are_loaded_or_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    loads_or_refuses(tomli_w.dumps(values).encode(), tmp_path)


WHOLE = b"""name = "mine"
algorithms = ["fedavg"]
seeds = 2
[settings]
rounds = 3
partition = "dirichlet:0.1"
[params]
local = { lr = 0.1 }
[variants.strong]
algorithm = "fedprox"
params = { proximal_weight = 1.0 }
"""


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers(0, len(WHOLE)), length=st.integers(0, 5), put=st.binary(max_size=4))
def test_any_damage_is_loaded_or_refused(
    tmp_path: Path, place: int, length: int, put: bytes
) -> None:
    loads_or_refuses(WHOLE[:place] + put + WHOLE[place + length :], tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 5000, b"seeds = " + b"9" * 5000, b"seeds = 0x" + b"F" * 5000, b"\xff", b"\0"],
    ids=["nesting", "digits", "hexadecimal", "bytes", "null"],
)
def test_extremes_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"study\.toml|seeds"):
        load_study(tmp_path / "study.toml", {}, ())
