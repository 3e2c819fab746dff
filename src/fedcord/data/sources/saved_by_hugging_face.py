"""Data sets saved by Hugging Face `datasets`: `hf:DIR`, pictures or a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.core.errors import DataError, shown
from fedcord.core.folders import user_path
from fedcord.data.dataset import Dataset
from fedcord.data.formats.images import channel_statistics, read_images
from fedcord.data.grey_range import GreyRange, stated_range
from fedcord.data.locate import Search
from fedcord.data.sources.labelled_rows import TableOptions, labelled_rows
from fedcord.data.sources.table_file import TableSource, read_table, table_dataset
from fedcord.data.spec import DatasetSpec


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """What `save_to_disk` wrote: pictures if it has a column of them, else a table.

    The target is the only column of classes, or `?target=`. Other options are those of tables;
    `?size=` is for pictures, which are resized to 32x32 by default, and `?range=` for those with
    more than 8 bits, as in folders.
    """
    size, grey = spec.integer("size", 32, 4, 1024), stated_range(spec)
    source = read_table(spec)
    options = TableOptions.of(source.spec, source.raw.names)
    pictures = [name for name in source.pictures if name not in options.drop]
    if len(pictures) > 1:
        raise DataError(
            f"{spec.path} has the columns {', '.join(pictures)} with pictures; leave out all but "
            f"one, as in ?drop={pictures[1]}."
        )
    if not pictures:
        return table_dataset(source)
    return _picture_dataset(source, options, pictures[0], size, grey)


@dataclass(frozen=True)
class _Pictures:
    """A column of pictures as files that are called by the numbers of their rows."""

    path: Path
    cells: Any
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def read(self, name: str) -> bytes:
        cell = self.cells[int(name.removeprefix("row ")) - 1].as_py()
        if not cell or not isinstance(cell.get("bytes"), bytes):
            raise DataError(
                f"{self.path}: {name} holds no picture; save the data set anew with the pictures "
                "inside it (embed_external_files)."
            )
        data: bytes = cell["bytes"]
        return data


def _picture_dataset(
    source: TableSource, options: TableOptions, column: str, size: int, grey: GreyRange | None
) -> Dataset:
    labelled = labelled_rows(source.spec, source.raw, options)
    tree = _Pictures(user_path(source.spec.path), source.raw.table.column(column))
    pictures = read_images(tree, [f"row {row + 1}" for row in labelled.rows], size, None, grey)
    train, test = labelled.splits(pictures.pixels, source.num_training)
    mean, std = channel_statistics(train.inputs)
    roles = {column, options.target, options.client, options.row_id, *options.drop}
    unused = [name for name in source.raw.names if name not in roles]
    notes = [*labelled.notes, *pictures.notes]
    if unused:
        notes.append(f"columns beside the pictures are left out: {shown(', '.join(unused))}.")
    return Dataset(
        name=source.name,
        kind="image",
        train=train,
        test=test,
        class_names=labelled.class_names,
        mean=mean,
        std=std,
        group_names=labelled.group_names,
        notes=tuple(notes),
        grey=pictures.grey,
    )
