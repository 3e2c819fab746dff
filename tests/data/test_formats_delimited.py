"""CSV files as hospitals write them, and files that are none."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from fedcord.core.errors import DataError
from fedcord.data.formats import delimited
from fedcord.data.formats.delimited import csv_dialect, csv_parts, read_csv


def write(folder: Path, data: bytes | str, encoding: str = "utf-8") -> Path:
    path = folder / "table.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
    return path


def cells(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = read_csv(path).table.to_pydict()
    return found


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path: Path, separator: str) -> None:
    text = "a,b,c\n1,x,2\n3,y,4\n".replace(",", separator)
    path = write(tmp_path, text)
    assert cells(path) == {"a": ["1", "3"], "b": ["x", "y"], "c": ["2", "4"]}
    assert read_csv(path).decimal_comma == (separator != ",")


def test_decimal_commas_do_not_hide_the_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path, "Name, Vorname;Gewicht\nA;1,5\nB;2,5\n")
    assert cells(path) == {"Name, Vorname": ["A", "B"], "Gewicht": ["1,5", "2,5"]}


@pytest.mark.parametrize(
    ("encoding", "found"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "latin-1")],
)
def test_encodings(tmp_path: Path, encoding: str, found: str) -> None:
    path = write(tmp_path, "größe,ort\n1,Köln\n2,Århus\n", encoding)
    assert csv_dialect(path).encoding == found
    assert cells(path) == {"größe": ["1", "2"], "ort": ["Köln", "Århus"]}


def test_a_letter_cut_by_the_end_of_a_block_is_still_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "größe,ort\n1,Köln😀\n" * 20)
    for size in range(20, 30):
        monkeypatch.setattr(delimited, "_BEGINNING", size)
        assert delimited._scan(path, True)[2] == "utf-8"
    path.write_bytes(path.read_bytes()[:-2])  # the last letter is cut for good
    path.write_bytes(path.read_bytes().rstrip(b"\n") + "ö".encode()[:1])
    assert delimited._scan(path, True)[2] == "latin-1"


def test_quotes_hold_separators_line_breaks_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [["a,1", "b"], ['say "x"', "two\nlines"], ["", "p,q"]]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert cells(path) == {"a,1": ['say "x"', ""], "b": ["two\nlines", "p,q"]}


def test_windows_line_ends_and_a_last_line_without_one(tmp_path: Path) -> None:
    assert cells(write(tmp_path, "a,b\r\n1,2\r\n3,4")) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    assert cells(write(tmp_path, ",b\n0,2\n1,4\n")) == {"column 1": ["0", "1"], "b": ["2", "4"]}


def test_parts_know_where_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "name,b\n" + "".join(f"r{n},2\n" for n in range(1, 101)))
    monkeypatch.setattr(delimited, "_LONGEST_RECORD", 64)
    parts = list(csv_parts(path))
    assert len(parts) > 5
    for part in parts:
        names = part.table.column("name").to_pylist()
        assert names == [f"r{part.first_row + n}" for n in range(len(part))]
    assert sum(map(len, parts)) == 100


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\n\n \n", "is empty"),
        (b"a,b\n", "column names and no rows"),
        (b"1,2\n3,4\n", "begins with numbers"),
        (b"a,a\n1,2\n", "two columns called 'a'"),
        (b"a,b\n1,\x002\n", "a zero byte at position 6"),
        (b"PK\x03\x04\x00\x00", "an archive or a spreadsheet"),
        ("a,b\n1,2\n".encode("utf-16"), "written in UTF-16"),
        (b"a,b\n1,2\n3\n5,6\n", r"Row #3: Expected 2 columns, got 1.*every row needs as many cel"),
        (b"a,b\n1,2,3\n", r"Row #2: Expected 2 columns, got 3"),
        (b'a,b\n1,"2\n3,4\n', "has 1 double quotation marks"),
        (b"a" + b",a" * 10_000 + b"\n1\n", "10,001 columns"),
    ],
)
def test_files_that_are_no_tables_are_refused_in_words(
    tmp_path: Path, data: bytes, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        read_csv(write(tmp_path, data))


def test_a_field_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_LONGEST_RECORD", 1000)
    path = write(tmp_path, "a,b\n1,2\n3," + "x" * 5000 + "\n")
    with pytest.raises(DataError, match="a row has more than 1,000 bytes; is a quotation mark"):
        read_csv(path)


def test_sizes_are_added_up_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a,b\n" + "1,2\n" * 100)
    monkeypatch.setattr(delimited, "_parts", None)  # nothing may get that far
    monkeypatch.setattr(delimited, "data_limit", lambda: 1000)
    with pytest.raises(DataError, match="about 101 rows of 2 columns"):
        read_csv(path)
    monkeypatch.setattr(delimited, "data_limit", lambda: 100)
    with pytest.raises(DataError, match="keep fewer rows"):
        read_csv(path)


def test_a_folder_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it is a folder, not a file"):
        read_csv(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe or device"):
        read_csv(tmp_path / "pipe")
