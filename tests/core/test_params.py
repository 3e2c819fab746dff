from dataclasses import dataclass

import pytest

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.core.params import (
    build,
    check_params,
    conformed,
    declared_spaces,
    describe,
    param,
    parameters_like,
    plain,
)


@dataclass(frozen=True)
class Inner:
    lr: float = param(0.1, "rate", above=0)
    steps: int | None = param(None, "steps", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)


@dataclass(frozen=True)
class Outer:
    mode: str = param("a", "mode", choices=("a", "b"))
    flag: bool = param(False, "flag")
    names: tuple[str, ...] = param(("x",), "names")
    sizes: tuple[int, ...] = param((1,), "sizes", at_least=1)
    inner: Inner = param(Inner(), "inner")

    def __post_init__(self) -> None:
        check_params(self)


def test_build_reads_nested_plain_values_and_plain_is_its_inverse() -> None:
    made = build(Outer, {"mode": "b", "names": ["p", "q"], "inner": {"lr": 1, "steps": 3}})
    assert made == Outer("b", False, ("p", "q"), (1,), Inner(1.0, 3))
    assert build(Outer, plain(made)) == made


def test_an_object_conforms_if_it_could_have_been_built() -> None:
    good = Outer("b", inner=Inner(1.0, 3))
    assert conformed(good) is good
    almost = Outer(names=["p"], inner=Inner(1, 3))  # type: ignore[arg-type]
    assert repr(conformed(almost)) == repr(build(Outer, plain(almost)))
    with pytest.raises(ConfigError) as caught:
        conformed(Outer(flag=1, inner=Inner(lr="fast")))  # type: ignore[arg-type]
    assert caught.value.problems == (
        "flag = 1: must be of type bool, not int.",
        "inner.lr = 'fast': must be of type float, not str.",
    )


def test_a_value_of_another_type_is_told_the_words_that_are_allowed() -> None:
    with pytest.raises(ConfigError, match=r"mode = 2: must be one of a, b\."):
        build(Outer, {"mode": 2})


def test_a_part_of_another_class_does_not_conform() -> None:
    class Slower(Inner):
        pass

    with pytest.raises(ConfigError, match=r"inner is a Slower, .* from which a Inner is made"):
        conformed(Outer(inner=Slower()))


def test_all_mistakes_are_reported_together() -> None:
    wrong = {"mode": "c", "flagg": True, "inner": {"lr": -1.0, "steps": 0, "stepz": 1}}
    with pytest.raises(ConfigError) as caught:
        build(Outer, wrong)
    text = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 5
    for part in ("mode = 'c': must be one of a, b", "did you mean 'flag'", "inner.lr = -1.0"):
        assert part in text
    assert "inner.steps = 0: must be >= 1" in text
    assert "did you mean 'inner.steps'" in text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"flag": 1}, "flag = 1: must be of type bool, not int"),
        ({"inner": {"lr": "fast"}}, "must be of type float, not str"),
        ({"inner": {"lr": True}}, "not bool|not true/false"),
        ({"inner": {"lr": float("nan")}}, "finite"),
        ({"inner": {"steps": 1.5}}, "must be of type int, not float"),
        ({"names": [1]}, "must be of type str, not int"),
    ],
)
def test_wrong_types_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(Outer, values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inner": {"steps": 2**63}}, f"steps = {2**63}: must be at most {2**63 - 1}"),
        ({"inner": {"steps": int("9" * 4000)}}, "steps = 999.*…: must be at most"),
        ({"inner": {"steps": 16**5000}}, "steps = a number of thousands of digits: must be at"),
        ({"inner": {"lr": 10**400}}, "lr = 1000.*…: must be a finite number"),
        ({"mode": "a\nb"}, "must be text without line breaks"),
        ({"mode": "\udc80"}, "it holds bytes that are not UTF-8.*rename the file"),
        ({"names": ["p", "q\0"]}, "must be text without line breaks"),
        ({"sizes": [4, 0]}, r"sizes = \[4, 0\]: must be >= 1"),
        ({"sizes": [2**63]}, "must be at most"),
        ({"inner": 3}, r"inner = 3: must be a table of its parts \(lr, steps\)"),
    ],
)
def test_values_nothing_can_hold_are_refused_in_a_short_message(
    values: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        build(Outer, values)
    assert len(str(caught.value)) < 250


def test_a_parameter_is_found_by_its_last_part() -> None:
    assert parameters_like(Outer, "lr") == ["inner.lr"]
    assert parameters_like(Outer, "inner.steps") == ["inner.steps"]
    assert parameters_like(Outer, "mode") == ["mode"]
    assert parameters_like(Outer, "r") == []


def test_a_direct_call_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"Inner.lr = 0: must be > 0"):
        Inner(lr=0)


def test_describe_names_every_parameter_with_its_limits() -> None:
    rows = {name: (default, allowed) for name, default, allowed, _ in describe(Outer)}
    assert rows["inner.lr"] == ("0.1", "> 0")
    assert rows["mode"] == ("'a'", "one of a, b")
    assert set(rows) == {"mode", "flag", "names", "sizes", "inner.lr", "inner.steps"}


def test_unknown_name_suggests_the_nearest_and_the_last_part_of_a_dotted_name() -> None:
    assert "did you mean 'fedavg'?" in unknown_name("algorithm", "fedavgg", ["fedavg", "moon"])
    assert "did you mean 'local.lr'?" in unknown_name("parameter", "lr", ["local.lr", "weight"])
    assert "did you mean" not in unknown_name("algorithm", "zzz", ["fedavg"])


