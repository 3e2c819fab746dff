import os
from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import make_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config, parse_assignment, read_toml


def test_defaults_are_complete_and_resolved() -> None:
    config = load_config({"algorithm": "fedprox"})
    assert config.rounds == 20
    assert config.params["proximal_weight"] == 0.01
    assert config.params["local"]["lr"] == 0.05


def test_later_sources_win() -> None:
    settings = {"algorithm": "fedprox", "params": {"proximal_weight": 1.0, "local": {"lr": 0.2}}}
    config = load_config(settings, ["local.lr=0.3", "local.epochs=2"])
    assert config.params["proximal_weight"] == 1.0
    assert (config.params["local"]["lr"], config.params["local"]["epochs"]) == (0.3, 2)


def test_spelling_a_default_out_is_the_same_run() -> None:
    plain = load_config({"algorithm": "fedavg"})
    spelt = load_config({"algorithm": "fedavg", "rounds": 20}, ["local.lr=0.05"])
    assert plain.hash == spelt.hash
    assert plain.hash != load_config({"algorithm": "fedavg"}, ["local.lr=0.06"]).hash
    assert plain.hash != load_config({"algorithm": "fedavg", "seed": 1}).hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", (("a",), 1)),
        ("a.b=0.5", (("a", "b"), 0.5)),
        ("a=true", (("a",), True)),
        ("a=word", (("a",), "word")),
        ("a=[1, 2]", (("a",), [1, 2])),
        ('a="x=y"', (("a",), "x=y")),
    ],
)
def test_assignments(text: str, expected: object) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ""])
def test_assignments_without_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        parse_assignment(text)


def test_a_method_with_fixed_rounds_refuses_others_alone_and_keeps_its_own_in_company() -> None:
    with pytest.raises(ConfigError, match="afl needs exactly 1"):
        load_config({"algorithm": "afl", "rounds": 7})
    study = make_study(["fedavg", "afl"], {"rounds": 7}, num_seeds=2)
    assert {label: c.rounds for label, c in study.contenders.items()} == {"fedavg": 7, "afl": 1}
    assert [(label, c.seed) for label, c in study.runs()] == [
        ("fedavg", 0), ("afl", 0), ("fedavg", 1), ("afl", 1),
    ]  # fmt: skip


def test_a_study_is_named_after_its_content() -> None:
    names = {
        make_study(["fedavg"], {"rounds": 7}, 2).name,
        make_study(["fedavg"], {"rounds": 8}, 2).name,
        make_study(["fedavg"], {"rounds": 7}, 3).name,
    }
    assert len(names) == 3
    assert make_study(["fedavg"], {"rounds": 7}, 2).name in names


def test_differences_are_told_in_words() -> None:
    one = RunConfig(seed=1)
    assert one.differences(RunConfig(seed=1).plain()) == []
    assert one.differences(RunConfig(seed=2, rounds=3).plain()) == [
        "rounds is 3 there and None here",
        "seed is 2 there and 1 here",
    ]


def test_partitions_that_know_their_clients_need_no_number() -> None:
    assert load_config({"algorithm": "fedavg", "partition": "natural:site"}).clients == 0
    assert load_config({"algorithm": "fedavg", "partition": "nid2"}).clients == 0
    assert load_config({"algorithm": "fedavg", "partition": "iid"}).clients == 10
    assert load_config({"algorithm": "fedavg", "partition": "nid2", "clients": 7}).clients == 7


def test_an_own_class_is_compared_under_its_name() -> None:
    own = "fedcord.algorithms.averaging.fedprox:FedProx"
    study = make_study(["fedavg", own], {}, 1, ["FedProx:proximal_weight=0.5"])
    assert study.contenders["FedProx"].params["proximal_weight"] == 0.5
    assert study.contenders["FedProx"].algorithm == own


@pytest.mark.parametrize("name", ["dataset", "partition"])
def test_names_that_no_file_can_hold_are_refused(name: str) -> None:
    given = {"dataset": "npz:caf\udce9.npz", "partition": "file:caf\udce9.json"}[name]
    with pytest.raises(ConfigError, match=rf"{name} = '.*caf\\udce9.*it holds bytes that are not"):
        load_config({"algorithm": "fedavg", name: given})


def test_a_partition_that_cannot_be_used_says_nothing_of_clients() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"algorithm": "fedavg", "partition": "file:caf\udce9.json"})
    assert len(caught.value.problems) == 1


def test_settings_are_read_where_the_weights_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCORD_DATA", str(tmp_path))
    model = "frozen:efficientnet-lite0,size=96"
    assert load_config({"algorithm": "afl", "model": model}).model == (model,)
    with pytest.raises(ConfigError, match="unknown encoder 'efficientnet-lite1'; did you mean"):
        load_config({"algorithm": "afl", "model": "frozen:efficientnet-lite1"})


def test_a_study_must_be_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "study.toml")
    for place in (tmp_path / "study.toml", Path("/dev/zero")):
        with pytest.raises(ConfigError, match=r"cannot be read \(it is a pipe or device"):
            read_toml(place)
