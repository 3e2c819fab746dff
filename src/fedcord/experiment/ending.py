"""After the last round: clients' own models and tests, now or when an absent client is back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedcord.core.contract import ClientId, ServerState
from fedcord.core.errors import CheckpointError
from fedcord.core.passes import Passes
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.rounds import finish_clients, validate_clients
from fedcord.experiment.build import Plan
from fedcord.experiment.measured import (
    by_metric,
    detail_of_result,
    metrics_of_clients,
    over_clients,
)
from fedcord.experiment.records import clients_record
from fedcord.metrics.registry import DEFAULT
from fedcord.metrics.sums import Detail, Evaluation
from fedcord.store.checkpoint import load_newest
from fedcord.store.checksums import RESULT
from fedcord.store.run_folder import RunFolder

AWAITED, VALIDATED, ABSENT = "awaited", "validation_sums", "absent: it did not answer the roll"
"""Entries of a result that is not complete, and why somebody is awaited who never came."""


@dataclass(frozen=True)
class Ending:
    """What clients said after the last round.

    Attributes:
        local: of their own test parts.
        for_selection: of all their validation parts together.
        missing: who did not answer, and why.
        num_classes: C.
        delivery: bytes of the final model that clients lacked, over all of them.
        took: what making their own models took clients, where a method does that.
    """

    local: Mapping[ClientId, Evaluation]
    for_selection: Evaluation
    missing: Mapping[ClientId, str]
    num_classes: int
    delivery: int = 0
    took: Mapping[ClientId, Passes] = field(default_factory=dict)

    def record(self, num_clients: int, others: Mapping[ClientId, str]) -> dict[str, Any]:
        """What the result says of clients; `others` are awaited too."""
        about = num_clients, self.num_classes
        record = clients_record(self.local, self.for_selection, *about)
        missing = {**others, **self.missing}
        if not missing:
            return record
        return {
            **record,
            AWAITED: {str(client): missing[client] for client in sorted(missing)},
            VALIDATED: self.for_selection.plain(),
        }


def end_with_clients(
    plan: Plan,
    federation: Federation,
    state: ServerState,
    clients: Sequence[ClientId],
    detail: Detail,
) -> Ending:
    """Ask clients for their own models and tests."""
    config, missing = plan.config, dict[ClientId, str]()
    took: dict[ClientId, Passes] = {}

    def note(answer: Missing) -> None:
        missing[answer.client] = f"{answer.outcome}: {answer.reason}"

    about = federation, state, config.seed
    delivery = federation.holders.lacking(state.model, federation.members)
    local = finish_clients(
        plan.algorithm, *about, clients, config.threads, note, took.__setitem__, detail
    )
    here = [client for client in clients if client not in missing]
    for_selection = Evaluation()
    if config.validation > 0:
        for_selection = validate_clients(*about, here, config.threads, detail)
    return Ending(local, for_selection, missing, plan.facts.num_classes, delivery, took)


def awaited(folder: RunFolder) -> list[ClientId]:
    """Who was absent at the end of a finished run and has no model of it yet."""
    return sorted(map(int, folder.read_json(RESULT).get(AWAITED, {})))


def finish_awaited(folder: RunFolder, plan: Plan, federation: Federation) -> dict[str, Any]:
    """Make the models of those who are back, and complete the result; others are still awaited."""
    folder.check()
    saved = load_newest(folder.checkpoints, plan.config.hash)
    if saved is None:
        raise CheckpointError(f"'{folder.path}' has no checkpoint; run it again.")
    result = folder.read_json(RESULT)
    still = dict(result.pop(AWAITED, {}))
    before = Evaluation.from_plain(result.pop(VALIDATED))
    back = [k for k in map(int, still) if k in federation.members]
    detail = detail_of_result(str(result.get("metric", DEFAULT)), plan.facts.num_classes)
    ending = end_with_clients(plan, federation, saved.state, sorted(back), detail)
    for client in back:
        still.pop(str(client))
    seen = replace(ending, for_selection=before + ending.for_selection)
    made = seen.record(result["clients"], _numbered(still))
    values = by_metric(ending.local, ending.num_classes)
    for name, own in result["client_metrics"].items():
        known = {k: value for k, value in enumerate(own["by_client"]) if value is not None}
        values[name] = {**values.get(name, {}), **known}
    clients = over_clients(values, result["clients"])
    accuracy = clients.get("accuracy", {})
    made |= {
        "client_accuracy": accuracy.get("by_client", made["client_accuracy"]),
        "client_accuracy_mean": accuracy.get("mean"),
        "client_metrics": clients,
        "metrics": result["metrics"] | metrics_of_clients(clients),
    }
    folder.write_result({**result, **made})
    return folder.read_json(RESULT)


def _numbered(awaited: Mapping[str, str]) -> dict[ClientId, str]:
    return {int(client): why for client, why in awaited.items()}
