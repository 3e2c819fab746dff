"""Where data is searched, checksums on the way, and the words when nothing is there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from fedcord.core.errors import DataError
from fedcord.core.folders import data_folders
from fedcord.data import load_dataset
from fedcord.data.checksum import Official, read_checked
from fedcord.data.locate import Search, Wanted


def test_argument_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCORD_DATA", "elsewhere")
    assert data_folders([tmp_path]) == (tmp_path,)


def test_environment_is_a_list_of_folders_with_home_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("FEDCORD_DATA", os.pathsep.join(["~/data", "", "../shared"]))
    assert data_folders() == (Path("/home/someone/data"), Path("../shared"))


def test_cache_folder_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("FEDCORD_DATA", "")
    assert data_folders() == (Path("/home/someone/.cache/fedcord/data"),)
    assert data_folders([]) == (Path("/home/someone/.cache/fedcord/data"),)


def test_first_complete_place_wins(tmp_path: Path) -> None:
    wanted = Wanted("thing", ("thing", "other-*"), (("a", "a.gz"), ("b",)))
    for name in ("one/thing/a", "two/other-1/a.gz", "two/other-1/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = Search((tmp_path / "one", tmp_path / "two")).require(wanted)
    assert found.path == tmp_path / "two" / "other-1"
    assert found.pick(("a", "a.gz")).name == "a.gz"


def test_unfinished_download_is_not_taken_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "set.zip.part").write_bytes(b"")
    assert Search((tmp_path,)).find(Wanted("thing", ("set*",))) is None


def test_missing_data_names_folders_files_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"")
    absent = tmp_path / "absent"
    with pytest.raises(DataError, match="data set 'cifar10' was not found") as caught:
        load_dataset("cifar10", data_dirs=[tmp_path, absent])
    message = str(caught.value)
    assert f"searched: {tmp_path}, {absent} (does not exist)" in message
    assert "wanted: cifar-10-batches-bin or" in message
    assert "lacks data_batch_1.bin, data_batch_2.bin" in message
    assert "--data-dir or FEDCORD_DATA" in message
    assert "https://www.cs.toronto.edu/~kriz with --download" in message


@pytest.mark.parametrize(
    "name",
    [
        *("mnist", "fashion-mnist", "cifar100", "svhn", "tiny-imagenet", "usps", "mnist-m"),
        *("office-caltech10", "ag-news", "ham10000"),
    ],
)
def test_every_missing_set_says_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"(?s)'{name}' was not found.*do: name the folder.*\.$"):
        load_dataset(name, data_dirs=[tmp_path])


def test_missing_domains_are_listed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs at least two of mnist, usps.*found none"):
        load_dataset("digits-domains", data_dirs=[tmp_path])


def test_official_size_with_other_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"12345")
    good = hashlib.sha256(b"12345").hexdigest()
    assert read_checked(path, official=Official(5, good)) == b"12345"
    assert read_checked(path, official=Official(6, "0" * 64)) == b"12345"  # a subset
    with pytest.raises(
        DataError, match=f"official file .5 bytes. but SHA-256 {good}, expected 000"
    ):
        read_checked(path, official=Official(5, "0" * 64))


@pytest.mark.parametrize("place", ["", "sub"])
def test_sums_file_is_enforced_from_the_file_up_to_the_data_folder(
    place: str, tmp_path: Path
) -> None:
    path = tmp_path / "sub" / "a.bin"
    path.parent.mkdir()
    path.write_bytes(b"1")
    name = "a.bin" if place else "./sub/a.bin"
    sums = tmp_path / place / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(b'1').hexdigest()}  {name}\n")
    assert read_checked(path, tmp_path) == b"1"
    path.write_bytes(b"2")
    with pytest.raises(DataError, match=r"a\.bin has SHA-256 .* but SHA256SUMS lists"):
        read_checked(path, tmp_path)


def test_sums_file_must_be_well_formed(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1")
    (tmp_path / "SHA256SUMS").write_text("\nabc  a.bin\n")
    with pytest.raises(DataError, match="SHA256SUMS line 2 is not 'checksum  name'"):
        read_checked(tmp_path / "a.bin")


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.bin cannot be read \(No such file"):
        read_checked(tmp_path / "nothing.bin")


def _homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user whom neither HOME nor the system's list of users knows."""
    monkeypatch.delenv("FEDCORD_DATA", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)


def test_a_user_without_a_home_can_use_what_needs_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    _homeless(monkeypatch)
    assert data_folders() == ()
    assert len(load_dataset("digits").test) == 359
    for download in (False, True):
        with pytest.raises(
            DataError, match=r"nowhere, since this user has no home(.|\n)*FEDCORD_DATA\.$"
        ):
            load_dataset("mnist", allow_download=download)


def test_a_data_folder_with_an_unknown_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCORD_DATA", "~nobody-here/data")
    with pytest.raises(DataError, match="'mnist': '~nobody-here/data': the home folder"):
        load_dataset("mnist")


def test_a_data_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path) -> bool:  # permissions do not bind the superuser
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", closed)
    with pytest.raises(
        DataError, match=r"'mnist': '.*' cannot be read \(Permission denied\); check"
    ):
        load_dataset("mnist", data_dirs=[tmp_path])


def test_a_file_larger_than_the_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.data.checksum.data_limit", lambda: 10)
    (tmp_path / "a").write_bytes(b"0" * 11)
    with pytest.raises(DataError, match="a quarter of this machine's memory, are read: keep fewer"):
        read_checked(tmp_path / "a")
