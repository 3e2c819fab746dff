"""Every named combination of parts: FAFI, the versions on the way to FLARE, FLARE.

Plain values over the parameters of `oneshot.OneShot`, whose defaults are FAFI. This module does not
import torch: the registry lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Preset:
    """One named combination.

    Attributes:
        summary: one line.
        values: what differs from FAFI, nested by part.
    """

    summary: str
    values: Values


_RANDOM = {"kind": "random"}
_ETF = {"kind": "etf"}
_ANNEAL = {"kind": "anneal", "weight": 5.0, "schedule": "linear"}
_ENTROPY = {"kind": "entropy", "schedule": "linear"}
_V11 = {"kind": "uw_ext_coupled", "progress": "round_start"}
_V12 = {"kind": "uw_meta_data", "schedule": "linear"}
_VALVE = {"lambda_max": 50.0, "hinge_weight": 0.02}
_FLARE = {"kind": "uw_meta_log", "schedule": "linear", **_VALVE}
_LEARNED_PROTOTYPES = {"kind": "trainable_protos"}
_FEATURE_BANK = {"feature_bank": 16}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "fafi": Preset("one-shot: prototypes, supervised contrast, feature ensemble (V4)", {}),
        "memory-bank": Preset(
            "FAFI with a queue of past features (did not help)",
            {
                "objective": {
                    "memory_bank": 4096,
                    "temperature": 0.5,
                    "base_temperature": 0.5,
                }
            },
        ),
        "feature-bank": Preset(
            "FAFI with contrast to outside features (did not help)",
            {"objective": _FEATURE_BANK},
        ),
        "two-stage": Preset(
            "feature bank first, local loss after, in turn (did not help)",
            {"objective": {**_FEATURE_BANK, "alignment_epochs": 1}},
        ),
        "drcl": Preset(
            "FAFI drawn to random anchors by a constant weight (V5)",
            {"anchors": _RANDOM, "policy": {"kind": "fixed", "weight": 1.0}},
        ),
        "v6": Preset(
            "V5 with a weight that falls to zero", {"anchors": _RANDOM, "policy": _ANNEAL}
        ),
        "v7": Preset("V6 with anchors on a simplex", {"anchors": _ETF, "policy": _ANNEAL}),
        "v8": Preset(
            "V7 with a target that moves from the first prototypes to the simplex",
            {"anchors": {"kind": "interpolated"}, "policy": _ANNEAL},
        ),
        "v9a": Preset(
            "V7 with each client's weight by its label entropy",
            {"anchors": _ETF, "policy": _ENTROPY},
        ),
        "v9b": Preset(
            "V7 with prototypes learned on the server",
            {"anchors": _ETF, "policy": _ANNEAL, "server": _LEARNED_PROTOTYPES},
        ),
        "v9b-feedback": Preset(
            "V9B as first run: the server's prototypes are the next target (not one-shot)",
            {
                "anchors": _ETF,
                "policy": _ANNEAL,
                "server": {**_LEARNED_PROTOTYPES, "training": {"feedback": True}},
            },
        ),
        "v9ab": Preset(
            "V9A and V9B together",
            {"anchors": _ETF, "policy": _ENTROPY, "server": _LEARNED_PROTOTYPES},
        ),
        "plan-c": Preset(
            "V7 with opposing gradients projected (PCGrad)",
            {"anchors": _ETF, "policy": _ANNEAL, "conflict": {"kind": "pcgrad_local"}},
        ),
        "v10": Preset(
            "uncertainty weights that also scale the base loss",
            {"anchors": _ETF, "policy": {"kind": "kendall_coupled", "start": "unbiased"}},
        ),
        "v10-rescaled": Preset(
            "V10 with the base loss at full weight", {"anchors": _ETF, "policy": {"kind": "uw"}}
        ),
        "v11-linear": Preset(
            "V10-rescaled annealed from outside, as run: the schedule cancels",
            {"anchors": _ETF, "policy": {**_V11, "schedule": "linear"}},
        ),
        "v11-cosine": Preset(
            "V11 with a cosine schedule",
            {"anchors": _ETF, "policy": {**_V11, "schedule": "cosine"}},
        ),
        "v11-fixed": Preset(
            "V11 as it was meant: only the weight is annealed",
            {"anchors": _ETF, "policy": {"kind": "uw_ext", "schedule": "linear"}},
        ),
        "v12": Preset(
            "meta-annealing as reported: λ can run away", {"anchors": _ETF, "policy": _V12}
        ),
        "v13": Preset(
            "V12 with a floor under σ²_align: too weak",
            {"anchors": _ETF, "policy": {**_V12, "align_floor": 1e-3}},
        ),
        "flare": Preset(
            "clients learn their alignment weight, annealed to zero, with a safety valve (V14)",
            {"anchors": _ETF, "policy": _FLARE},
        ),
        "flare-as-logged": Preset(
            "V14 as first written: V12, floor, valve, joint clipping",
            {
                "anchors": _ETF,
                "policy": {**_V12, "align_floor": 1e-3, **_VALVE},
                "local": {"joint_clip": True},
            },
        ),
        "flare-scale-free": Preset(
            "FLARE with an alignment of directions, whose weight means the same for every network",
            {
                "anchors": _ETF,
                "alignment": {"form": "cosine"},
                "policy": {**_FLARE, "lambda_max": 0.1, "hinge_weight": 5.0, "entropy_max": 0.1},
            },
        ),
        "flare-lpa": Preset(
            "FLARE with one model fused from layer-wise posteriors",
            {"anchors": _ETF, "policy": _FLARE, "server": {"kind": "lpa"}},
        ),
        "flare-fisher": Preset(
            "FLARE with one model, weights averaged by how sure clients are (after FedFisher)",
            {"anchors": _ETF, "policy": _FLARE, "server": {"kind": "fisher"}},
        ),
        "flare-ties": Preset(
            "FLARE with one model of the changes that clients agree on (after TIES)",
            {"anchors": _ETF, "policy": _FLARE, "server": {"kind": "ties"}},
        ),
        "flare-dare": Preset(
            "FLARE with one model, a random part of clients' changes dropped (after DARE)",
            {"anchors": _ETF, "policy": _FLARE, "server": {"kind": "dare"}},
        ),
    }
)
"""Presets by name, in the order of the ladder."""

FOR_USE = (
    "fafi",
    "flare",
    "flare-scale-free",
    "flare-lpa",
    "flare-fisher",
    "flare-ties",
    "flare-dare",
)
"""Presets to work with; the others are steps of docs/algorithms/ladder.md, to be reproduced."""
