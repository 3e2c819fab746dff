"""Everything that happens at a site: terms and a call in, bytes out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcord.core.errors import ConfigError, DataError, FedcordError, ProtocolError
from fedcord.core.tensors import Tensors
from fedcord.data.channel_sums import channel_sums
from fedcord.data.standardise import first_sum, second_sum
from fedcord.data.tables.survey import as_kinds
from fedcord.engine.agreement import Introduction
from fedcord.engine.disk_memory import DiskMemory
from fedcord.engine.memory_store import MemoryStore
from fedcord.engine.node import ClientNode
from fedcord.engine.requests import (
    Parcel,
    Reply,
    Request,
    answered,
    pack_failure,
    pack_replies,
    unpack_call,
)
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import is_standardised
from fedcord.experiment.frozen_features import as_features
from fedcord.experiment.survey import COLUMNS, FIRST, MEAN, SECOND, SUMS, TABLE
from fedcord.experiment.terms import Terms
from fedcord.site.kept_model import is_final, keep_model
from fedcord.site.own_data import SiteData, read_site
from fedcord.site.own_plan import plan_at
from fedcord.site.site_file import SiteFile, load_site
from fedcord.site.without_paths import without_paths

log = logging.getLogger("fedcord.site")  # on standard error, unless somebody says otherwise

MakeStore = Callable[[SiteFile, str], MemoryStore]
"""Where a site keeps what a run leaves with it, by the run's identity."""


def on_disk(site: SiteFile, run: str) -> MemoryStore:
    """Memory in the site's own folder, where the next process finds it."""
    return DiskMemory(site.memory, run)


def answer_at_site(path: Path, terms: str, call: bytes, store: MakeStore = on_disk) -> bytes:
    """What the site of a file answers to a call of the server's; failures are said in the answer.

    The answer says why, and the site's own log also with which file.

    Args:
        path: the site's file.
        terms: of the run, as the server sent them.
        call: a request and its parcel, packed.
        store: where memory lies.
    """
    site = None
    try:
        site = load_site(path)
        agreed = Terms.from_json(terms, site.algorithms)
        request, parcel = unpack_call(call)
        with torch_threads(agreed.config.threads):
            if request.verb == "survey":
                data = read_site(site, agreed.config)
                return pack_replies([_surveyed(request, parcel, data)])
            memory = store(site, agreed.run)
            answer = pack_replies(list(node_of(site, agreed, memory).answer(request, parcel)))
            if is_final(request, parcel):
                keep_model(site, agreed, request, memory.before(site.client, request.step))
            return answer
    except FedcordError as error:
        log.warning("%s", error)
        return pack_failure(without_paths(error, path, site))


def open_site(path: Path, terms: Terms, store: MemoryStore) -> ClientNode:
    """The node of a site's file under the terms of a run."""
    return node_of(load_site(path), terms, store)


def node_of(site: SiteFile, terms: Terms, store: MemoryStore) -> ClientNode:
    """A node with the site's data, if that fits what was agreed."""
    if terms.facts is None:
        raise ProtocolError("the terms of the run do not say what its task is.")
    data = read_site(site, terms.config).agreed(terms.facts)
    plan = plan_at(site, terms.config, terms.facts)
    counts = data.class_counts() if site.share_class_counts else {}
    introduction = Introduction(
        counts.get("train"),
        counts.get("test"),
        tells_classes=site.share_class_counts,
        gives_memory=site.is_rehearsal,
    )
    if plan.encoder is not None:
        people, _ = as_features(
            data.population,
            plan.encoder,
            terms.config.threads,
            site.data_dirs or None,
            lambda done, total: None,
        )
        data = replace(data, population=people, known_as=data.fingerprint)
    return ClientNode(
        plan.algorithm,
        plan.task,
        data,
        store,
        plan.agreement,
        introduction=introduction,
    )


def _surveyed(request: Request, parcel: Parcel, data: SiteData) -> Reply:
    """The form of the data, its classes, and sums over the training part: no example."""
    site, facts = data.site, data.facts
    train = data.client(site.client).train
    values: dict[str, Any] = {
        "client": site.client,
        "name": site.name,
        "count": len(train),
        "facts": facts.plain(),
    }
    if not data.tables:
        return answered(request, None, _sums(request, data, train.inputs.numpy()), values)
    table = data.tables[0]
    if COLUMNS not in parcel.options:
        return answered(request, None, {}, values | {TABLE: table.form.to_json()})
    try:
        sums = table.sums(as_kinds(parcel.options[COLUMNS]), train.inputs.numpy())
    except DataError as error:
        raise DataError(f"{site.who} does not fit: {error}") from error
    return answered(request, None, {}, values | {SUMS: sums.to_json()})


def _sums(request: Request, data: SiteData, rows: np.ndarray) -> Tensors:
    facts = data.facts
    if facts.mean:  # a rehearsal: everybody knows the constants
        return {}
    if facts.kind == "image":
        return {FIRST: torch.tensor(channel_sums(rows), dtype=torch.int64)}
    if not is_standardised(facts):
        return {}
    if MEAN not in request.shared:
        return {FIRST: torch.from_numpy(first_sum(rows))}
    mean = request.shared[MEAN]
    if mean.dtype != torch.float64 or tuple(mean.shape) != facts.input_shape:
        raise ConfigError(
            f"{data.site.who}: the mean of the survey has shape {list(mean.shape)}, its data "
            f"{list(facts.input_shape)}."
        )
    return {SECOND: torch.from_numpy(second_sum(rows, mean.numpy()))}
