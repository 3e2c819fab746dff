"""The one table of algorithms: a name, where its class is, and what it does.

Classes are named by their place and imported when used, so that listing them needs no PyTorch.
"""

from __future__ import annotations

import dataclasses
import importlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fedcord.algorithms.oneshot.ladder import FOR_USE, PRESETS
from fedcord.core.errors import ConfigError, shown, unknown_name


@dataclass(frozen=True)
class AlgorithmInfo:
    """One row of the table.

    Attributes:
        path: `module:Class`.
        summary: one line.
        family: averaging, optimisation, personal, bounds, prototype, oneshot, analytic or own.
        preset: parameter values this name stands for, as nested plain values.
        is_logged: whether it is a step of docs/algorithms/ladder.md kept to be reproduced, listed
            only on demand.
    """

    path: str
    summary: str
    family: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    is_logged: bool = False


HPRO_REFERENCE: Mapping[str, Any] = MappingProxyType(
    {
        "extraction": {"scale": "reference"},
        "matching": {"lr": 0.1, "metric": "coordinate", "classifier": "updated"},
        "objective": {"margin": "off", "contrast_reduction": "reference"},
    }
)
"""FedHPro as the authors' code computes it, its plain bugs corrected."""

HPRO_AVERAGED: Mapping[str, Any] = MappingProxyType({"source": "prototypes"})
"""FedHPro with class means instead of gradients, a mean instead of matching; nothing else."""

