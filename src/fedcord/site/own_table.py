"""A site's table with named columns, whose numbers wait for what all sites agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError, shown
from fedcord.data.dataset import Labels, Split
from fedcord.data.registry import TABLES, check_spec, reading
from fedcord.data.sources.labelled_rows import TableOptions, labelled_rows
from fedcord.data.sources.table_file import read_table
from fedcord.data.tables.cells import read_cells
from fedcord.data.tables.examine import examine
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.raw import RawTable
from fedcord.data.tables.schema import ColumnKind
from fedcord.data.tables.sums import TableSums
from fedcord.data.tables.survey import TableForm, own_kinds, site_sums, unfit


@dataclass(frozen=True)
class OwnTable:
    """All rows of a file, and what its columns are for.

    Attributes:
        raw: the rows.
        options: which columns are what.
        class_names: of the target.
        train: places of the rows to train on, as inputs [n], and their labels.
        test: likewise, those to test on.
    """

    raw: RawTable
    options: TableOptions
    class_names: tuple[str, ...]
    train: Split
    test: Split

    @cached_property
    def form(self) -> TableForm:
        """What may be told of it before anything is agreed."""
        options = self.options
        kinds = own_kinds(
            self.raw,
            without=[name for name in self.raw.names if options.role(name) != "input"],
            categorical=options.categorical,
            missing=options.missing,
        )
        return TableForm(options.target, kinds, options.missing, options.row_id)

    def problems(self) -> list[str]:
        """What is wrong with its columns and what to do, in words that are for the site alone."""
        options = self.options
        found = [
            examine(
                self.raw, name, categorical=name in options.categorical, missing=options.missing
            )
            for name in self.form.kinds
        ]
        return [column.problem for column in found if column.problem]

    def sums(self, kinds: Mapping[str, ColumnKind], rows: Labels) -> TableSums:
        """What the site adds up over rows [n], columns read as these kinds."""
        problems = unfit(self.raw, self.form, kinds)
        if problems:
            raise DataError("; ".join(problems) + ".")
        return site_sums(self.raw, kinds, self.options.missing, rows)

    def differences(self, preparation: TablePreparation) -> list[str]:
        """In what the table differs from what was agreed, without a word of what it holds."""
        kinds = {column.name: column.kind for column in preparation.columns}
        found = unfit(self.raw, self.form, kinds)
        if self.options.target != preparation.target:
            found.append(
                f"it predicts column {shown(self.options.target)}, and the study "
                f"{shown(preparation.target)}"
            )
        if set(self.options.missing) != set(preparation.missing):
            found.append(
                "other words stand for missing cells there; name under ?missing= "
                + (", ".join(map(shown, preparation.missing)) or "none")
            )
        return found

    def vectors(self, preparation: TablePreparation) -> NDArray[np.float32]:
        """All rows as a network reads them, [N, D]."""
        kinds = {column.name: column.kind for column in preparation.columns}
        columns, values = read_cells(self.raw, kinds, preparation.missing)
        return preparation.inputs(columns, values, self.raw.first_row)


def read_own_table(spec: str) -> OwnTable | None:
    """A site's table; None for data that is none."""
    if spec.partition(":")[0] not in TABLES:
        return None
    parsed, _ = check_spec(spec)
    with reading(spec):
        source = read_table(parsed)
    options = TableOptions.of(source.spec, source.raw.names)
    if any(options.role(name) == "input" for name in source.pictures):
        return None
    labelled = labelled_rows(source.spec, source.raw, options, least_classes=1)
    train, test = labelled.splits(labelled.rows, source.num_training)
    return OwnTable(source.raw, options, labelled.class_names, train, test)
