import pytest

from fedcord.core.toml import parse_toml, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e3", 1000.0),
        ("true", True),
        ("word", "word"),
        (" word ", "word"),
        ("[1, 2]", [1, 2]),
        ('"a # b"', "a # b"),
        ("", ""),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    "text", ["1\n2", "1\n2 = 3", "1\n[table]", "1 # 2", "9" * 5000, "[" * 5000]
)
def test_what_is_no_single_value_stays_a_word(text: str) -> None:
    assert parse_value(text) == text


def test_deep_nesting_is_a_mistake_in_the_text() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml("a = " + "[" * 5000)
