"""Data sets that Hugging Face `datasets` saved to a folder, as tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcord.core.errors import DataError, shown
from fedcord.core.machine import data_limit, gigabytes
from fedcord.data.tables.raw import RawTable, pyarrow

_TRAINING = ("train", "validation")
_CELL_BYTES = np.dtype(np.float64).itemsize


@dataclass(frozen=True)
class SavedTable:
    """What a folder holds.

    Attributes:
        raw: all rows, those for training first; numbers of classes are replaced by their names.
        num_training: how many are for training; None when the folder does not divide them.
        classes: columns whose values are declared to be classes.
        pictures: columns that hold pictures.
    """

    raw: RawTable
    num_training: int | None
    classes: tuple[str, ...]
    pictures: tuple[str, ...]


def read_saved(path: Path) -> SavedTable:
    """Read what `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote.

    Of several parts, `train` and `validation` are for training (fedcord takes validation data from
    each client) and `test` for testing.
    """
    pa = pyarrow()
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            "data sets saved by Hugging Face are read with its library datasets, which is not "
            "installed; get it with: pip install 'fedcord[huggingface]'."
        ) from error
    if not path.is_dir():
        raise DataError(f"{path} is no folder; give one that save_to_disk has written.")
    try:
        saved = datasets.load_from_disk(str(path))
        parts = dict(saved) if isinstance(saved, datasets.DatasetDict) else {"": saved}
        training = [parts[name] for name in ("", *_TRAINING) if name in parts]
        testing = [parts[name] for name in ("test",) if name in parts]
        if not training:
            raise DataError(f"{path} has the parts {', '.join(parts)}; one called train is needed.")
        _check_size(path, [*training, *testing])
        features = training[0].features
        tables = [_named(part) for part in (*training, *testing)]
        table = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    except (DataError, MemoryError):
        raise
    except Exception as error:  # the library raises many types on damaged folders
        reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
        raise DataError(
            f"{path} cannot be read as a saved data set ({reason}); write it again with "
            "save_to_disk."
        ) from error
    if not table.num_rows:
        raise DataError(f"{path} has no rows; give it some.")
    return SavedTable(
        RawTable(table),
        sum(map(len, training)) if testing else None,
        tuple(name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)),
        tuple(name for name, kind in features.items() if isinstance(kind, datasets.Image)),
    )


def _check_size(path: Path, parts: list[Any]) -> None:
    """The files are only mapped into memory so far."""
    cells = sum(part.num_rows * part.num_columns * _CELL_BYTES for part in parts)
    size = max(cells, sum(part.data.nbytes for part in parts))
    if size > data_limit():
        raise DataError(
            f"{path} has {gigabytes(size)}; at most {gigabytes(data_limit())}, a quarter of this "
            "machine's memory, are read: keep fewer rows or columns."
        )


def _named(part: Any) -> Any:
    """The rows of one part as an Arrow table, with the names of classes for their numbers."""
    pa = pyarrow()
    table = part.with_format("arrow")[:].replace_schema_metadata(None)
    for place, (name, kind) in enumerate(part.features.items()):
        names = getattr(kind, "names", None)
        if not names or not pa.types.is_integer(table.schema.field(name).type):
            continue
        numbers = table.column(name).combine_chunks().cast(pa.int64())
        is_none = pa.compute.less(numbers, 0)  # -1 stands for a label that is withheld
        numbers = pa.compute.if_else(is_none, pa.scalar(None, pa.int64()), numbers)
        words = pa.DictionaryArray.from_arrays(numbers, pa.array(names, pa.string()))
        table = table.set_column(place, name, words)
    return table
