"""Predictions at a site, offline: a row for every example, with the class and all scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import ConfigError, DataError, unknown_name
from fedcord.core.names import readable
from fedcord.data.dataset import Array
from fedcord.data.facts import DataFacts
from fedcord.data.registry import TABLES, check_spec, reading
from fedcord.data.sources.npz_file import read_inputs
from fedcord.data.sources.table_file import read_table
from fedcord.data.spec import DatasetSpec
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.rows import prepare_rows
from fedcord.site.kept_model import KeptModel
from fedcord.site.site_file import SiteFile


def write_predictions(
    model: KeptModel,
    site: SiteFile,
    data: str,
    out: Path,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[int, tuple[str, ...]]:
    """Write a CSV file with `id`, `class` and a score for each class.

    Args:
        model: from `find_model`.
        site: where it lies.
        data: `npz:PATH` with `x`, and an `id` for each example if wanted; for a model that has
            learnt of named columns, a table that has them.
        out: the file to write.
        on_done: (done, to do), for progress.

    Returns:
        How many rows there are, and what of the examples was not used, in words.
    """
    inputs, ids, notes = _examples(model.facts, data)
    names, text = model.facts.class_names, io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", "class", *names])
    done = 0
    for scores in model.scores(inputs, site, on_done):
        for values, best in zip(scores.tolist(), scores.argmax(dim=1).tolist(), strict=True):
            who = str(done) if ids is None else readable(str(ids[done]))
            rows.writerow([who, names[best], *values])
            done += 1
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.getvalue())
    return done, notes


def _examples(
    facts: DataFacts, data: str
) -> tuple[Array, Sequence[object] | Array | None, tuple[str, ...]]:
    """What a network reads, what examples are called, and notes."""
    parsed, _ = check_spec(data)
    if facts.preparation is not None:
        return _rows(facts.preparation, parsed, data)
    if parsed.name != "npz":
        raise ConfigError(f"--data {data}: this model reads npz:PATH with an array x.")
    inputs, kind, ids = read_inputs(parsed)
    if kind != facts.kind:
        raise DataError(f"examples are of kind {kind}, the model takes {facts.kind}.")
    return inputs, ids, ()


def _rows(
    preparation: TablePreparation, parsed: DatasetSpec, data: str
) -> tuple[Array, Sequence[object], tuple[str, ...]]:
    """Rows of a table, prepared as those that the model has learnt of."""
    if parsed.name not in TABLES:
        raise ConfigError(
            f"--data {data}: this model reads tables with named columns, such as csv:PATH."
        )
    parsed.check_options(("id",))
    with reading(data):
        raw = read_table(parsed).raw
    row_id = parsed.text("id")
    if row_id and row_id not in raw.names:
        raise DataError(unknown_name(f"column of {parsed.path} for id", row_id, raw.names))
    made = prepare_rows(replace(preparation, row_id=row_id or preparation.row_id), raw)
    return made.inputs, made.names, made.notes
