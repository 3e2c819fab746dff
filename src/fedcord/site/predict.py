"""Predictions at a site, offline: a row for every example, with the class and all scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.names import readable
from fedcord.data.registry import check_spec
from fedcord.data.sources.npz_file import read_inputs
from fedcord.site.kept_model import KeptModel
from fedcord.site.site_file import SiteFile


def write_predictions(
    model: KeptModel,
    site: SiteFile,
    data: str,
    out: Path,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write a CSV file with `id`, `class` and a score for each class, and return how many rows.

    Args:
        model: from `find_model`.
        site: where it lies.
        data: `npz:PATH` with `x`, and an `id` for each example if wanted.
        out: the file to write.
        on_done: (done, to do), for progress.
    """
    parsed, _ = check_spec(data)
    if parsed.name != "npz":
        raise ConfigError(f"--data {data}: predictions read npz:PATH with an array x.")
    inputs, kind, ids = read_inputs(parsed)
    if kind != model.facts.kind:
        raise DataError(f"examples are of kind {kind}, the model takes {model.facts.kind}.")
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
    return done
