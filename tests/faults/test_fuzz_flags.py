"""Whatever is typed ends in a result or in a message with exit code 2, before any file is made."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from fedcord.store.run_folder import RunFolder
from tests.faults.budget import examples

NUMBERS = [
    "0", "1", "-1", "2", "0.5", "1e30", "1e308", "1e309", "-0.0", "nan", "inf", "true", "0x10",
    str(2**31), str(2**63 - 1), str(2**63), str(10**400), "9" * 5000, "0x" + "F" * 5000,
    "1\n2", "1 # 2", "1,", "[1]", "[" * 3000, "{a=1}", "2026-01-01", '"1"', "", " ", "none", "١",
]  # fmt: skip
WORDS = [
    "", ".", "..", "/", "a/b", "x" * 300, "ä", "日本", "\udc80", "\x07", "a\nb", "=", ":", "a:b",
    "?", "x=1", "-", "--", "%s", "{}", "'", '"', "\\",
]  # fmt: skip
KEYS = ["local.lr", "local.epochs", "local.batch_size", "local", "lr", "proximal_weight", "", "a.b"]
SPECS = {
    "--dataset": [
        "digits",
        "synthetic?samples={n}",
        "synthetic?dim={n}",
        "digits?x={n}",
        "npz:{n}",
    ],
    "--partition": ["iid", "dirichlet:{n}", "classes:{n}", "shards:{n}", "iid,longtail={n}", "{n}"],
    "--model": ["auto", "mlp:{n}", "cnn:{n}", "cnn,width={n}", "mlp:2-{n}", "frozen:{n}", "{n}"],
    "--set": [f"{key}={{n}}" for key in KEYS] + ["fedavg:local.lr={n}", "{n}"],
}
PLAIN = [
    "--clients", "--subset", "--longtail", "--seed", "--rounds", "--participation", "--validation",
    "--test", "--evaluate-every", "--threads", "--engine", "--workers", "--out", "--reuse",
    "--data-dir", "--test-views",
]  # fmt: skip
ALGORITHMS = ["fedavg", "fedprox", "afl", "flare"]
ODD_ALGORITHMS = ["fedavgg", "os:path", "..a:b", "fedcord:run", ":", "this:that"]

COUNTED = ["clients", "rounds", "seed", "threads", "subset", "local.epochs", "local.batch_size"]
"""Settings that are whole numbers."""

beyond_counters = st.one_of(
    st.integers(min_value=2**63, max_value=10**400).map(str),
    st.integers(min_value=2**63, max_value=2**9000).map(hex),
    st.integers(min_value=400, max_value=6000).map(lambda digits: "9" * digits),
    st.integers(min_value=1, max_value=4000).map(lambda depth: "[" * depth),
    st.sampled_from(["1e30", "1e309", "inf", "nan", "1\n2"]),
)
"""What nothing can count to, or is no number at all."""

odd = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(WORDS),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=8).filter(lambda text: "\0" not in text),  # no process can be given one
)
algorithm = st.one_of(
    st.sampled_from(ALGORITHMS), st.sampled_from(ALGORITHMS), st.sampled_from(ODD_ALGORITHMS)
)


@st.composite
def flag(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from([*PLAIN, *SPECS, *SPECS]))
    text = draw(odd)
    if name in SPECS:
        text = draw(st.sampled_from(SPECS[name])).replace("{n}", text)
    return [f"{name}={text}"] if draw(st.booleans()) else [name, text]


@st.composite
def command_line(draw: st.DrawFn) -> list[str]:
    """A command that would be right but for a few of its words."""
    command = draw(st.sampled_from(["run", "run", "compare", "inspect", "check-invariance"]))
    words = [command] if command == "inspect" else [command, draw(algorithm)]
    if command == "compare" and draw(st.booleans()):
        words += [draw(algorithm), f"--seeds={draw(odd)}"]
    for part in draw(st.lists(flag(), min_size=1, max_size=2)):
        words += part
    return words


@pytest.fixture
def nothing_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands go as far as the first file of a run folder and no further."""

    def stop(*_: object) -> None:
        raise ConfigError("far enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RunFolder, "create", stop)
    monkeypatch.setattr("fedcord.experiment.invariance.check_invariance", stop)
    return tmp_path


def code_of(words: list[str]) -> tuple[int, str]:
    """Exit code and message; anything but an orderly end fails the test by itself."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return code, err.getvalue()


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=command_line())
def test_any_flags_end_in_a_result_or_a_message(nothing_is_trained: Path, words: list[str]) -> None:
    code, message = code_of(words)
    assert code in (0, 2), (words, message)
    if code == 2:
        assert message.startswith("error: "), (words, message)
        assert len(message) < 20_000, words


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(name=st.sampled_from(COUNTED), value=beyond_counters)
def test_what_no_counter_holds_is_refused_by_name(
    nothing_is_trained: Path, name: str, value: str
) -> None:
    words = ["--set", f"{name}={value}"] if "." in name else [f"--{name}={value}"]
    code, message = code_of(["run", "fedavg", *words])
    assert code == 2, (words, message)
    assert "far enough" not in message, words
    assert name in message
    assert len(message) < 2000, words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--out=--"], "'--out=--': '--' is no value."),
        (["--out", "x" * 300], "--out: is longer than names of files can be"),
        (["--reuse", "/".join(["x" * 200] * 30)], "--reuse: is longer than names of files can be"),
        (["--data-dir", "ä" * 200], "--data-dir: is longer than names of files can be"),
        (["--model", "mlp:183196016"], "hidden = (183196016,): must be >= 1 and <= 65536."),
        (["--model", "mlp:65536-65536-65536"], "weights, 34.4 GB; at most 0.001 GB, a quarter"),
        (["--model", "cnn,width=65536"], "model 'cnn': the network would have 77,377,308,042 we"),
    ],
)
def test_what_once_ended_otherwise(
    words: list[str],
    expected: str,
    nothing_is_trained: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedcord.models.initial.data_limit", lambda: 1_000_000)
    code, message = code_of(["run", "fedavg", *words])
    assert (code, message.count("\n")) == (2, 1), message
    assert expected in message
    assert list(nothing_is_trained.iterdir()) == []