ALGORITHMS: Mapping[str, AlgorithmInfo] = MappingProxyType(
    {
        "fedavg": AlgorithmInfo(
            "fedcord.algorithms.averaging.fedavg:FedAvg",
            "clients train the global model, the server averages (McMahan et al. 2017)",
            "averaging",
        ),
        "fedprox": AlgorithmInfo(
            "fedcord.algorithms.averaging.fedprox:FedProx",
            "FedAvg with a pull towards the global model (Li et al. 2020)",
            "averaging",
        ),
        "dp-fedavg": AlgorithmInfo(
            "fedcord.algorithms.averaging.dp_fedavg:DPFedAvg",
            "FedAvg that hides whether a client took part (McMahan et al. 2018)",
            "averaging",
        ),
        "moon": AlgorithmInfo(
            "fedcord.algorithms.contrastive.moon:MOON",
            "FedAvg with features kept near the global model's (Li et al. 2021)",
            "averaging",
        ),
        "fedrcl": AlgorithmInfo(
            "fedcord.algorithms.contrastive.fedrcl:FedRCL",
            "FedAvg with supervised contrast at every stage (Seo et al. 2024)",
            "averaging",
        ),
        "centralised": AlgorithmInfo(
            "fedcord.algorithms.bounds.centralised:Centralised",
            "all data in one place: the ceiling, for simulations only",
            "bounds",
        ),
        "local": AlgorithmInfo(
            "fedcord.algorithms.bounds.local:Local",
            "every client its own network, nothing shared: the floor for personal models",
            "bounds",
        ),
        "scaffold": AlgorithmInfo(
            "fedcord.algorithms.optimisation.scaffold:SCAFFOLD",
            "FedAvg with steps corrected by control variates (Karimireddy et al. 2020)",
            "optimisation",
        ),
        "fednova": AlgorithmInfo(
            "fedcord.algorithms.optimisation.fednova:FedNova",
            "FedAvg in which more steps do not count more (Wang et al. 2020)",
            "optimisation",
        ),
        "feddyn": AlgorithmInfo(
            "fedcord.algorithms.optimisation.feddyn:FedDyn",
            "clients' losses regularised until their minima meet (Acar et al. 2021)",
            "optimisation",
        ),
        "fedlc": AlgorithmInfo(
            "fedcord.algorithms.optimisation.fedlc:FedLC",
            "FedAvg with scores calibrated by a client's classes (Zhang et al. 2022)",
            "optimisation",
        ),
        "feddisco": AlgorithmInfo(
            "fedcord.algorithms.optimisation.feddisco:FedDisco",
            "FedAvg in which unlike class shares count less (Ye et al. 2023)",
            "optimisation",
        ),
        **{
            name: AlgorithmInfo(
                "fedcord.algorithms.optimisation.fedopt:FedOpt", summary, "optimisation", preset
            )
            for name, summary, preset in (
                (
                    "fedavgm",
                    "FedAvg with momentum at the server (Hsu et al. 2019)",
                    {"rule": "momentum", "server_lr": 1.0},
                ),
                (
                    "fedadam",
                    "FedAvg with Adam at the server (Reddi et al. 2021)",
                    {"rule": "adam"},
                ),
                (
                    "fedyogi",
                    "FedAvg with Yogi at the server (Reddi et al. 2021)",
                    {"rule": "yogi"},
                ),
                (
                    "fedadagrad",
                    "FedAvg with Adagrad at the server (Reddi et al. 2021)",
                    {"rule": "adagrad", "momentum": 0.0},
                ),
            )
        },
        "exact-head": AlgorithmInfo(
            "fedcord.algorithms.averaging.exact_head:ExactHead",
            "any averaging method, its classifier replaced at the end by the exact ridge one",
            "averaging",
        ),
        "deep-head": AlgorithmInfo(
            "fedcord.algorithms.averaging.deep_head:DeepHead",
            "any averaging method, at the end accord's exact head on all stages of its network",
            "averaging",
            {"joint": {"layers": {"maps": "all"}}},
        ),
        "ccvr": AlgorithmInfo(
            "fedcord.algorithms.averaging.ccvr:CCVR",
            "any averaging method, its classifier calibrated on drawn features (Luo et al. 2021)",
            "averaging",
        ),
        "fed3r+ft": AlgorithmInfo(
            "fedcord.algorithms.averaging.fed3r_ft:Fed3RFineTuned",
            "the exact ridge classifier first, then fine-tuning by averaging (Fanì et al. 2024)",
            "averaging",
        ),
        **{
            name: AlgorithmInfo(f"fedcord.algorithms.personal.{place}", summary, "personal")
            for name, place, summary in (
                (
                    "fedper",
                    "fedper:FedPer",
                    "clients keep the last layers, others are averaged (Arivazhagan et al. 2019)",
                ),
                (
                    "fedrep",
                    "fedrep:FedRep",
                    "each client fits its head, then the common features (Collins et al. 2021)",
                ),
                (
                    "fedbabu",
                    "fedbabu:FedBABU",
                    "the body is federated under a fixed head, then fine-tuned (Oh et al. 2022)",
                ),
                (
                    "fedrod",
                    "fedrod:FedRoD",
                    "a balanced generic head and a personal one beside it (Chen and Chao 2022)",
                ),
                (
                    "ditto",
                    "ditto:Ditto",
                    "FedAvg, and own models pulled towards its model (Li et al. 2021)",
                ),
                (
                    "pfedme",
                    "pfedme:PFedMe",
                    "own models near references that are averaged (Dinh et al. 2020)",
                ),
                (
                    "per-fedavg",
                    "per_fedavg:PerFedAvg",
                    "a model from which one step adapts to a client (Fallah et al. 2020)",
                ),
                (
                    "fedbn",
                    "fedbn:FedBN",
                    "FedAvg with normalisation layers kept by clients (Li et al. 2021)",
                ),
            )
        },
        "fedhpro": AlgorithmInfo(
            "fedcord.algorithms.hyperprototype.fedhpro:FedHPro",
            "features contrasted with prototypes fitted to clients' gradients (Wang et al. 2026)",
            "prototype",
        ),
        "fedhpro-reference": AlgorithmInfo(
            "fedcord.algorithms.hyperprototype.fedhpro:FedHPro",
            "FedHPro as its public code computes it, plain bugs corrected",
            "prototype",
            HPRO_REFERENCE,
        ),
        "fedhpro-averaged": AlgorithmInfo(
            "fedcord.algorithms.hyperprototype.fedhpro:FedHPro",
            "FedHPro with class means in place of gradient matching: what matching must beat",
            "prototype",
            HPRO_AVERAGED,
        ),
        **{
            name + form: AlgorithmInfo(
                f"fedcord.algorithms.prototype.{name}:{cls}",
                summary + more,
                "prototype",
                {"exchange": exchange},
            )
            for name, cls, summary in (
                (
                    "fedproto",
                    "FedProto",
                    "mean features of classes are exchanged (Tan et al. 2022)",
                ),
                (
                    "fedtgp",
                    "FedTGP",
                    "prototypes trained to keep classes apart (Zhang et al. 2024)",
                ),
                ("fedsa", "FedSA", "features are drawn to fixed anchors (Zhou et al. 2025)"),
                ("fedgmkd", "FedGMKD", "prototypes and soft predictions (Zhang et al. 2024)"),
            )
            for form, exchange, more in (
                ("", "prototypes", ", models stay with clients"),
                ("+", "both", ", and models are averaged (†)"),
            )
        },
        **{
            name: AlgorithmInfo(
                "fedcord.algorithms.oneshot.oneshot:OneShot",
                preset.summary,
                "oneshot",
                preset.values,
                name not in FOR_USE,
            )
            for name, preset in PRESETS.items()
        },
        "accord": AlgorithmInfo(
            "fedcord.algorithms.accord.accord:Accord",
            "one-shot encoders of several clients under one exact head",
            "own",
        ),
        "accord-flare": AlgorithmInfo(
            "fedcord.algorithms.accord.accord:Accord",
            "accord whose clients train as FLARE's do",
            "own",
            {part: PRESETS["flare"].values[part] for part in ("anchors", "policy")},
        ),
        "accord-ce": AlgorithmInfo(
            "fedcord.algorithms.accord.accord:Accord",
            "accord whose clients train by cross-entropy alone",
            "own",
            {"objective": {"contrastive": "none", "prototype_contrast": False}},
        ),
        "accord-deep": AlgorithmInfo(
            "fedcord.algorithms.accord.accord:Accord",
            "accord whose head sees pooled maps of all stages beside the features",
            "own",
            {"joint": {"layers": {"maps": "all"}}},
        ),
        "accord-rounds": AlgorithmInfo(
            "fedcord.algorithms.accord.rounds:AccordRounds",
            "accord-deep with a network averaged over rounds among its encoders",
            "own",
            {"encoders": {"joint": {"layers": {"maps": "all"}}}},
        ),
        "accord-student": AlgorithmInfo(
            "fedcord.algorithms.accord.student:AccordStudent",
            "accord distilled into one network by federated averaging",
            "own",
        ),
        "afl": AlgorithmInfo(
            "fedcord.algorithms.analytic.afl:AFL",
            "one round of sums, one exact solve, the same for any partition (He et al. 2025)",
            "analytic",
        ),
        "afl-deep": AlgorithmInfo(
            "fedcord.algorithms.analytic.afl:AFL",
            "AFL on pooled maps of all stages of a network that nobody has trained",
            "analytic",
            {"features": {"source": "model", "expansion": "none", "layers": {"maps": "all"}}},
        ),
        "afl-aa": AlgorithmInfo(
            "fedcord.algorithms.analytic.afl_aa:AFLByModels",
            "AFL as published: local models joined by the absolute aggregation law",
            "analytic",
        ),
        "fed3r": AlgorithmInfo(
            "fedcord.algorithms.analytic.fed3r:Fed3R",
            "ridge regression on fixed features, classes of one length (Fanì et al. 2024)",
            "analytic",
        ),
        "fed3r-rf": AlgorithmInfo(
            "fedcord.algorithms.analytic.fed3r:Fed3R",
            "Fed3R on random Fourier features of a Gaussian kernel (Fanì et al. 2024)",
            "analytic",
            {"features": {"expansion": "rff", "unit": True, "width": 2048}},
        ),
        "fedncm": AlgorithmInfo(
            "fedcord.algorithms.analytic.fedncm:FedNCM",
            "the nearest class mean on fixed features, from one sum (Legate et al. 2023)",
            "analytic",
        ),
        "apfl": AlgorithmInfo(
            "fedcord.algorithms.analytic.apfl:APFL",
            "AFL with a closed-form refinement at every client",
            "analytic",
        ),
        "local-ridge": AlgorithmInfo(
            "fedcord.algorithms.analytic.local_ridge:LocalRidge",
            "every client its own ridge regression, nothing shared: what others must beat",
            "analytic",
        ),
        "deepafl": AlgorithmInfo(
            "fedcord.algorithms.analytic.deepafl:DeepAFL",
            "a deep residual network without gradients, one round of sums per block",
            "analytic",
        ),
        "safle": AlgorithmInfo(
            "fedcord.algorithms.analytic.safle:SAFLe",
            "tables of grouped thresholded features, solved from integer counts",
            "analytic",
        ),
        "fedacnnl": AlgorithmInfo(
            "fedcord.algorithms.analytic.fedacnnl:FedACnnL",
            "a convolutional network by least squares, one round per layer",
            "analytic",
        ),
        "pfedacnnl": AlgorithmInfo(
            "fedcord.algorithms.analytic.pfedacnnl:PFedACnnL",
            "fedacnnl with a last layer per group of clients, adapted to each client",
            "analytic",
        ),
        "fedhip": AlgorithmInfo(
            "fedcord.algorithms.analytic.fedhip:FedHiP",
            "a closed-form model per client that other clients' partition cannot change",
            "analytic",
        ),
        "fedavg-oneshot": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.fedavg_oneshot:FedAvgOneShot",
            "FedAvg with one round of long local training",
            "oneshot",
        ),
        "ensemble": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.ensemble:Ensemble",
            "the server keeps all models and averages their outputs (Guha et al. 2019)",
            "oneshot",
        ),
        "fens": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.fens:FENS",
            "models sent once, a small model on their scores trained on (Allouah et al. 2024)",
            "oneshot",
        ),
        "fedproto-oneshot": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.fedproto_oneshot:FedProtoOneShot",
            "nearest class mean, means sent once (after Tan et al. 2022)",
            "oneshot",
        ),
        "fedetf": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.fedetf:FedETF",
            "a fixed classifier with classes far apart (Li et al. 2023)",
            "oneshot",
        ),
        "otfusion": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.otfusion:OTFusion",
            "neurons are matched before models are averaged (Singh and Jaggi 2020)",
            "oneshot",
        ),
        "dense": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.dense:Dense",
            "a student learns from the ensemble on generated inputs (Zhang et al. 2022)",
            "oneshot",
        ),
        "feddf": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.feddf:FedDF",
            "the mean model learns from the ensemble on unlabelled inputs (Lin et al. 2020)",
            "oneshot",
        ),
        "co-boosting": AlgorithmInfo(
            "fedcord.algorithms.oneshot.baselines.coboosting:CoBoosting",
            "hard generated inputs and ensemble weights improve each other (Dai et al. 2024)",
            "oneshot",
        ),
    }
)


