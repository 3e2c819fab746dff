"""Parquet files: read by their dictionary, refused before they fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedcord.core.errors import DataError
from fedcord.data.formats import parquet
from fedcord.data.formats.parquet import read_parquet


def write(folder: Path, **columns: Any) -> Path:
    path = folder / "table.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_columns_keep_their_types(tmp_path: Path) -> None:
    raw = read_parquet(write(tmp_path, age=[1.5, None], ward=["A", "B"], ill=[True, False]))
    assert raw.names == ("age", "ward", "ill")
    assert raw.table.to_pydict() == {"age": [1.5, None], "ward": ["A", "B"], "ill": [True, False]}


def test_a_text_that_all_rows_share_is_held_once(tmp_path: Path) -> None:
    raw = read_parquet(write(tmp_path, note=["x" * 10_000] * 1000))
    assert raw.table.nbytes < 100_000


@pytest.mark.parametrize("limit", [0, 79])
def test_what_it_announces_is_added_up_first(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, a=[0.0] * 10)
    monkeypatch.setattr(parquet, "data_limit", lambda: limit)
    with pytest.raises(DataError, match="unpacks to 10 rows of 1 columns"):
        read_parquet(path)


def test_damaged_and_foreign_files_are_refused_in_words(tmp_path: Path) -> None:
    path = write(tmp_path, a=[1.0, 2.0])
    whole = path.read_bytes()
    for data in (b"", b"PAR1", whole[: len(whole) // 2], b"a,b\n1,2\n", b"PAR1" * 10):
        path.write_bytes(data)
        with pytest.raises(DataError, match="cannot be read as Parquet"):
            read_parquet(path)
    with pytest.raises(DataError, match=r"cannot be read .*it is a folder"):
        read_parquet(tmp_path)
    with pytest.raises(DataError, match="No such file"):
        read_parquet(tmp_path / "none")


def test_tables_without_rows_or_with_two_equal_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no rows"):
        read_parquet(write(tmp_path, a=pa.array([], pa.float64())))
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(DataError, match="two columns of one name"):
        read_parquet(path)
