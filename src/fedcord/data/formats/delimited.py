"""CSV files as people have them: any usual separator, encoding and decimal mark."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcord.core.errors import DataError, shown
from fedcord.core.machine import data_limit, gigabytes
from fedcord.core.names import readable
from fedcord.core.regular_files import check_regular
from fedcord.data.tables.raw import RawTable, number_of, pyarrow

SEPARATORS = "\t;|,"
"""The rarer in plain text, the earlier: of two that divide equally well, the first is taken."""
MOST_COLUMNS = 10_000
_LONGEST_RECORD = 1 << 24
"""Bytes of one row, and of what is read at once."""
_BEGINNING = 1 << 20
_SAMPLE_RECORDS = 50
_CELL_BYTES = np.dtype(np.float64).itemsize


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Attributes:
        separator: between cells.
        encoding: of its bytes.
        names: of the columns, from the first record.
    """

    separator: str
    encoding: str
    names: tuple[str, ...]


def read_csv(path: Path) -> RawTable:
    """All rows of a CSV file; every column is text."""
    dialect = csv_dialect(path)
    tables = [part.table for part in _parts(path, dialect)]
    table = pyarrow().concat_tables(tables)
    if not table.num_rows:
        raise DataError(f"{path} has column names and no rows; give it some.")
    return RawTable(table, dialect.separator != ",")


def csv_parts(path: Path) -> Iterator[RawTable]:
    """The rows of a CSV file of any size, some megabytes at a time."""
    yield from _parts(path, csv_dialect(path, is_limited=False))


def csv_dialect(path: Path, is_limited: bool = True) -> Dialect:
    """Look through a file's bytes and at its first records.

    Args:
        path: the file.
        is_limited: whether a file whose cells would not fit into memory is refused.
    """
    beginning, num_lines, encoding = _scan(path, is_limited)
    if beginning[:2] == b"PK":
        raise DataError(f"{path} is an archive or a spreadsheet; save the sheet as CSV (UTF-8).")
    text = beginning.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    if not text.strip():
        raise DataError(f"{path} is empty; its first line must hold the names of the columns.")
    separator, header = _separator(text)
    names = _names(path, header)
    size = num_lines * len(names) * _CELL_BYTES
    if is_limited and size > data_limit():
        raise DataError(
            f"{path} has about {num_lines:,} rows of {len(names)} columns, that is "
            f"{gigabytes(size)} of numbers; at most {gigabytes(data_limit())}, a quarter of this "
            "machine's memory, are read: keep fewer rows or columns."
        )
    return Dialect(separator, encoding, names)


def _scan(path: Path, is_limited: bool) -> tuple[bytes, int, str]:
    """The first bytes, how many lines there are, and the encoding."""
    try:
        size = check_regular(path)
        if is_limited and size > data_limit():
            raise DataError(
                f"{path} has {gigabytes(size)}; at most {gigabytes(data_limit())}, a quarter of "
                "this machine's memory, are read: keep fewer rows."
            )
        num_lines, num_quotes, position, beginning, rest, is_utf8 = 0, 0, 0, b"", b"", True
        with path.open("rb") as file:
            while part := file.read(_BEGINNING):
                beginning = beginning or part
                if part[:2] in (b"\xff\xfe", b"\xfe\xff") and not position:
                    raise DataError(f"{path} is written in UTF-16; save it as UTF-8.")
                if b"\0" in part and beginning[:2] != b"PK":
                    place = position + part.index(b"\0")
                    raise DataError(
                        f"{path} holds a zero byte at position {place}, so it is no text; save the "
                        "table as CSV (UTF-8)."
                    )
                num_lines += part.count(b"\n") or part.count(b"\r")
                num_quotes += part.count(b'"')
                position += len(part)
                if is_utf8:
                    is_utf8, rest = _continues_utf8(rest + part)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}); check path and permissions."
        ) from error
    if num_quotes % 2 and beginning[:2] != b"PK":  # the rest of the file would be one cell
        raise DataError(
            f"{path} has {num_quotes} double quotation marks, so one that opens a text does not "
            'close it; inside a quoted text a quotation mark is written twice ("").'
        )
    return beginning, num_lines, "utf-8" if is_utf8 and not rest else "latin-1"


def _continues_utf8(data: bytes) -> tuple[bool, bytes]:
    """Whether bytes are UTF-8 as far as they go, and the part of a letter at their end."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and len(data) - error.start < 4
        return is_cut, data[error.start :] if is_cut else b""
    return True, b""


def _separator(text: str) -> tuple[str, list[str]]:
    """What divides the first records into the most cells, equally many each; and the first."""
    best, best_score, header = ",", (False, 0), [text]
    for separator in SEPARATORS:
        records: list[list[str]] = []
        try:
            for record in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
                if record:
                    records.append(record)
                if len(records) == _SAMPLE_RECORDS:
                    break
        except csv.Error:  # a field too long for the module: judged by what came before
            pass
        if len(text) >= _BEGINNING and len(records) < _SAMPLE_RECORDS:
            records = records[:-1]  # cut off
        if not records:
            continue
        width = len(records[0])
        score = (width > 1 and all(len(record) == width for record in records), width)
        if score > best_score:
            best, best_score, header = separator, score, records[0]
    return best, header


def _names(path: Path, header: list[str]) -> tuple[str, ...]:
    """Of the columns; one without a name, as programs write for row numbers, is called by place."""
    if len(header) > MOST_COLUMNS:
        raise DataError(f"{path} has {len(header):,} columns; at most {MOST_COLUMNS:,} are read.")
    if len(header) > 1 and all(number_of(cell.strip(), True) is not None for cell in header):
        raise DataError(
            f"{path} begins with numbers ({shown(header[0])}, …); its first line must hold the "
            "names of the columns."
        )
    names = tuple(
        readable(cell.strip()) or f"column {place}" for place, cell in enumerate(header, 1)
    )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns called {shown(twice)}; rename one.")
    return names


def _parts(path: Path, dialect: Dialect) -> Iterator[RawTable]:
    pa = pyarrow()
    from pyarrow import csv as arrow_csv

    placeholders = [f"f{place}" for place in range(len(dialect.names))]
    try:
        reader = arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(
                use_threads=False,  # so that a wrong row is named
                block_size=_LONGEST_RECORD,
                autogenerate_column_names=True,  # equal and empty names are ours to judge
                encoding=dialect.encoding,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(placeholders, pa.string()), strings_can_be_null=False
            ),
        )
        row = 0
        for batch in reader:
            _check_width(path, batch, dialect)
            table = pa.Table.from_batches([batch]).rename_columns(list(dialect.names))
            if not row:
                table = table.slice(1)  # the header
            yield RawTable(table, dialect.separator != ",", max(row, 1))
            row += batch.num_rows
    except pa.ArrowException as error:
        raise DataError(f"{path} cannot be read as CSV ({_reason(error)}).") from error


def _check_width(path: Path, batch: Any, dialect: Dialect) -> None:
    if batch.num_columns != len(dialect.names):
        raise DataError(
            f"{path}: the first line was read as {len(dialect.names)} columns and also as "
            f"{batch.num_columns}; write the names of the columns plainly, without quotes."
        )


def _reason(error: Exception) -> str:
    reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
    if "straddling" in str(error):
        return f"a row has more than {_LONGEST_RECORD:,} bytes; is a quotation mark left open?"
    if "Expected" in str(error):
        return (
            f"{reason}; counting the line with the names as row 1: every row needs as many cells, "
            "and a text that holds the separator must stand in double quotes"
        )
    return reason