def first_of_class(name: str) -> str:
    """The first name of the table with the same class: the algorithm of which it is a form."""
    path = ALGORITHMS[name].path
    return next(other for other, info in ALGORITHMS.items() if info.path == path)


VERBS = ("aggregate", "client_update", "expected_update", "init", "predictor", "review", "traits")
"""What makes a class an algorithm."""


def is_algorithm(value: object) -> bool:
    """Whether `value` is an algorithm object, or the class of one."""
    return dataclasses.is_dataclass(value) and all(hasattr(value, verb) for verb in VERBS)


def algorithm_class(name: str) -> type[Any]:
    """The class behind a name of the table, or behind `module:Class` for a user's own.

    Raises:
        ConfigError: with the nearest known names, or with what is wrong with the path.
    """
    own = ":" in name
    if not own and name not in ALGORITHMS:
        raise ConfigError(unknown_name("algorithm", name, ALGORITHMS, "fedcord list algorithms"))
    module, _, attribute = (name if own else ALGORITHMS[name].path).partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        place = traceback.extract_tb(error.__traceback__)[-1]
        inside = "" if "importlib" in place.filename else f", {place.filename}:{place.lineno}"
        raise ConfigError(
            f"algorithm {shown(name)} cannot be imported "
            f"({type(error).__name__}: {error}{inside}); write module:Class, where the "
            "class stands at the top level of a module that Python finds: in the current folder, "
            "installed, or on PYTHONPATH."
        ) from error
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ConfigError(
            f"algorithm {shown(name)} is not a dataclass; see fedcord.core.contract for what an "
            "algorithm is."
        )
    missing = sorted(verb for verb in VERBS if not hasattr(cls, verb))
    if missing:
        raise ConfigError(
            f"algorithm {shown(name)} lacks {', '.join(missing)}; see fedcord.core.contract for "
            "what an algorithm is."
        )
    return cls


def algorithm_name(algorithm: Any) -> str:
    """`module:Class` of a user's own algorithm object; the inverse of `algorithm_class`."""
    return f"{type(algorithm).__module__}:{type(algorithm).__qualname__}"
