"""What a page calls its data, without folders of the machine it was made on."""

import pytest

from fedcord.report.subject import command_without_folders, heading, same_data, short_data


@pytest.mark.parametrize(
    ("spec", "short", "same"),
    [
        ("digits", "digits", "digits"),
        ("digits?views=2", "digits", "digits?views=2"),
        ("npz:/a b/c/x.npz?label=y", "x.npz", "npz:x.npz?label=y"),
        ("npz:x.npz", "npz:x.npz", "npz:x.npz"),
        ("folder:/a/b/", "b", "folder:b"),
        ("npz:~/c/x.npz", "x.npz", "npz:x.npz"),
    ],
)
def test_folders_do_not_matter(spec: str, short: str, same: str) -> None:
    assert (short_data(spec), same_data(spec)) == (short, same)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("fedcord compare a --out runs/x", "fedcord compare a --out runs/x"),
        ("fedcord run a --dataset npz:/a/x.npz", "fedcord run a --dataset npz:…/x.npz"),
        ("fedcord run a --out '/a b/c'", "fedcord run a --out …/c"),
        ("fedcord run a --out=/a/c --set 'x=1 2'", "fedcord run a --out=…/c --set 'x=1 2'"),
        ("fedcord run 'broken /a/b", "fedcord run ''broken' …/b"),
    ],
)
def test_commands_show_no_absolute_folder(command: str, shown: str) -> None:
    assert command_without_folders(command) == shown


def test_a_heading_stays_short() -> None:
    assert heading(["a"], "digits") == "a on digits"
    assert heading(["a", "b", "c"], "npz:/home/me/x.npz?label=y") == "a, b and c on x.npz"
    assert heading([f"m{k}" for k in range(20)], "digits") == "m0, m1, m2 and 17 more on digits"
