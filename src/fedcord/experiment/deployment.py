"""The server of a run whose data lies at sites: what it was told, and what it writes down of that.

A folder that was begun holds what was agreed, so that a run that goes on asks nobody anew and
notices a site whose data has changed meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcord.core.device import find_device
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.data.facts import DataFacts
from fedcord.engine.federation import Federation, Member
from fedcord.engine.patience import Patience
from fedcord.experiment.build import Plan, make_plan
from fedcord.experiment.config import RunConfig
from fedcord.experiment.holdings import TASK, Holdings
from fedcord.experiment.survey import Sites, survey
from fedcord.experiment.terms import Terms
from fedcord.store.checksums import PARTITION, PROVENANCE
from fedcord.store.run_folder import RunFolder

MEMBERS, RUN = "sites", "run"
"""Entries of `partition.json` and of `provenance.json` that only a deployment has."""


def plan_for_sites(
    config: RunConfig,
    sites: Sites,
    patience: Patience,
    begun: RunFolder | None,
    data_dirs: list[Path] | None,
) -> Plan:
    """The plan of a run over sites' data, as it was agreed when the run began or is agreed now."""
    if begun is None:
        find_device(sites.device or config.device)  # before anybody is asked
        return make_plan(config, survey(config, sites, patience), data_dirs, sites.device)
    recorded = begun.read_json(PARTITION)
    try:
        facts = DataFacts.from_plain(recorded[TASK])
    except (KeyError, TypeError, ConfigError, DataError) as error:
        raise CheckpointError(
            f"'{begun.path}' does not say what its sites agreed on ({error}); it is no run over "
            "sites, or damaged."
        ) from error
    return make_plan(config, facts, data_dirs, sites.device)


def run_of(begun: RunFolder) -> str:
    """The identity by which sites know a run, and tell it from others with its settings."""
    return str(begun.read_json(PROVENANCE).get(RUN, ""))


@contextlib.contextmanager
def open_sites(plan: Plan, sites: Sites, run: str, patience: Patience) -> Iterator[Federation]:
    """The sites that answer the roll call, the way to them closed at the end."""
    config = plan.config
    with contextlib.closing(sites.reach(Terms(config, plan.facts, run))) as transport:
        federation = Federation(transport, run, plan.agreement, patience)
        there, wanted = len(federation.members), config.clients
        if there < patience.quorum * wanted:
            absent = sorted(set(range(wanted)) - federation.members.keys())
            raise ConfigError(
                [
                    f"{there} of {wanted} sites answered the roll call, client "
                    f"{', '.join(map(str, absent))} did not; start what is missing, or accept "
                    "fewer with --quorum.",
                    *federation.events,
                ]
            )
        yield federation


def holdings_of(federation: Federation, plan: Plan, begun: RunFolder | None) -> Holdings:
    """What sites told; of a run that was begun, what they told then, if it is still true."""
    if begun is not None:
        return _recorded(begun, federation)
    members, facts = federation.members, plan.facts
    known = {str(k): _told(member) for k, member in sorted(members.items())}
    data = _hash({k: told["data"] for k, told in known.items()})
    num_clients = max(plan.config.clients, max(members) + 1)
    everybody = [members.get(k) for k in range(num_clients)]
    names = [member.name if member else "" for member in everybody]
    counts = [member.introduction.class_counts if member else None for member in everybody]
    tests = [m.introduction.test_counts for m in members.values() if m.test]
    return Holdings(
        spec=plan.config.partition,
        hash=data,
        data_hash=_hash([data, facts.plain()]),
        num_clients=num_clients,
        client_names=[n or str(k) for k, n in enumerate(names)] if any(names) else [],
        class_names=facts.class_names,
        counts=[None if row is None else list(row) for row in counts],
        has_common_test=federation.common_test > 0,
        test_counts=_added(tests, facts.num_classes) if not federation.common_test else None,
        more={TASK: facts.plain(), MEMBERS: known},
    )


def _told(member: Member) -> dict[str, Any]:
    """What a run writes down of a site."""
    return {
        "name": member.name,
        "data": member.data,
        "train": member.train,
        "validation": member.validation,
        "test": member.test,
        "test_counts": member.introduction.test_counts,
    }


def _added(rows: list[tuple[int, ...] | None], num_classes: int) -> list[int] | None:
    """Sums by class, where everybody tells."""
    known = [row for row in rows if row is not None and len(row) == num_classes]
    if not known or len(known) < len(rows):
        return None
    return [sum(column) for column in zip(*known, strict=True)]


def _recorded(begun: RunFolder, federation: Federation) -> Holdings:
    recorded, origin = begun.read_json(PARTITION), begun.read_json(PROVENANCE)
    try:
        known: Mapping[str, Mapping[str, Any]] = recorded[MEMBERS]
        changed = [
            f"client {k}"
            for k, member in sorted(federation.members.items())
            if str(k) in known and known[str(k)]["data"] != member.data
        ]
        tests = [told["test_counts"] for told in known.values() if told["test"]]
        made = Holdings(
            spec=recorded["spec"],
            hash=recorded["hash"],
            data_hash=origin["data_hash"],
            num_clients=recorded["num_clients"],
            client_names=recorded["client_names"],
            class_names=recorded["class_names"],
            counts=recorded["counts"],
            has_common_test=federation.common_test > 0,
            test_counts=(
                _added(tests, recorded["num_classes"]) if not federation.common_test else None
            ),
            more={name: recorded[name] for name in (TASK, MEMBERS)},
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"'{begun.path}' does not say who took part ({error}); remove it and run again."
        ) from error
    if changed:
        raise CheckpointError(
            f"the data of {', '.join(changed)} is not what it was when the run in '{begun.path}' "
            "began; restore that data there, or start a new run."
        )
    return made


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
