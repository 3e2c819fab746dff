"""Study files and comparisons: what is written wrong is told, all of it at once."""

import os
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import Study, load_study, make_study


def study_of(text: str, folder: Path, overrides: dict[str, Any] | None = None) -> Study:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_study(path, overrides or {}, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("params = 3", r"params = 3: must be a table, \[params\]"),
        ("name = 3", "name = 3: must be text"),
        ("seeds = 'x'", "seeds = 'x': must be a whole number"),
        ("seeds = true", "seeds = True: must be a whole number"),
        ("seeds = 1000000000", "seeds = 1000000000: must be at least 1 and at most 10000"),
        ("settings = []", r"settings = \[\]: must be a table"),
        ("variants = 1", r"variants = 1: must be tables, \[variants.LABEL\]"),
        ("variants.x = 1", "variant 'x' = 1: must be a table"),
        ("variants.x.rounds = 1", "variant 'x' needs the name of an algorithm"),
        ("variants.x.algorithm = 1", "variant 'x' needs the name of an algorithm"),
        ("variants.x = {algorithm = 'fedavg', params = 3}", "variant 'x': params = 3: must be a"),
        ("variants.x = {algorithm = 'fedavg', model = []}", r"model = \[\]: name at least one"),
        ("variants.fedavg.algorithm = 'fedprox'", "'fedavg' has the name of another contender"),
        ("variants.FedAvg.algorithm = 'fedprox'", "'FedAvg' has the name of another contender"),
        ("[settings]\nmodel = []", r"model = \[\]: name at least one network"),
        (
            "[settings]\nalgorithm = 'fedprox'",
            r"\[settings\] has algorithm, which stands elsewhere",
        ),
        ("[settings.params]\nlocal.lr = 1", r"\[settings\] has params, .* \[params\]"),
        ("[settings]\nlr = 0.1", r"'lr' is not a setting but local.lr of fedavg; write --set loc"),
        ("[settings]\nroundz = 1", "unknown setting 'roundz'; did you mean 'rounds'"),
        ("name = '../../x'", "name of the study '../../x': must be without any of /"),
        ("name = '/tmp/x'", "must be without any of /"),
        ("name = ''", "must not be empty"),
        ("[variants.'../x']\nalgorithm = 'fedprox'", "contender '../x': must be without any of /"),
        ("[variants.'..']\nalgorithm = 'fedprox'", "must not begin or end with a dot"),
        ("[variants.plots]\nalgorithm = 'fedprox'", "'plots' has the name of a file of the report"),
        ('[variants."a\\nb"]\nalgorithm = "fedprox"', "control characters"),
        ("odd = 1", "unknown entries: odd"),
    ],
)
def test_mistakes_are_told_in_words(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        study_of(f"algorithms = ['fedavg']\n{text}\n", tmp_path)


def test_all_mistakes_of_a_file_come_together(tmp_path: Path) -> None:
    text = """
algorithms = ["fedavgg", 3]
name = "a/b"
seeds = 0
params = 3
[settings]
clients = "many"
algorithm = "fedavg"
[variants.x]
algorithm = "fedprox"
rounds = 0
"""
    with pytest.raises(ConfigError, match="a/b") as caught:
        study_of(text, tmp_path)
    told = "\n".join(caught.value.problems)
    for words in ("fedavgg", "list of names", "'a/b'", "seeds = 0", "params = 3", "clients = 'm"):
        assert words in told
    assert "[settings] has algorithm" in told
    assert "rounds = 0" in told
    assert len(set(caught.value.problems)) == len(caught.value.problems) == 8


def test_parameters_of_all_and_of_one_merge_part_by_part(tmp_path: Path) -> None:
    study = study_of(
        """
[params]
local = { lr = 0.3, epochs = 2 }
[variants.slow]
algorithm = "fedavg"
params = { local = { lr = 0.1 } }
[variants.usual]
algorithm = "fedavg"
""",
        tmp_path,
    )
    local = {label: config.params["local"] for label, config in study.contenders.items()}
    assert (local["slow"]["lr"], local["slow"]["epochs"]) == (0.1, 2)
    assert (local["usual"]["lr"], local["usual"]["epochs"]) == (0.3, 2)


def test_one_network_may_be_written_without_brackets(tmp_path: Path) -> None:
    study = study_of("algorithms = ['fedavg']\nsettings.model = 'mlp:8'\n", tmp_path)
    assert study.contenders["fedavg"].model == ("mlp:8",)


def test_classes_of_one_name_are_contenders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first_own", "second_own"):
        (tmp_path / f"{name}.py").write_text(
            "from dataclasses import dataclass\nfrom fedcord import FedAvg\n"
            "@dataclass(frozen=True)\nclass Foo(FedAvg):\n    pass\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    both = make_study(["first_own:Foo", "second_own:Foo"], {}, 1, ["first_own.Foo:local.lr=0.3"])
    assert {label: c.algorithm for label, c in both.contenders.items()} == {
        "first_own.Foo": "first_own:Foo",
        "second_own.Foo": "second_own:Foo",
    }
    rates = [config.params["local"]["lr"] for config in both.contenders.values()]
    assert rates == [0.3, 0.05]
    assert list(make_study(["first_own:Foo", "fedavg"], {}, 1).contenders) == ["Foo", "fedavg"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    endless = tmp_path / "endless.toml"
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless, tmp_path):
        with pytest.raises(ConfigError, match=r"not a file\); name a study file"):
            load_study(path, {}, ())
    long = tmp_path / "long.toml"
    with long.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(ConfigError, match="too long for a study file"):
        load_study(long, {}, ())
    with pytest.raises(ConfigError, match="does not exist"):
        load_study(tmp_path / "none.toml", {}, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("seeds = " + "9" * 5000, "is not valid TOML"),
        ("seeds = 0x" + "F" * 5000, "seeds = a number of thousands of digits"),
        ("[settings]\nclients = 1" + "0" * 400, "clients = 1000.*…: must be at most"),
        ("[settings]\nlongtail = 1" + "0" * 400, "must be a finite number"),
    ],
    ids=["nesting", "digits", "hexadecimal", "whole", "real"],
)
def test_numbers_and_brackets_beyond_reason(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        study_of(f"algorithms = ['fedavg']\n{text}\n", tmp_path)
