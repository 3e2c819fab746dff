"""Which figures of the results pages `fedcord advise` may rest on, and where on them they stand.

A setting is one partition of one data set with its seeds; a table has a row per method. What is
left out, and why, stands beside the table. Everything else (algorithm, parameters, network, rounds)
is read from the study files, so that it cannot say something else than what was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

On = Literal["common", "own"]
FAILED = "(did not train, failed on 2 of 5 seeds)"
ALPHAS = ("0.05", "0.1", "0.5")
IMAGES = ("cifar10", "cifar100", "svhn", "ham10000", "fashion-mnist", "digits")


@dataclass(frozen=True)
class Setting:
    """One partition of one data set.

    Attributes:
        name: here and in the table.
        study: a file beside this one, or one of the named studies that ship with the package.
        seeds: that the page's figures are of.
        flags: with which a study file was run.
        part: of a named study, which has no flags.
    """

    name: str
    study: str
    seeds: range
    flags: Mapping[str, Any] = field(default_factory=dict)
    part: str = "all"


@dataclass(frozen=True)
class Score:
    """A column of accuracies in per cent, with or without an interval.

    `skip` is labels of rows that repeat another row there.
    """

    setting: str
    column: str | int
    on: On = "common"
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Versus:
    """A column of paired differences in points: of the row's method to `reference`.

    `sign` is −1 where the page has the reference minus the method. `p_column` is the p-value after
    Holm's correction, where the page has it for this very difference. `skip` is as in `Score`.
    """

    settings: tuple[str, ...]
    column: str | int
    reference: str
    sign: int = 1
    on: On = "common"
    p_column: str | None = None
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """The first table below a heading of a page.

    Attributes:
        labels: what the first column says, to the label in the study file, where it does not begin
            with that label itself; every other row must be in `skip`.
        skip: rows that are no evidence for today's version, or say nothing to a user who chooses.
    """

    page: str
    heading: str
    scores: tuple[Score, ...] = ()
    versus: tuple[Versus, ...] = ()
    bytes_column: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()


def _skews(data: str) -> tuple[str, ...]:
    return tuple(f"accord-main {data} {alpha}" for alpha in ALPHAS)


SETTINGS = (
    *(
        Setting(f"accord-main {data} {alpha}", "accord-main", range(10, 15), part=f"{data}-{alpha}")
        for data in IMAGES
        for alpha in ALPHAS
    ),
    Setting("accord-cifar10", "accord-cifar10", range(3)),
    *(
        Setting(f"accord-encoders {n}", "accord-encoders", range(3), part=f"clients-{n}")
        for n in (5, 20, 100)
    ),
    *(
        Setting(f"accord-mixed {part}", "accord-mixed", range(20, 25), part=part)
        for part in ("digits", "cifar10")
    ),
    Setting("accord-ablation", "accord-ablation", range(3)),
    Setting("accord-public", "accord-public", range(20, 25)),
    Setting("accord-controls", "accord-controls", range(20, 25), part="skewed"),
    Setting("accord-frontier", "accord-frontier", range(20, 25)),
    Setting("accord-resnet", "accord-resnet", range(90, 95)),
    Setting("analytic-mnist", "analytic-mnist", range(3)),
    Setting("analytic-cifar10", "analytic-cifar10", range(3)),
    Setting("analytic-personalisation 0.1", "analytic-personalisation-a01", range(3)),
    Setting("analytic-personalisation 0.5", "analytic-personalisation-a05", range(3)),
    Setting("fedhpro-cifar10 0.5", "fedhpro-cifar10", range(3)),
    Setting(
        "fedhpro-cifar10 longtail",
        "fedhpro-cifar10",
        range(3, 6),
        {"longtail": 100.0, "subset": 16000},
    ),
    Setting("fedhpro-cifar10 0.2", "fedhpro-cifar10", range(6, 9), {"partition": "nid1:0.2"}),
    Setting("fedhpro-domains digits", "fedhpro-digits-domains", range(3)),
    Setting("fedhpro-domains office", "fedhpro-office-caltech10", range(3)),
    *(
        Setting(f"{study} {alpha}", study, range(seeds), {"partition": f"dirichlet:{alpha}"})
        for study, seeds in (("flare-ladder", 3), ("flare-scale-free", 10))
        for alpha in ALPHAS[:2]
    ),
)

ACCURACY, POINTS, HOLM = "accuracy %", "minus accord, points", "p (Holm)"
PERSONAL = ("mixed-personal", "personal")
"""On the common test set nothing is personal: there they are accord, which has a row of its own."""
BYTES, OVER_STUDIES = "bytes, all clients", "all studies"
OLD_FENS = ("fens", "fens-no-holdout")
"""Measured with settings that are no longer the defaults, as the pages say."""
OLD_GMKD = ("fedgmkd+",)
"""Measured before a correction of the method, as the pages say."""

STEPS = (
    *(
        f"{step}-{server}"
        for step in ("drcl", "v7", "v9a", "v10-rescaled", "v12")
        for server in ("simple", "iffi")
    ),
    *("v7", "v7-matched", "flare-scale-free-strong"),
)
"""Steps on the way to FLARE, which nobody has to choose among."""

TABLES = (
    *(
        Table(
            "accord-main-small.md",
            f"## {data}-{alpha}",
            scores=(Score(f"accord-main {data} {alpha}", ACCURACY),),
            bytes_column="traffic",
        )
        for data in IMAGES
        for alpha in ALPHAS
    ),
    *(
        Table(
            "accord-main-small.md",
            f"### {data} against accord-deep",
            versus=(Versus(_skews(data), OVER_STUDIES, "accord-deep", p_column=HOLM),),
        )
        for data in IMAGES
    ),
    Table(
        "accord-main-small.md",
        "## All data sets against accord-deep",
        versus=(
            Versus(
                tuple(setting for data in IMAGES for setting in _skews(data)),
                OVER_STUDIES,
                "accord-deep",
                p_column=HOLM,
            ),
        ),
    ),
    Table(
        "accord-cifar10.md",
        "# accord on CIFAR-10, five clients of very different classes",
        scores=(Score("accord-cifar10", ACCURACY),),
        versus=(Versus(("accord-cifar10",), "accord minus it, points", "accord", sign=-1),),
        bytes_column=BYTES,
        skip=(*OLD_FENS, "accord-ce (version before, see below)"),
    ),
    *(
        Table(
            "accord-encoders.md",
            f"## {clients} clients",
            scores=(Score(f"accord-encoders {clients}", "size"),),
            versus=(Versus((f"accord-encoders {clients}",), "size − fafi", "fafi"),),
            bytes_column="bytes",
            labels={str(m): f"size-{m}" for m in (1, 2, 4, 8, 16)}
            | {"5 (all; run as M = 8)": "size-8"},
        )
        for clients in (5, 20, 100)
    ),
    *(
        Table(
            "accord-mixed-small.md",
            f"## {part}",
            scores=(
                Score(f"accord-mixed {part}", ACCURACY, skip=PERSONAL),
                Score(f"accord-mixed {part}", "clients %", "own"),
            ),
            versus=(
                Versus(
                    (f"accord-mixed {part}",), "to the best", best, p_column=HOLM, skip=PERSONAL
                ),
            ),
            bytes_column="traffic",
            skip=failed,
        )
        for part, best, failed in (
            ("digits", "mixed-deep", ()),
            # which did not train: what they can do is not known
            ("cifar10", "all-cnn", (f"fedtgp-mixed {FAILED}", f"fedsa-mixed {FAILED}")),
        )
    ),
    Table(
        "accord-ablation.md",
        "# What each part of accord is worth",
        scores=(Score("accord-ablation", ACCURACY),),
        versus=(Versus(("accord-ablation",), POINTS, "accord", p_column=HOLM),),
        bytes_column=BYTES,
        labels={
            "nothing (accord)": "accord",
            "joining mean of features": "mean",
            "random projection to 128": "projection-128",
            "encoders as float16": "float16",
            "as int8": "int8",
        },
        skip=(  # what a user who chooses a method is not asked about
            "local objective FLARE's",
            "cross-entropy (version before, see below)",
            "2,048 ReLU features on top",
            "2,048 Fourier features on top",
            "ridge λ = 0",
            "λ = 10",
            "classes weighed alike",
            "training on once",
            "twice",
        ),
    ),
    Table(
        "accord-ablation.md",
        "## Personal heads, on clients' own distributions",
        scores=(
            Score("accord-ablation", "clients' own test parts %", "own"),
            Score("accord-ablation", "common test set %", skip=PERSONAL),
        ),
        versus=(Versus(("accord-ablation",), "minus personal, points", "personal", on="own"),),
    ),
    Table(
        "accord-public-small.md",
        "## all",
        scores=(Score("accord-public", ACCURACY),),
        versus=(Versus(("accord-public",), "to the best", "accord-public", p_column=HOLM),),
        bytes_column="traffic",
    ),
    Table(
        "accord-controls-small.md",
        "## skewed",
        scores=(Score("accord-controls", ACCURACY),),
        versus=(Versus(("accord-controls",), "to the best", "accord-deep", p_column=HOLM),),
        bytes_column="traffic",
        skip=("one-random", "one-random-deep", "fedavg-wide"),  # no form that somebody would take
    ),
    Table(
        "accord-frontier-small.md",
        "## all",
        scores=(Score("accord-frontier", ACCURACY),),
        versus=(Versus(("accord-frontier",), "to the best", "both-poolings", p_column=HOLM),),
        bytes_column="traffic",
        skip=("accord", "deep", "fedavg"),  # the very runs of accord-controls
    ),
    Table(
        "accord-resnet-small.md",
        "## all",
        scores=(Score("accord-resnet", ACCURACY),),
        versus=(Versus(("accord-resnet",), "to the best", "accord-deep", p_column=HOLM),),
        bytes_column="traffic",
    ),
    *(
        Table(
            "analytic-layerwise.md",
            heading,
            scores=(
                Score(setting, "server's test set"),
                Score(setting, "clients' own test parts", "own"),
            ),
            versus=(Versus((setting,), "minus random filters", "random-filters", p_column=HOLM),),
            bytes_column="traffic",
            labels={
                "random filters": "random-filters",
                "fedacnnl (half random, half label codes)": "fedacnnl",
                "label codes alone": "label-codes",
            },
        )
        for heading, setting in (
            ("## MNIST", "analytic-mnist"),
            ("## CIFAR-10", "analytic-cifar10"),
        )
    ),
    *(
        Table(
            "analytic-personalisation.md",
            f"## Dirichlet {alpha}",
            scores=(
                Score(f"analytic-personalisation {alpha}", "clients' own test parts", "own"),
                Score(f"analytic-personalisation {alpha}", "server's test set"),
            ),
            versus=(
                Versus(
                    (f"analytic-personalisation {alpha}",),
                    "paired difference to local-ridge",
                    "local-ridge",
                    on="own",
                ),
            ),
            labels={
                "local-ridge (no exchange)": "local-ridge",
                "afl (one global model)": "afl",
                "pfedacnnl (pixels)": "pfedacnnl",
            },
        )
        for alpha in ("0.1", "0.5")
    ),
    Table(
        "fedhpro-cifar10.md",
        "## Against FedAvg",
        scores=tuple(
            Score(f"fedhpro-cifar10 {name}", column)
            for name, column in (("0.5", 1), ("longtail", 3), ("0.2", 5))
        ),
        versus=(
            *(
                Versus((f"fedhpro-cifar10 {name}",), column, "fedavg")
                for name, column in (("0.5", 2), ("longtail", 4), ("0.2", 6))
            ),
            Versus(
                tuple(f"fedhpro-cifar10 {name}" for name in ("0.5", "longtail", "0.2")),
                "all three",
                "fedavg",
                p_column=HOLM,
            ),
        ),
        skip=OLD_GMKD,
    ),
    *(
        Table(
            "fedhpro-domains.md",
            heading,
            scores=(Score(setting, "all test images"),),
            versus=(Versus((setting,), "minus fedavg, points", "fedavg", p_column=HOLM),),
            skip=OLD_GMKD,
        )
        for heading, setting in (
            ("## Digits: MNIST, USPS, SVHN, MNIST-M", "fedhpro-domains digits"),
            ("## Office-Caltech10", "fedhpro-domains office"),
        )
    ),
    *(
        Table(
            f"{study}.md",
            f"{marks} Dirichlet {alpha}",
            scores=(Score(f"{study} {alpha}", ACCURACY),),
            versus=(
                Versus(
                    (f"{study} {alpha}",),
                    f"minus {reference}, points",
                    reference,
                    p_column=HOLM,
                ),
            ),
            skip=STEPS,
        )
        for study, marks, reference in (
            ("flare-ladder", "###", "fafi-simple"),
            ("flare-scale-free", "##", "fafi"),
        )
        for alpha in ALPHAS[:2]
    ),
)

SAME_AS = {("accord-ablation", "alone"): "local"}
"""Run by switching off all that another method adds to local training, before that had a name."""
