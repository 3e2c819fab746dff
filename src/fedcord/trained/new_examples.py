"""Examples to be predicted, read batch by batch in the form that the model's own had.

npz:PATH      x, and an id and a class y for each if given
csv:PATH      rows of a table, or texts for a model that was trained on texts
folder:PATH   every picture below the folder, each called by its file's name; where folders are
              called like classes, they say what class their pictures are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import torch
from torch import Tensor

from fedcord.core.errors import ConfigError, DataError, unknown_name
from fedcord.core.folders import user_path
from fedcord.core.names import readable
from fedcord.data.facts import DataFacts
from fedcord.data.formats.images import SUFFIXES, Pictures, first_few, is_image, read_images
from fedcord.data.formats.tree import open_tree
from fedcord.data.registry import TABLES, check_spec, reading
from fedcord.data.sources.npz_file import NewRows, read_new_rows
from fedcord.data.spec import DatasetSpec
from fedcord.engine.evaluation import BATCH
from fedcord.trained.stored_form import known_words, stored_form

TEXT = "text"
"""Name of the column of texts in a table that has others."""


@dataclass(frozen=True)
class Batch:
    """Some examples.

    Attributes:
        inputs: [B, ...] as stored.
        ids: [B] what each is called.
        labels: [B] each one's class; None where nobody says.
    """

    inputs: Tensor
    ids: Sequence[str]
    labels: Sequence[int | None]


@dataclass(frozen=True)
class NewExamples:
    """Examples that are read when they are needed.

    Attributes:
        count: how many there are.
        batches: reads them from the first to the last.
        notes: what was found and not used, in plain words.
    """

    count: int
    batches: Callable[[], Iterator[Batch]]
    notes: tuple[str, ...] = ()


def open_examples(data: str, facts: DataFacts) -> NewExamples:
    """The examples that `data` names, for a model of these facts."""
    parsed, _ = check_spec(data)
    readers = {"npz": _arrays, "folder": _pictures, **dict.fromkeys(TABLES, _table)}
    if not parsed.path or parsed.name not in readers:
        forms = ", ".join(f"{prefix}:PATH" for prefix in readers)
        raise ConfigError(f"--data {data}: examples to predict are read from {forms}.")
    with reading(data):
        found = readers[parsed.name](parsed, facts)
    if found.count == 0:
        raise DataError(f"{data} holds no examples; there is nothing to predict.")
    return found


def _arrays(spec: DatasetSpec, facts: DataFacts) -> NewExamples:
    rows = read_new_rows(spec, facts.kind)
    if rows.kind != facts.kind:
        raise DataError(f"examples are of kind {rows.kind}, the model takes {facts.kind}.")
    if facts.preparation is not None:
        columns = ", ".join(column.name for column in facts.preparation.columns)
        raise DataError(
            f"the model was trained on a table and takes its columns ({columns}); give csv:PATH."
        )
    count = len(rows.inputs)
    ids = [str(row) for row in range(count)] if rows.ids is None else rows.ids
    return _held(stored_form(rows.inputs, facts), ids, _labels(rows, facts, count))


def _held(
    inputs: Tensor, ids: Sequence[str], labels: Sequence[int | None], notes: tuple[str, ...] = ()
) -> NewExamples:
    """Examples that are all in memory."""
    count = len(inputs)

    def batches() -> Iterator[Batch]:
        for start in range(0, count, BATCH):
            part = slice(start, start + BATCH)
            yield Batch(inputs[part], ids[part], labels[part])

    return NewExamples(count, batches, notes)


def _labels(rows: NewRows, facts: DataFacts, count: int) -> list[int | None]:
    if rows.classes is None:
        return [None] * count
    number = {name: label for label, name in enumerate(facts.class_names)}
    known = set(rows.classes) <= number.keys()
    if not known and not rows.has_names and not any(n.isdigit() for n in facts.class_names):
        number = {str(label): label for label in range(facts.num_classes)}  # numbers of classes
    for row, name in enumerate(rows.classes):
        if name not in number:
            raise DataError(f"y, row {row}: {_unseen(name, facts)}")
    return [number[name] for name in rows.classes]


def _unseen(name: str, facts: DataFacts) -> str:
    return (
        f"{unknown_name('class', name, facts.class_names)} The model was trained on these; leave "
        "such examples out, or train with them."
    )


def _table(spec: DatasetSpec, facts: DataFacts) -> NewExamples:
    from fedcord.data.sources.table_file import read_table
    from fedcord.data.tables.rows import prepare_rows

    if facts.kind == "text":
        return _texts(spec, facts)
    if facts.preparation is None:
        raise DataError(
            f"{spec.path} is a table, and the model was not trained on one: it takes examples of "
            f"kind {facts.kind}; give {'folder' if facts.kind == 'image' else 'npz'}:PATH."
        )
    rows = prepare_rows(facts.preparation, read_table(spec).raw)
    labels: list[int | None] = [None] * len(rows.names)
    if rows.labels is not None:
        labels = [None if label < 0 else label for label in rows.labels.tolist()]
    return _held(stored_form(rows.inputs, facts), rows.names, labels, rows.notes)


def _texts(spec: DatasetSpec, facts: DataFacts) -> NewExamples:
    """A table with a column of texts: the one called so, or the only one there is."""
    from fedcord.data.sources.labelled_rows import TableOptions
    from fedcord.data.sources.table_file import read_table
    from fedcord.data.tables.raw import is_textual, words_of
    from fedcord.data.tables.rows import row_names

    words = known_words(facts)
    source = read_table(spec)
    raw, options = source.raw, TableOptions.of(source.spec, source.raw.names)
    inputs = [name for name in raw.names if options.role(name) == "input"]
    if TEXT in inputs:
        inputs = [TEXT]
    if len(inputs) != 1:
        raise DataError(
            f"{spec.path} has the columns {', '.join(map(readable, raw.names))}; the model takes "
            f"texts from one: call it '{TEXT}', or name the others as in ?id=NAME&target=NAME or "
            "?drop=NAME,NAME."
        )
    column = raw.column(inputs[0])
    if not is_textual(column):
        raise DataError(
            f"{spec.path}: column '{readable(inputs[0])}' holds {column.type}, no text."
        )
    texts = column.to_pylist()
    empty = [row for row, text in enumerate(texts, raw.first_row) if not (text or "").strip()]
    if empty:
        raise DataError(
            f"{spec.path}, row {empty[0]}: there is no text; fill it, or leave the row out."
        )
    labels: list[int | None] = [None] * len(texts)
    if options.target:
        known = {name: label for label, name in enumerate(facts.class_names)}
        classes = words_of(raw.column(options.target), options.missing)
        for word in classes.words:
            if word not in known:
                row = raw.first_row + classes.first_row(word)
                raise DataError(f"{spec.path}, row {row}: {_unseen(word, facts)}")
        labels = [None if code < 0 else known[classes.words[code]] for code in classes.codes]
    return _held(torch.from_numpy(words.encode(texts)), row_names(raw, options.row_id), labels)


def _pictures(spec: DatasetSpec, facts: DataFacts) -> NewExamples:
    if facts.kind != "image":
        raise DataError(
            f"{spec.path} holds pictures, the model takes {facts.kind}s: give npz:PATH."
        )
    channels, height, width = facts.input_shape
    if height != width:
        raise DataError(
            f"the model takes pictures of {height}x{width}, and those of folders become squares; "
            "give npz:PATH."
        )
    if spec.integer("size", height, 4, 1024) != height:
        raise DataError(f"the model takes pictures of {height}x{width}; leave ?size= out.")
    if "range" in spec.options:
        raise DataError(
            "which values are black and white was decided in training; leave ?range= out."
        )
    path = user_path(spec.path)
    if not path.exists():
        raise DataError(f"{path} does not exist; give a folder of pictures.")
    tree = open_tree(path)
    names = [name for name in tree.names if is_image(name)]
    if not names and tree.names:
        raise DataError(
            f"{path} holds no pictures (names ending in {', '.join(SUFFIXES)}), but "
            f"{first_few(tree.names)}."
        )
    labels = _folder_labels(names, facts)

    def batches() -> Iterator[Batch]:
        for start in range(0, len(names), BATCH):
            part = names[start : start + BATCH]
            pictures = read_images(tree, part, height, channels, facts.grey)
            problem = _depth_problem(pictures, facts)
            if problem:
                raise DataError(f"{path}: of the pictures {first_few(part)}, {problem}.")
            ids = [readable(name) for name in part]
            yield Batch(stored_form(pictures.pixels, facts), ids, labels[start : start + BATCH])

    return NewExamples(len(names), batches)


def _depth_problem(pictures: Pictures, facts: DataFacts) -> str | None:
    """Why pictures cannot be brought to the model's grey values, in words, or None."""
    known, narrow = facts.grey, len(pictures.pixels) - pictures.wide
    if pictures.wide and known is None:
        return (
            f"{pictures.wide} have more than 8 bits of grey, and the model was trained on pictures "
            "of 8 bits, so nothing says which values are black and white; convert them to 8 bits "
            "as the training pictures were"
        )
    if narrow and known is not None and not known.beside_bytes:
        return (
            f"{narrow} have 8 bits, and the model was trained on pictures with more, whose values "
            f"from {known} are black to white; give them as the training pictures were"
        )
    return None


def _folder_labels(names: Sequence[str], facts: DataFacts) -> list[int | None]:
    """Classes from the folders that pictures lie in, if any of these is called like a class."""
    number = {name: label for label, name in enumerate(facts.class_names)}
    folders = [readable(PurePosixPath(name).parent.name) for name in names]
    if not number.keys() & set(folders):
        return [None] * len(names)
    for name, folder in zip(names, folders, strict=True):
        if folder and folder not in number:
            raise DataError(f"{readable(name)}: {_unseen(folder, facts)}")
    return [number.get(folder) for folder in folders]
