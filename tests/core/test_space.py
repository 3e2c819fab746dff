import dataclasses
from dataclasses import dataclass

import pytest

from fedcord.core.errors import ConfigError
from fedcord.core.params import declared_spaces, describe, param, value_of
from fedcord.core.space import Space, parse_space


@dataclass(frozen=True)
class Part:
    lr: float = param(0.1, "learning rate", space=(0.01, 1.0, "log"))
    steps: int = param(3, "steps")


@dataclass(frozen=True)
class Method:
    weight: float = param(0.5, "a weight", space=(0.0, 1.0))
    local: Part = param(Part(), "how clients train")
    server: Part = param(Part(lr=5.0), "how the server trains", tuned=False)


def test_a_method_declares_where_to_look_beside_its_parameters() -> None:
    assert declared_spaces(Method()) == {
        "weight": Space(0.0, 1.0),
        "local.lr": Space(0.01, 1.0, "log"),
    }
    said = {name: doc for name, _, _, doc in describe(Method)}
    assert said["local.lr"] == "learning rate; tuned over 0.01:1:log"
    assert said["local.steps"] == "steps"
    assert said["server.lr"] == "learning rate"
    assert value_of(Method(), "server.lr") == 5.0


def test_a_log_space_gives_every_order_of_magnitude_the_same_room() -> None:
    space = Space(0.001, 1.0, "log")
    assert [space.at(share) for share in (0, 1 / 3, 2 / 3)] == [0.001, 0.01, 0.1]
    assert space.at(0.9999999) == 1.0
    assert Space(0.0, 2.0).at(0.25) == 0.5


def test_whole_numbers_stay_whole_and_are_equally_likely() -> None:
    values = [Space(1, 5).at((i + 0.5) / 1000) for i in range(1000)]
    assert all(isinstance(value, int) for value in values)
    assert {value: values.count(value) for value in range(1, 6)} == dict.fromkeys(range(1, 6), 200)


def test_ends_written_as_whole_numbers_do_not_make_a_weight_whole() -> None:
    _, space = parse_space("weight=0:1")
    assert space.like(0.5).at(0.25) == 0.25
    assert space.like(3).at(0.25) == 0


def test_a_list_of_values_is_a_space() -> None:
    _, space = parse_space("local.optimizer=sgd, adam")
    assert [space.at(share) for share in (0, 0.49, 0.5, 0.99)] == ["sgd", "sgd", "adam", "adam"]
    assert space.holds("adam")
    assert not space.holds("lion")


@pytest.mark.parametrize(
    "text", ["local.lr=0.01:0.3:log", "local.epochs=1:5", "local.optimizer=sgd,adam", "weight=0:1"]
)
def test_a_space_is_written_as_it_is_read(text: str) -> None:
    key, space = parse_space(text)
    assert f"{key}={space}" == text
    assert all(map(space.holds, space.ends()))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("local.lr", "expected local.lr=0.01:0.3:log"),
        ("local.lr=", "expected local.lr=0.01:0.3:log"),
        ("local.lr=a:b", "expected local.lr=0.01:0.3:log"),
        ("local.lr=0.1:0.2:log:5", "expected local.lr=0.01:0.3:log"),
        ("local.lr=true:0.2", "expected local.lr=0.01:0.3:log"),
        ("local.lr=0.3:0.01", "the lower first"),
        ("local.lr=0.1:inf", "two numbers"),
        ("local.lr=0:0.3:log", "must begin above 0"),
        ("local.lr=0.1:0.3:cubic", "must be log or linear"),
    ],
)
def test_a_space_that_cannot_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_space(text)


def test_spaces_are_values() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="low"):
        Space(0.0, 1.0).low = 2.0  # type: ignore[misc]
