"""How each registered algorithm is set up for the tiny tasks, and what it promises there.

A new algorithm needs a row only where the defaults do not suit it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.accord.selection import Selection
from fedcord.algorithms.accord.student import Student
from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.afl_aa import AFLByModels
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.fed3r import Fed3R
from fedcord.algorithms.analytic.layerwise import Layers
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.contrastive.fedrcl import FedRCL
from fedcord.algorithms.contrastive.moon import MOON
from fedcord.algorithms.hyperprototype.fedhpro import FedHPro
from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.algorithms.hyperprototype.retraining import Retraining
from fedcord.algorithms.kit.client_privacy import ClientPrivacy
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.distillation import Distillation
from fedcord.algorithms.oneshot.baselines.synthesis import Synthesis
from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.oneshot import TARGET, OneShot
from fedcord.algorithms.oneshot.policy import Policy
from fedcord.algorithms.optimisation.feddisco import FedDisco
from fedcord.algorithms.optimisation.fedlc import FedLC
from fedcord.algorithms.optimisation.fednova import FedNova
from fedcord.algorithms.optimisation.fedopt import FedOpt
from fedcord.algorithms.personal.ditto import Ditto
from fedcord.algorithms.personal.fedper import FedPer
from fedcord.algorithms.personal.per_fedavg import PerFedAvg
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.checks.compare import difference
from fedcord.checks.expectations import Expectations, Identity, Limit
from fedcord.core.contract import Algorithm, ServerState, Update
from fedcord.core.params import build
from fedcord.core.tensors import select

QUICK = LocalSGD(batch_size=8, lr=0.1)
"""Local training that learns a tiny task in a few rounds; used wherever there is a `local`."""

LONG = LocalSGD(epochs=8, batch_size=8, lr=0.1)
"""Local training that learns a tiny task in the only round of a one-shot method."""

FEW_INPUTS = Synthesis(steps=2, batch_size=16, latent_dim=8, width=4)
"""Generated inputs in milliseconds."""

HEAD_START = Distillation(start="average", lr=0.01)
"""A student that starts from the clients' mean and so needs few steps."""

SHALLOW = Layers(channels=(8,), kernel=3)
"""One hidden layer, which is enough for the tiny tasks."""

NARROW = FeatureMap(width=24)
"""Few random features, which are enough for the tiny tasks."""


FEW_VECTORS = Retraining(vectors=10, matching_steps=20, matching_lr=1.0, epochs=20, lr=0.1)
"""A classifier re-trained in milliseconds."""


STATISTICS = ("model.*running*",)
"""What batch normalisation counts, among the tensors of a model."""


