"""`fedcord inspect`: pictures and numbers of the heterogeneity itself."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_data_flags, add_output_flags, path, settings_from
from fedcord.cli.table_columns import columns_of, show_columns
from fedcord.core.errors import ConfigError, shown

if TYPE_CHECKING:
    from rich.text import Text

    from fedcord.data.dataset import Dataset
    from fedcord.data.heterogeneity import HeterogeneityReport
    from fedcord.data.partition import Partition

MAX_SHOWN = 40
"""Clients printed in the terminal; the picture shows all."""
SHADES = " ░▒▓█"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("data", nargs="?", metavar="DATA", help="the data set, as after --dataset")
    add_data_flags(parser)
    parser.add_argument(
        "--out", type=path, metavar="FILE", help="also save the picture, as .png or .svg"
    )
    add_output_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """Load, partition, measure, show."""
    from fedcord.cli.progress import RunBars
    from fedcord.data.heterogeneity import measure_heterogeneity
    from fedcord.data.registry import load_dataset
    from fedcord.experiment.config import partition_of
    from fedcord.experiment.load import load_data_config

    picture = arguments.out
    if picture is not None and picture.suffix not in (".png", ".svg"):
        raise ConfigError(f"--out '{picture}': the picture's name must end in .png or .svg.")
    if arguments.data is not None:
        if arguments.dataset is not None:
            raise ConfigError(
                f"the data set is given twice, {shown(arguments.data)} and --dataset "
                f"{shown(arguments.dataset)}; give it once."
            )
        arguments.dataset = arguments.data
    config = load_data_config(settings_from(arguments))
    with RunBars(hidden=arguments.json or arguments.quiet) as bars:
        bars.loading(config.dataset)
        columns = columns_of(config.dataset)
    if columns is not None and not arguments.json:
        show_columns(columns)
    if columns is not None and not columns.has_target:
        if arguments.json:
            sys.stdout.write(json.dumps({"dataset": config.dataset, **columns.to_json()}) + "\n")
        return
    with RunBars(hidden=arguments.json or arguments.quiet) as bars:
        dataset = load_dataset(
            config.dataset,
            data_dirs=arguments.data_dir,
            allow_download=arguments.download,
            progress=bars.loading(config.dataset),
        )
    partition = partition_of(config, dataset)
    counts = partition.counts(dataset.train.labels, dataset.num_classes)
    report = measure_heterogeneity(counts, partition.client_names, dataset.class_names)
    if picture is not None:
        from fedcord.report.canvas import save_figure
        from fedcord.report.heatmap import heatmap_figure

        title = f"{dataset.name}, {partition.spec}, seed {config.seed}"
        figure = heatmap_figure(counts, dataset.class_names, title, partition.client_names)
        save_figure(figure, picture)
    if arguments.json:
        values = {
            "dataset": dataset.name,
            "partition": partition.spec,
            "partition_hash": partition.hash,
            "seed": config.seed,
            "client_names": list(partition.client_names),
            "class_names": list(dataset.class_names),
            "counts": counts.tolist(),
            "picture": None if picture is None else str(picture),
            "notes": list(dataset.notes),
            **({} if columns is None else columns.to_json()),
            **report.to_json(),
        }
        sys.stdout.write(json.dumps(values) + "\n")
        return
    _show(dataset, partition, report, picture)


def _show(
    dataset: Dataset, partition: Partition, report: HeterogeneityReport, picture: Path | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    counts = partition.counts(dataset.train.labels, dataset.num_classes)
    table = Table(
        title=f"{dataset.name} over {report.num_clients} clients, {partition.spec}",
        caption="darker = more examples of the class; EMD and JS: distance to all data together",
        box=None,
        pad_edge=False,
    )
    for name in ("client", "size", "classes", "entropy", "EMD", "JS"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(_class_header(report.num_classes), no_wrap=True)
    largest = max(int(counts.max()), 1)
    names = partition.client_names or [str(number) for number in range(report.num_clients)]
    for number, client in list(enumerate(report.clients))[:MAX_SHOWN]:
        table.add_row(
            Text(names[number]),  # a name may hold square brackets, which are not ours
            f"{client.size:,}",
            str(client.num_classes),
            f"{client.entropy_bits:.2f}",
            "–" if client.earth_movers is None else f"{client.earth_movers:.2f}",
            "–" if client.jensen_shannon is None else f"{client.jensen_shannon:.2f}",
            _shades(counts[number].tolist(), largest),
        )
    console.print(table)
    if report.num_clients > MAX_SHOWN:
        console.print(f"… and {report.num_clients - MAX_SHOWN} more clients")
    console.print(
        f"\nmean entropy {report.mean_entropy_bits:.2f} bits "
        f"({report.mean_effective_classes:.1f} effective classes of {report.num_classes}), "
        f"mean EMD {report.mean_earth_movers:.2f}, mean JS {report.mean_jensen_shannon:.2f}, "
        f"between clients JS {report.pairwise_jensen_shannon:.2f}, "
        f"size Gini {report.size_gini:.2f}"
    )
    if _is_named(dataset.class_names):
        known = ", ".join(f"{c} {name}" for c, name in enumerate(dataset.class_names[:MAX_SHOWN]))
        more = report.num_classes - MAX_SHOWN
        console.print(Text(f"classes: {known}{f' and {more} more' if more > 0 else ''}"))
    for line in (*dataset.notes, *report.warnings):
        console.print(Text.assemble(("note", "yellow"), f" {line}"))
    if picture is not None:
        console.print(f"picture: {picture}")


def _is_named(classes: tuple[str, ...]) -> bool:
    """Whether classes are called anything but their numbers."""
    return classes != tuple(str(c) for c in range(len(classes)))


def _class_header(num_classes: int) -> str:
    return "".join(str(c % 10) for c in range(num_classes)) if num_classes <= 60 else "classes"


def _shades(counts: list[int], largest: int) -> Text:
    """A row of the heat map; any example at all leaves a mark."""
    from rich.text import Text

    if len(counts) > 60:
        return Text(f"{sum(c > 0 for c in counts)} of {len(counts)}")
    steps = len(SHADES) - 1
    marks = [0 if c == 0 else max(1, round(steps * (c / largest) ** 0.5)) for c in counts]
    return Text("".join(SHADES[m] for m in marks), style="cyan")
