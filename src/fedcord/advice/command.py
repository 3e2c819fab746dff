"""The `fedcord compare` command that would settle the question on the user's own data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from fedcord.advice.evidence import Form
from fedcord.advice.recommend import Advice
from fedcord.advice.wishes import Wishes

SEEDS = 5
SHARE = "0.6"
"""Of clients that must stay for masks to come off, as in the documentation."""
MOST = 4
UNEQUAL = 0.7
"""Effective share of classes below which balanced accuracy is what to compare by."""
UNTRAINED = {"accord-deep": "afl-deep"}
"""Nearly the same as its form without training, by a name of its own: a command takes each once."""
UNTRIED = {
    "common": ("accord", "afl", "fedavg", "fafi", "fedprox"),
    "own": ("local", "ditto", "fedrep", "fedper", "apfl"),
    "mixed": ("accord", "fedproto", "fedsa"),
    "private": ("afl", "fedavg", "fedprox", "fedhip"),
    "once": ("afl", "fafi", "fedavg-oneshot", "ensemble"),
}
"""What to compare where no study says who leads: one method of each family, no ranking."""

MIXED = {
    "image": ("mlp:64", "cnn,fc=64"),
    "vector": ("mlp:64", "mlp:100-64"),
    "table": ("mlp:64", "mlp:100-64"),
    "text": (),  # there are no two with as many features
}
"""Two networks with as many features each, where no study says which were measured."""


def settling_command(advice: Advice, data_words: Sequence[str]) -> str:
    """Ready to paste.

    Args:
        advice: what was found.
        data_words: flags that name the data and how it is spread.
    """
    forms = _contenders(advice)
    words = ["fedcord", "compare", *dict.fromkeys(form.algorithm for form in forms), *data_words]
    for form in forms:
        for name, value in form.params:
            words += ["--set", f"{form.algorithm}:{name}={_value(value)}"]
    words += _networks(advice)
    wishes = advice.wishes
    if wishes.max_rounds is not None and wishes.max_rounds > 1:
        words += ["--rounds", str(wishes.max_rounds)]
    if wishes.private:
        words += ["--secure", SHARE]
    if wishes.personal:
        words += ["--metric", "client_accuracy"]
    elif has_unequal_classes(advice):
        words += ["--metric", "balanced_accuracy"]
    return shlex.join([*words, "--seeds", str(SEEDS)])


def has_unequal_classes(advice: Advice) -> bool:
    """Whether accuracy on everybody's data says more about large classes than about the method."""
    return not advice.wishes.personal and advice.situation.class_balance < UNEQUAL


def _contenders(advice: Advice) -> list[Form]:
    """The recommended form, its closest rivals, the baseline, and what nobody has trained."""
    if advice.form is None:
        return [Form(name, (), None) for name in _untried(advice.wishes)]
    found = {advice.form.algorithm: advice.form}
    passed = [] if advice.passed_over is None else [advice.passed_over.over]
    passed += [] if advice.unproven is None else advice.unproven[0]
    usual = [lead.over for lead in advice.leads if lead.over.algorithm in ("fedavg", "local-ridge")]
    for form in (*passed, *usual[:1], *(lead.over for lead in advice.leads)):
        is_same_network = form.published == advice.form.published
        if len(found) < MOST and is_same_network and _can_be_run(form, advice.wishes):
            found.setdefault(form.algorithm, form)
    if len(found) == 1:  # nobody was measured beside it
        for name in _untried(advice.wishes):
            found.setdefault(name, Form(name, (), None))
    if advice.untrained is not None and advice.form.algorithm in UNTRAINED:
        control = UNTRAINED[advice.form.algorithm]
        networks = ("features.networks", advice.situation.clients)  # one of each client
        found.setdefault(control, Form(control, (networks,), None))
    return list(found.values())


def _can_be_run(form: Form, wishes: Wishes) -> bool:
    return not wishes.private or form.algorithm not in ("local", "local-ridge")  # nothing to mask


def _untried(wishes: Wishes) -> tuple[str, ...]:
    if wishes.mixed_networks:
        return UNTRIED["mixed"]
    if wishes.private:
        return UNTRIED["private"]
    if wishes.personal:
        return UNTRIED["own"]
    return UNTRIED["once" if wishes.max_rounds == 1 else "common"]


def _networks(advice: Advice) -> list[str]:
    """Those of the study where the choice of the network is part of what was measured."""
    if advice.form is not None and advice.form.published:
        return ["--model", f"frozen:{advice.form.published}"]
    if not advice.wishes.mixed_networks:
        return []
    measured = [row.model for one in advice.near for row in one.candidates]
    models = measured[0] if measured else MIXED[advice.situation.kind]
    return [word for model in models for word in ("--model", model)]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
