"""The data set as plain NumPy arrays, checked once so that nothing later has to doubt it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fedcord.core.errors import DataError
from fedcord.data.tables.schema import TableSchema

if TYPE_CHECKING:
    from fedcord.data.grey_range import GreyRange
    from fedcord.data.tables.preparation import TablePreparation
    from fedcord.data.vocabulary import Vocabulary

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
Kind = Literal["image", "vector", "text", "table"]
Scale = Literal["standard", "none"]

STANDARD: Scale = "standard"
SCALES: tuple[Scale, ...] = get_args(Scale)

_FORMS: Mapping[str, tuple[type[np.generic], int, str]] = {
    "image": (np.uint8, 4, "uint8 [N, C, H, W]"),
    "vector": (np.float32, 2, "float32 [N, D]"),
    "text": (np.int64, 2, "int64 [N, L]"),
    "table": (np.float64, 2, "float64 [N, C]"),
}
_ROWS_PER_CHECK = 65_536


@dataclass(frozen=True)
class Split:
    """Examples of one part (train or test) of a data set.

    Attributes:
        inputs: uint8 images [N, C, H, W], float32 vectors [N, D], int64 token ids [N, L], where
            token 0 is padding, or the columns of a table, float64 [N, C]: numbers, and codes of
            words, with NaN where a cell is missing.
        labels: int64 [N].
        groups: further int64 [N] arrays by name, such as the domain or the user a row comes from;
            partitioners can divide by them.
        files: for pictures of a folder, the name of each row's file; for a table, what its own
            column calls each row; empty when rows have none.
        rows: for a table, int64 [N], each row's number in its file, from 1; None for other data.
    """

    inputs: Array
    labels: Labels
    groups: Mapping[str, Labels] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    rows: Labels | None = None

    def __len__(self) -> int:
        return int(self.labels.shape[0])


@dataclass(frozen=True)
class Dataset:
    """A labelled data set with a training and a test part.

    Make one from your own arrays and pass it wherever a data set name is accepted. Everything is
    checked here, so that a wrong type, a label out of range or a NaN is reported by row before any
    training starts.

    Attributes:
        name: what reports call it.
        kind: what the inputs are.
        train: the examples clients share out.
        test: the held-out examples; may be empty.
        class_names: one per class; their number is the number of classes.
        mean: per channel, of inputs scaled to [0, 1]; empty for no normalisation.
        std: per channel, likewise.
        group_names: for a group of `train.groups`, what its numbers stand for.
        vocabulary: for text, the size of the token table (ids are below it).
        words: for text, the words behind token ids; None where only their numbers are known.
        grey: for images that had more than 8 bits of grey, which values are black and white.
        scale: for vectors, "standard" to bring every feature to mean 0 and standard deviation 1
            over the clients' training parts, or "none" to take them as they are.
        notes: what a loader found worth telling, in plain words.
        table: for a table, what its columns are.
        preparation: for vectors that were a table, how they were made of it.
    """

    name: str
    kind: Kind
    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    group_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vocabulary: int = 0
    scale: Scale = STANDARD
    notes: tuple[str, ...] = ()
    table: TableSchema | None = None
    preparation: TablePreparation | None = None
    words: Vocabulary | None = None
    grey: GreyRange | None = None

    def __post_init__(self) -> None:
        if self.kind not in _FORMS:
            raise self._error(f"kind is '{self.kind}'; allowed: {', '.join(get_args(Kind))}")
        if self.scale not in SCALES:
            raise self._error(f"scale is '{self.scale}'; allowed: {', '.join(SCALES)}")
        if not self.class_names:
            raise self._error("class_names is empty; give one name per class")
        self._check_split("train", self.train)
        self._check_split("test", self.test)
        if len(self.train) == 0:
            raise self._error("the training part has no examples; at least one is needed")
        if self.train.inputs.shape[1:] != self.test.inputs.shape[1:]:
            raise self._error(
                f"one training input has shape {list(self.train.inputs.shape[1:])}, one test input "
                f"{list(self.test.inputs.shape[1:])}; bring both to one shape"
            )
        self._check_normalisation()
        self._check_words()
        for group in self.group_names:
            if group not in self.train.groups:
                raise self._error(
                    f"group_names has '{group}', but train.groups has only "
                    f"{sorted(self.train.groups)}; add the array or drop the names"
                )

    def without_inputs(self, part: Literal["train", "test"]) -> Dataset:
        """The same labels, groups and names; inputs of the same shape that take no memory.

        For whoever has put the inputs of that part elsewhere: held twice, they would be most of a
        run's memory.
        """
        split = self.train if part == "train" else self.test
        nothing = np.broadcast_to(np.zeros((), dtype=split.inputs.dtype), split.inputs.shape)
        hollow = replace(split, inputs=nothing)
        return replace(self, train=hollow) if part == "train" else replace(self, test=hollow)

    @property
    def num_classes(self) -> int:
        """How many classes there are (C)."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without the leading N."""
        return tuple(int(size) for size in self.train.inputs.shape[1:])

    def _error(self, problem: str) -> DataError:
        return DataError(f"data set '{self.name}': {problem}.")

    def _check_split(self, part: str, split: Split) -> None:
        dtype, rank, form = _FORMS[self.kind]
        inputs = split.inputs
        if not isinstance(inputs, np.ndarray):
            raise self._error(f"{part} inputs are {type(inputs).__name__}; pass a NumPy array")
        if inputs.dtype != dtype or inputs.ndim != rank or 0 in inputs.shape[1:]:
            raise self._error(
                f"{part} inputs are {inputs.dtype} {list(inputs.shape)}; "
                f"kind '{self.kind}' needs {form} with no empty axis after N"
            )
        self._check_index(f"{part} labels", split.labels, len(inputs), self.num_classes, "classes")
        for group, values in split.groups.items():
            names = self.group_names.get(group)
            limit = len(names) if names is not None else None
            self._check_index(f"{part} group '{group}'", values, len(inputs), limit, "names")
        if len(split.files) not in (0, len(inputs)):
            raise self._error(
                f"{part} has {len(split.files)} file names but {len(inputs)} inputs; give one each "
                "or none"
            )
        if self.kind == "vector":
            self._check_finite(part, inputs)
        if self.kind == "table":
            self._check_table(part, split)
        if self.kind == "text" and inputs.size:
            low, high = int(inputs.min()), int(inputs.max())
            if low < 0 or high >= self.vocabulary:
                raise self._error(
                    f"{part} token ids run from {low} to {high}; with vocabulary="
                    f"{self.vocabulary} they must be in 0..{self.vocabulary - 1} (0 is padding)"
                )

    def _check_index(self, what: str, values: Array, rows: int, limit: int | None, of: str) -> None:
        """Whole numbers, one per row, from 0 up to `limit` exclusive."""
        if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
            found = (
                f"{values.dtype} {list(values.shape)}"
                if isinstance(values, np.ndarray)
                else type(values).__name__
            )
            raise self._error(f"{what} are {found}; an int64 array [N] is needed")
        if len(values) != rows:
            raise self._error(f"{what} have {len(values)} rows but the inputs have {rows}")
        wrong = values < 0 if limit is None else (values < 0) | (values >= limit)
        if wrong.any():
            row = int(np.argmax(wrong))
            allowed = "0 or more" if limit is None else f"0..{limit - 1} ({limit} {of})"
            raise self._error(f"{what} contain {int(values[row])} in row {row}; allowed: {allowed}")

    def _check_finite(self, part: str, inputs: Array) -> None:
        # in blocks: a mask of a million rows at once would cost as much memory as the data
        for start in range(0, len(inputs), _ROWS_PER_CHECK):
            finite = np.isfinite(inputs[start : start + _ROWS_PER_CHECK]).all(axis=1)
            if not finite.all():
                row = start + int(np.argmin(finite))
                raise self._error(
                    f"{part} inputs hold NaN or infinity, first in row {row}; "
                    "clean or impute the data before loading it"
                )

    def _check_table(self, part: str, split: Split) -> None:
        columns = self.table.columns if self.table is not None else ()
        if len(columns) != split.inputs.shape[1]:
            raise self._error(
                f"{part} inputs have {split.inputs.shape[1]} columns, but table describes "
                f"{len(columns)}; give a TableSchema with one entry per column"
            )
        for place, column in enumerate(columns):
            cells = split.inputs[:, place]
            limit = len(column.words) if column.kind == "categorical" else np.inf
            low = 0 if column.kind == "categorical" else -np.inf
            wrong = (cells < low) | (cells >= limit) | np.isneginf(cells)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise self._error(
                    f"{part} column '{column.name}' holds {cells[row]:g} in row {row}; allowed are "
                    "finite numbers, NaN for a missing cell, and for words their places in words"
                )

    def _check_words(self) -> None:
        if self.words is None:
            return
        given = self.kind, self.vocabulary, self.input_shape
        if given != ("text", self.words.size, (self.words.length,)):
            raise self._error(
                f"words are {self.words.size} numbers for texts of {self.words.length}, but the "
                f"data is {self.kind} {list(self.input_shape)} with vocabulary={self.vocabulary}; "
                "give the words that the token ids were made by"
            )

    def _check_normalisation(self) -> None:
        if not self.mean and not self.std:
            return
        channels = self.input_shape[0] if self.kind == "image" else 0
        if len(self.mean) != channels or len(self.std) != channels:
            raise self._error(
                f"mean has {len(self.mean)} and std {len(self.std)} values; images with {channels} "
                "channels need one of each per channel, and other kinds none"
            )
        if not np.isfinite((*self.mean, *self.std)).all() or min(self.std) <= 0:
            raise self._error(
                f"mean {self.mean} and std {self.std} must be finite, and std greater than 0"
            )
