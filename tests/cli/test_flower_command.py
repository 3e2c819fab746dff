"""`fedcord flower`: what it writes, and what it refuses before any process is started."""

from __future__ import annotations

import importlib.util
import json
import shlex
import tomllib
from pathlib import Path

import pytest

from fedcord.flower.network import LocalNetwork
from tests.cli.command import fedcord


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process would have been started")

    monkeypatch.setattr(LocalNetwork, "keep", refuse)


def _without(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else find(name)
    )


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["run", "fedavg"], "flwr", "flower"),
        (["app", "fedavg", "app"], "flwr", "flower"),
        (["simulate", "fedavg"], "ray", "flower-simulation"),
        (["keys", "keys", "--sites", "A"], "cryptography", "flower"),
    ],
)
def test_without_the_extra_a_command_says_what_to_install(
    words: list[str], package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(package, monkeypatch)
    done = fedcord("flower", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"needs the package '{package}'" in done.stderr
    assert f"pip install 'fedcord[{extra}]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "fedavgg"], "unknown algorithm 'fedavgg'; did you mean 'fedavg'"),
        (["run", "fedavg", "--nodes", "0"], "--nodes '0': must be a whole number from 1"),
        (["run", "fedavg", "--nodes", "3", "--clients", "4"], "leave one of --nodes and --clients"),
        (["run", "fedavg", "--nodse", "3"], "did you mean '--nodes'"),
        (["run", "fedavg", "--quorum", "2"], "quorum = 2"),
        (["run", "fedavg", "--keys", "none"], "has no coordinator/ca.crt"),
        (["run", "fedavg", "--model", "resnet99"], "resnet99"),
        (["run", "none.toml"], "'none.toml' does not exist"),
        (["run", "fedavg", "--metric", "acuracy"], "unknown metric 'acuracy'; did you mean"),
        (["app", "fedavg", "app", "--metric", "acuracy"], "unknown metric 'acuracy'"),
        (["keys", "k", "--sites", "a/b"], "site 'a/b'"),
    ],
)
def test_mistakes_are_told_before_anything_is_started_or_written(
    words: list[str], message: str, tmp_path: Path
) -> None:
    done = fedcord("flower", *words, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_app_is_written_once_with_its_settings(tmp_path: Path) -> None:
    words = ["flower", "app", "fedprox", "app", "--clients", "3", "--quorum", "0.6"]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "flwr run app SUPERLINK" in done.stdout
    app = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert json.loads(app["config"]["settings"])["clients"] == 3
    assert app["config"]["quorum"] == 0.6
    again = fedcord(*words, cwd=tmp_path)
    assert (again.returncode, "choose a new folder" in again.stderr) == (2, True)


def test_an_app_has_the_metric_of_its_study_or_of_the_flag(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('algorithms = ["afl"]\nmetric = "macro_f1"\n')
    for folder, words, metric in [
        ("a", ["one.toml"], "macro_f1"),
        ("b", ["one.toml", "--metric", "auroc"], "auroc"),
        ("c", ["afl", "--metric", "auroc"], "auroc"),
        ("d", ["afl"], "accuracy"),
    ]:
        done = fedcord("flower", "app", words[0], folder, *words[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        project = tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())
        assert project["tool"]["flwr"]["app"]["config"]["metric"] == metric


def test_an_app_is_one_run_of_a_study(tmp_path: Path) -> None:
    study = tmp_path / "one.toml"
    study.write_text('algorithms = ["afl"]\n[settings]\nclients = 3\n')
    assert fedcord("flower", "app", "one.toml", "app", cwd=tmp_path).returncode == 0
    study.write_text('algorithms = ["afl", "fedavg"]\nseeds = 2\n')
    done = fedcord("flower", "app", "one.toml", "other", cwd=tmp_path)
    assert (done.returncode, "has 4 runs, but an app is one run" in done.stderr) == (2, True)


def test_keys_come_with_the_commands_that_use_them(tmp_path: Path) -> None:
    done = fedcord("flower", "keys", "k", "--sites", "A", "St. John", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  fl")]
    assert [command[0] for command in commands].count("flower-supernode") == 2
    named = {word for command in commands for word in command if word.startswith("k/")}
    assert named
    assert all((tmp_path / name).is_file() for name in named)