def test_of_many_names_the_three_nearest_are_shown_and_where_the_rest_is() -> None:
    names = ["fedavg", "fedavgm", "fedova", *(f"thing{number}" for number in range(50))]
    assert unknown_name("thing", "fedavgg", names, "fedcord list things") == (
        "unknown thing 'fedavgg'; did you mean 'fedavg', 'fedavgm' or 'fedova'? "
        "`fedcord list things` shows all."
    )
    assert unknown_name("thing", "y" * 10_000, names, "see").startswith("unknown thing 'yyy")
    assert len(unknown_name("thing", "y" * 10_000, names, "see")) < 150


def test_a_number_or_a_word_is_refused_with_both_named() -> None:
    @dataclass(frozen=True)
    class Mixed:
        ridge: float | str = param("gcv", "ridge", at_least=0, choices=("gcv",))

        def __post_init__(self) -> None:
            check_params(self)

    with pytest.raises(ConfigError, match=r"a number >= 0, or gcv \(it is negative\)"):
        Mixed(ridge=-1.0)
    with pytest.raises(ConfigError, match=r"'loo': must be a number >= 0, or gcv\."):
        Mixed(ridge="loo")
    assert [Mixed(ridge=0.0).ridge, Mixed(ridge="gcv").ridge] == [0.0, "gcv"]
    assert describe(Mixed) == [("ridge", "'gcv'", "a number >= 0, or gcv", "ridge")]


@dataclass(frozen=True)
class Slow:
    """A part with defaults of its own for a part of its own."""

    rate: float | None = param(None, "none when not set", above=0)
    steps: int = param(1, "how many", at_least=1)


@dataclass(frozen=True)
class Careful:
    """Not the defaults of `Slow`'s class."""

    slow: Slow = param(Slow(rate=0.5, steps=3), "a part")


def test_what_is_not_named_of_a_part_stays_as_the_whole_has_it() -> None:
    assert build(Careful, {"slow": {"steps": 7}}) == Careful(Slow(rate=0.5, steps=7))
    assert build(Careful, {"slow": {}}) == Careful()
    rows = {name: default for name, default, _, _ in describe(Careful)}
    assert rows == {"slow.rate": "0.5", "slow.steps": "3"}


def test_none_survives_where_it_is_not_the_default() -> None:
    without = Careful(Slow(rate=None, steps=3))
    assert plain(without) == {"slow": {"rate": "none", "steps": 3}}
    assert build(Careful, plain(without)) == without
    assert plain(Slow()) == {"steps": 1}
    assert build(Slow, {"rate": "none"}) == Slow()


@dataclass(frozen=True)
class Grown:
    old: int = param(1, "from the start")
    new: int = param(0, "added later", at_least=0, unwritten=True)


def test_a_field_that_was_added_later_is_written_only_where_it_is_used() -> None:
    assert plain(Grown()) == {"old": 1}
    assert plain(Grown(new=2)) == {"old": 1, "new": 2}
    assert build(Grown, plain(Grown(new=2))) == Grown(new=2)
    assert plain(Grown(), Grown(new=3)) == {"old": 1, "new": 0}


@dataclass(frozen=True)
class Fast:
    speed: float = param(9.0, "speed", above=0, space=(1.0, 20.0))
    limit: int | None = param(None, "limit")


KINDS = {"inner": Inner(), "inner-long": Inner(steps=50), "fast": Fast()}


def made(word: str) -> object:
    if word not in KINDS:
        raise ConfigError(unknown_name("kind", word, KINDS))
    return KINDS[word]


@dataclass(frozen=True)
class Chooses:
    kind: str = param("inner", "kind")
    part: object = param(Inner(), "part", named_by=("kind", made))


def test_a_part_is_of_the_class_that_another_field_names() -> None:
    assert build(Chooses, {}) == Chooses()
    assert build(Chooses, {"kind": "fast"}) == Chooses("fast", Fast())
    assert build(Chooses, {"part": {"speed": 3}, "kind": "fast"}) == Chooses("fast", Fast(3.0))
    longer = build(Chooses, {"kind": "inner-long", "part": {"lr": 0.5}})
    assert longer == Chooses("inner-long", Inner(0.5, 50))
    for chosen in (longer, Chooses("fast", Fast(2.0)), Chooses("inner-long", Inner())):
        assert build(Chooses, plain(chosen)) == chosen
        assert conformed(chosen) is chosen
    assert plain(Chooses("inner-long", Inner()))["part"]["steps"] == "none"
    assert [row[0] for row in describe(Chooses, usual=Chooses("fast", Fast()))][1:] == [
        "part.speed",
        "part.limit",
    ]
    assert declared_spaces(Chooses("fast", Fast())).keys() == {"part.speed"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"kind": "fats", "part": {"speed": 1}}, "kind: unknown kind 'fats'; did you mean 'fast'?"),
        ({"kind": "fast", "part": {"lr": 1}}, "unknown parameter 'part.lr'"),
        ({"part": {"speed": 1}}, "unknown parameter 'part.speed'"),
        ({"kind": "fast", "part": 3}, "part = 3: must be a table of its parts (speed, limit)."),
    ],
)
def test_a_part_of_an_unknown_or_other_class_is_refused(
    values: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Chooses, values)
    assert len(caught.value.problems) == 1
    assert why in caught.value.problems[0]


def test_a_part_that_is_not_of_the_named_class_does_not_conform() -> None:
    with pytest.raises(ConfigError, match=r"part is a Inner, .* from which a Fast is made"):
        conformed(Chooses("fast", Inner()))