@dataclass(frozen=True)
class Row:
    """What is special about one algorithm.

    Attributes:
        params: values beside its preset.
        expectations: made when asked for, since limits hold algorithms.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    expectations: Callable[[], Expectations] = Expectations


def _fedprox() -> Expectations:
    limit = Limit(
        "proximal_weight = 0 is FedAvg",
        FedProx(proximal_weight=0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=FedProx(proximal_weight=1.0, local=QUICK),
    )
    return Expectations(is_random=True, limits=(limit,))


def _scaffold() -> Expectations:
    # in the first round, the client's control variate is how it moved the server's
    return Expectations(is_random=True, memory_may_be_sent=("control.*",))


def _fednova() -> Expectations:
    equal = dataclasses.replace(QUICK, steps=3)
    limit = Limit("equal steps are FedAvg", FedNova(equal), FedAvg(equal), unlike=FedNova(QUICK))
    return Expectations(is_random=True, limits=(limit,))


def _fedopt() -> Expectations:
    limit = Limit(
        "momentum = 0 is FedAvg",
        FedOpt("momentum", 1.0, 0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=FedOpt("momentum", 1.0, 0.9, local=QUICK),
    )
    # the server goes further than the mean, and its velocity is a weight that started at zero
    sent = ("first.*norm?.*",)
    return Expectations(is_random=True, identity=None, limits=(limit,), private_may_be_sent=sent)


def _feddyn() -> Expectations:
    # the server goes further than the mean; a drift is a weight that started at zero
    sent = ("drift.*norm?.*",)
    return Expectations(is_random=True, identity=None, memory_may_be_sent=sent)


def _fedlc() -> Expectations:
    alone = dataclasses.replace(QUICK, clip=1e9)  # FedAvg too trains one client at a time
    limit = Limit(
        "calibration = 0 is FedAvg", FedLC(0.0, alone), FedAvg(alone), unlike=FedLC(1.0, alone)
    )
    return Expectations(is_random=True, limits=(limit,))


def _feddisco() -> Expectations:
    limit = Limit(
        "discrepancy_weight = offset = 0 is FedAvg",
        FedDisco(0.0, 0.0, QUICK),
        FedAvg(local=QUICK),
        unlike=FedDisco(0.5, 0.1, QUICK),
    )
    return Expectations(is_random=True, limits=(limit,))


def _moon() -> Expectations:
    limit = Limit(
        "contrast_weight = 0 is FedAvg",
        MOON(contrast_weight=0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=MOON(contrast_weight=1.0, local=QUICK),
    )
    # what a client keeps is the model it sent
    return Expectations(is_random=True, limits=(limit,), memory_may_be_sent=("previous.*",))


def _fedrcl() -> Expectations:
    limit = Limit(
        "both weights 0 is FedAvg",
        FedRCL(contrast_weight=0.0, penalty_weight=0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=FedRCL(contrast_weight=0.0, penalty_weight=1.0, local=QUICK),
    )
    return Expectations(is_random=True, limits=(limit,))


def _fedhpro() -> Expectations:
    off = FedHPro(
        objective=HyperObjective(contrast_weight=0.0, alignment_weight=0.0),
        retraining=Retraining(enabled=False),
        local=QUICK,
    )
    limit = Limit(
        "without its losses and re-training it is FedAvg",
        off,
        FedAvg(local=QUICK),
        unlike=dataclasses.replace(off, objective=HyperObjective(alignment_weight=0.0)),
        tensors="model",
    )
    # the re-trained classifier is not the one a client sent
    return Expectations(is_random=True, identity=None, limits=(limit,))


def _fedper() -> Expectations:
    limit = Limit(
        "personal_layers = 0 averages as FedAvg",
        FedPer(personal_layers=0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=FedPer(local=QUICK),
    )
    return dataclasses.replace(_own_heads(), limits=(limit,))


def _own_heads() -> Expectations:
    # of a class that a client lacks its head knows nothing
    return Expectations(is_random=True, learns_with="clients")


def _ditto() -> Expectations:
    limit = Limit("its global model is FedAvg's", Ditto(local=QUICK), FedAvg(local=QUICK))
    # after one step from the same start both models have seen the same
    return Expectations(is_random=True, limits=(limit,), memory_may_be_sent=STATISTICS)


def _pfedme() -> Expectations:
    # the client's own model has the statistics of the reference that is sent
    return Expectations(is_random=True, memory_may_be_sent=STATISTICS)


def _per_fedavg() -> Expectations:
    limit = Limit(
        "adaptation_lr = 0 is FedAvg",
        PerFedAvg(adaptation_lr=0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=PerFedAvg(local=QUICK),
    )
    return Expectations(is_random=True, limits=(limit,))


def _afl_aa() -> Expectations:
    by_models = AFLByModels(client_ridge=0.5, remove_ridge=False, features=NARROW)
    limit = Limit(
        "without removing the four clients' ridges it is AFL with their sum",
        by_models,
        AFL(ridge=2.0, features=NARROW),
        unlike=AFLByModels(client_ridge=0.5, features=NARROW),
        tensors="head.weight",
        tolerance=1e-8,
    )
    return Expectations(is_random=True, limits=(limit,))


def _fed3r() -> Expectations:
    limit = Limit(
        "without scaling it is AFL with the same ridge",
        Fed3R(ridge=0.3, normalise=False, features=NARROW),
        AFL(ridge=0.3, features=NARROW),
        unlike=Fed3R(ridge=0.3, features=NARROW),
    )
    return Expectations(is_random=True, limits=(limit,))


def _averaged_head() -> Expectations:
    # the classifier is not one that a client sent
    return Expectations(is_random=True, identity=None)


def _student() -> Expectations:
    return Expectations(is_random=True, learns_at_least=0.6)


def _random() -> Expectations:
    return Expectations(is_random=True)


def _kept_as(prefix: str) -> Identity:
    """One client alone: the model under `prefix` in the result is the one it sent."""

    def identity(before: ServerState, update: Update, after: ServerState) -> str | None:
        return difference(select(after.result, prefix), select(update.tensors, "model"))

    return identity


def _one_shot(prefix: str | None = None, learns: float = 0.8) -> Callable[[], Expectations]:
    identity = None if prefix is None else _kept_as(prefix)
    return lambda: Expectations(is_random=True, identity=identity, learns_at_least=learns)


def _preset(name: str) -> Row:
    """A preset of the one-shot ladder, cut to a few steps."""
    method = _short(name)
    params: dict[str, Any] = {"local": method.local, "checkpoints": 2}
    if method.server.kind == "trainable_protos":  # the default learning rate is made for more steps
        params["server"] = dataclasses.replace(
            method.server, training=dataclasses.replace(method.server.training, lr=0.3, epochs=4)
        )
    if method.server.kind == "dare":  # few steps make little that could do without its half
        params["server"] = dataclasses.replace(method.server, drop=0.1)
    return Row(params, lambda: _preset_expectations(name))


def _short(name: str) -> OneShot:
    method = build(OneShot, PRESETS[name].values)
    local = dataclasses.replace(method.local, epochs=5, batch_size=64, lr=0.3)
    if method.server.kind != "feature_ensemble" or method.objective.feature_bank:
        local = dataclasses.replace(local, epochs=7, batch_size=16)  # these learn more slowly
    return dataclasses.replace(method, local=local, checkpoints=2)


def _preset_expectations(name: str) -> Expectations:
    def nothing_flows_back(before: ServerState, update: Update, after: ServerState) -> str | None:
        fed_back = {TARGET} if name == "v9b-feedback" else set()
        kept = {n: t for n, t in after.shared.items() if n not in fed_back}
        return difference(kept, {n: t for n, t in before.shared.items() if n not in fed_back})

    method = _short(name)
    limits: tuple[Limit, ...] = ()
    if name == "v7":
        off = dataclasses.replace(method, policy=Policy("anneal", weight=0.0))
        limits = (Limit("policy.weight = 0 is FAFI", off, _short("fafi"), unlike=method),)
    if name == "flare":
        plain = dataclasses.replace(method.policy, schedule="constant", lambda_max=0.0)
        steady = dataclasses.replace(method, policy=plain)
        limit = "without schedule and valve it is v10-rescaled"
        limits = (Limit(limit, steady, _short("v10-rescaled"), unlike=method),)
    return Expectations(
        is_random=True,
        identity=nothing_flows_back,
        limits=limits,
        memory_may_be_sent=(
            "model.*",
            "proto.weight",
        ),  # a probe shows what the client goes on from
    )


PROTOTYPES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = MappingProxyType(
    {
        "fedproto": ({}, {"prototype_weight": 0.0}),
        "fedtgp": ({"server_epochs": 30, "server_lr": 0.1}, {"prototype_weight": 0.0}),
        "fedsa": (
            {"anchor_weight": 1.0},
            {"anchor_weight": 0.0, "contrast_weight": 0.0, "calibration_weight": 0.0},
        ),
        "fedgmkd": (
            {},
            {
                "distillation_weight": 0.0,
                "prototype_weight": 0.0,
                "model_strength": 0.0,
                "model_offset": 0.0,
            },
        ),
    }
)
"""Settings of prototype methods, and those with which the averaged form is FedAvg."""


def _averaged_prototypes(name: str) -> Expectations:
    params, off = PROTOTYPES[name]
    method = dataclasses.replace(
        build(algorithm_class(name), {"exchange": "both", **params}), local=QUICK
    )
    limit = Limit(
        f"without its terms {name} is FedAvg",
        dataclasses.replace(method, **off),
        FedAvg(local=QUICK),
        unlike=method,
        tensors="model.",
    )
    return Expectations(is_random=True, limits=(limit,))


def _prototype_rows() -> Iterator[tuple[str, Row]]:
    for name, (params, _) in PROTOTYPES.items():
        yield name, Row(params, _own_models)
        yield f"{name}+", Row(params, functools.partial(_averaged_prototypes, name))


def _own_models() -> Expectations:
    # a client without a class can know it by the others' prototype only
    return Expectations(is_random=True, learns_at_least=0.6)


ENCODERS = {
    "local": LocalTraining(epochs=2, batch_size=32, lr=0.1),
    "selection": Selection(max_encoders=2),
}
"""Settings of accord: encoders in milliseconds, and clients that send none."""

TEACHER = Accord(**ENCODERS)  # type: ignore[arg-type]
"""The same as the teacher of a student."""

TAUGHT = {"local": LONG, "synthesis": FEW_INPUTS, "distillation": HEAD_START}
"""Settings of methods whose server teaches a student."""

ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **{name: _preset(name) for name in PRESETS},
        **dict(_prototype_rows()),
        "accord": Row({**ENCODERS, "refinements": 1, "refine": QUICK, "personal": True}, _random),
        "accord-ce": Row(ENCODERS, _random),
        "accord-deep": Row({**ENCODERS, "refinements": 1, "refine": QUICK}, _random),
        "accord-flare": Row(ENCODERS, _random),
        "accord-rounds": Row(
            {"rounds": 2, "inner": FedAvg(QUICK), "tuning": QUICK, "encoders": TEACHER},
            _averaged_head,
        ),
        "accord-student": Row(
            {"teacher": TEACHER, "student": Student(rounds=2, free_rounds=1)}, _student
        ),
        "afl": Row({"features": NARROW}, _random),
        "afl-deep": Row({}, _random),
        "afl-aa": Row({"features": NARROW}, _afl_aa),
        "apfl": Row({"features": NARROW}, _random),
        "ccvr": Row({"inner": FedAvg(QUICK), "virtual": 50, "epochs": 5}, _averaged_head),
        "deep-head": Row({"inner": FedAvg(QUICK)}, _averaged_head),
        "exact-head": Row({"inner": FedAvg(QUICK)}, _averaged_head),
        "fed3r": Row({"features": NARROW}, _fed3r),
        "fed3r-rf": Row({"features": FeatureMap(expansion="rff", width=24)}, _random),
        "fed3r+ft": Row({"inner": FedAvg(QUICK)}, _averaged_head),
        "fedncm": Row(
            {"features": FeatureMap(expansion="none", unit=False, bias=False)},
            lambda: Expectations(is_random=False),
        ),
        "deepafl": Row({"features": NARROW, "blocks": 2, "width": 16}, _random),
        "fedacnnl": Row({"layers": SHALLOW}, _random),
        "co-boosting": Row({**TAUGHT, "epochs": 2}, _one_shot(learns=0.6)),
        "dp-fedavg": Row({"privacy": ClientPrivacy(clip=5.0, noise=0.02)}, _random),
        "dense": Row({**TAUGHT, "epochs": 2}, _one_shot(learns=0.6)),
        "ensemble": Row({"local": LONG}, _one_shot()),
        "fedavg": Row(expectations=_random),
        "centralised": Row(expectations=_random),
        "local": Row(expectations=lambda: Expectations(is_random=True, learns_with="clients")),
        "scaffold": Row(expectations=_scaffold),
        "fednova": Row(expectations=_fednova),
        "feddyn": Row(expectations=_feddyn),
        "fedlc": Row(expectations=_fedlc),
        "feddisco": Row(expectations=_feddisco),
        "fedavgm": Row(expectations=_fedopt),
        "fedadam": Row(expectations=_fedopt),
        "fedyogi": Row(expectations=_fedopt),
        "fedadagrad": Row(expectations=_fedopt),
        "fedavg-oneshot": Row({"local": LONG}, _one_shot("fused")),
        "feddf": Row({**TAUGHT, "steps": 5, "proxy_size": 32}, _one_shot(learns=0.6)),
        "fedetf": Row({"local": LONG}, _one_shot("fused.model")),
        "fedhpro": Row({"retraining": FEW_VECTORS}, _fedhpro),
        "fedhpro-averaged": Row({"retraining": FEW_VECTORS}, _fedhpro),
        "fedhpro-reference": Row({"retraining": FEW_VECTORS}, _fedhpro),
        "fedhip": Row({"features": NARROW}, _random),
        "fens": Row(
            {
                "local": LONG,
                "training": LONG,
                "aggregator_rounds": 3,
                "server_lr": 0.2,  # the default is made for hundreds of rounds
                "holdout": 0.3,
            },
            _one_shot(learns=0.6),
        ),
        "fedproto-oneshot": Row({"local": LONG}, _one_shot()),
        "fedprox": Row(expectations=_fedprox),
        "fedrcl": Row(expectations=_fedrcl),
        "moon": Row(expectations=_moon),
        "ditto": Row(expectations=_ditto),
        "fedbabu": Row({"finetune_epochs": 1}, _random),
        "fedbn": Row(expectations=_random),
        "fedper": Row(expectations=_fedper),
        "fedrep": Row({"head_epochs": 1}, _own_heads),
        "fedrod": Row(expectations=_random),
        "per-fedavg": Row({"second_order": "hessian-free"}, _per_fedavg),
        "pfedme": Row(expectations=_pfedme),
        "local-ridge": Row(
            {"features": NARROW}, lambda: Expectations(is_random=False, learns_with="clients")
        ),
        "otfusion": Row({"local": LONG}, _one_shot("fused")),
        "pfedacnnl": Row({"layers": SHALLOW}, _random),
        "safle": Row({"bits": 2, "groups": 12, "thresholds": "fixed"}, _random),
    }
)
"""Rows by the name in the registry."""


def registered(name: str) -> tuple[Algorithm, Expectations]:
    """A registered algorithm with small-task settings, and what to expect of it."""
    cls, row = algorithm_class(name), ROWS.get(name, Row())
    algorithm = build(cls, ALGORITHMS[name].preset)
    values: dict[str, Any] = {}
    if isinstance(getattr(algorithm, "local", None), LocalSGD):
        values["local"] = QUICK
    values.update(row.params)
    tuned: Algorithm = dataclasses.replace(algorithm, **values)
    return tuned, row.expectations()
