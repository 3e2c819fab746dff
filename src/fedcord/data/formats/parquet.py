"""Parquet files, never read larger than announced and allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcord.core.errors import DataError, shown
from fedcord.core.machine import data_limit, gigabytes
from fedcord.core.regular_files import check_regular
from fedcord.data.formats.delimited import MOST_COLUMNS
from fedcord.data.tables.raw import RawTable, pyarrow

_CELL_BYTES = np.dtype(np.float64).itemsize


def read_parquet(path: Path) -> RawTable:
    """All rows of a Parquet file.

    What it announces is added up before anything is unpacked. Texts are read by their dictionary: a
    long text that all rows share is held once.
    """
    pa = pyarrow()
    from pyarrow import parquet

    try:
        check_regular(path)
        with parquet.ParquetFile(path) as file:
            about, schema = file.metadata, file.schema_arrow
        _check_size(path, about)
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            table = file.read(use_threads=False)
    except OSError as error:
        if not isinstance(error, pa.ArrowException) and error.errno is not None:
            raise DataError(
                f"{path} cannot be read ({error.strerror or error}); check path and permissions."
            ) from error
        raise _damaged(path, error) from error
    except pa.ArrowException as error:
        raise _damaged(path, error) from error
    names = table.column_names
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of one name; rename one.")
    if not table.num_rows:
        raise DataError(f"{path} has no rows; give it some.")
    return RawTable(table)


def _check_size(path: Path, about: Any) -> None:
    rows, columns = about.num_rows, about.num_columns
    if columns > MOST_COLUMNS:
        raise DataError(f"{path} has {columns:,} columns; at most {MOST_COLUMNS:,} are read.")
    groups = [about.row_group(n).total_byte_size for n in range(about.num_row_groups)]
    size = max(rows * columns * _CELL_BYTES, sum(groups))
    if size > data_limit():
        raise DataError(
            f"{path} unpacks to {rows:,} rows of {columns} columns, that is {gigabytes(size)}; at "
            f"most {gigabytes(data_limit())}, a quarter of this machine's memory, are read: keep "
            "fewer rows or columns."
        )


def _damaged(path: Path, error: Exception) -> DataError:
    reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
    return DataError(
        f"{path} cannot be read as Parquet ({reason}); it is another kind of file, truncated or "
        "damaged: write it again."
    )
