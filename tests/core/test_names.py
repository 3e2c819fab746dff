import pytest

from fedcord.core.names import LONGEST_NAME, is_plain, name_problem


@pytest.mark.parametrize(
    "name", ["fedavg", "fedproto+", "mu=0.1", "v9.2", "Klinik Süd", "病院", "a"]
)
def test_names_of_folders(name: str) -> None:
    assert name_problem("label", name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "must not be empty"),
        (" ", "must not be empty"),
        ("..", "begin or end with a dot"),
        (".hidden", "begin or end with a dot"),
        ("end ", "or a space"),
        ("../../x", "without any of /"),
        ("/tmp/x", "without any of /"),
        ("a\\b", "without any of /"),
        ("c:x", "without any of /"),
        ("a\nb", "control characters"),
        ("a\0b", "control characters"),
        ("\udc80", "control characters"),
        ("x" * (LONGEST_NAME + 1), "at most 100 characters"),
        ("NUL", "device"),
        ("com1.txt", "device"),
        (3, "must be text"),
        ([], "must be text"),
    ],
)
def test_what_cannot_be_a_folder_is_refused_in_words(name: object, words: str) -> None:
    problem = name_problem("label", name)
    assert problem is not None
    assert problem.startswith("label ")
    assert words in problem


def test_plain_text_is_any_language_without_control_characters() -> None:
    assert is_plain("Ärzte\u00a0日本")
    assert not is_plain("bell\x07")
    assert not is_plain("\ud800")
