"""After the last round: clients' own models and tests, now or when an absent client is back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcord.core.contract import ClientId, ServerState
from fedcord.core.errors import CheckpointError
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.rounds import finish_clients, validate_clients
from fedcord.experiment.build import Plan
from fedcord.experiment.records import clients_record
from fedcord.store.checkpoint import load_newest
from fedcord.store.checksums import RESULT
from fedcord.store.run_folder import RunFolder

AWAITED, VALIDATED, ABSENT = "awaited", "validation_counts", "absent: it did not answer the roll"
"""Entries of a result that is not complete, and why somebody is awaited who never came."""


@dataclass(frozen=True)
class Ending:
    """What clients said after the last round.

    Attributes:
        local: of their own test parts.
        for_selection: of all their validation parts together.
        missing: who did not answer, and why.
    """

    local: Mapping[ClientId, Evaluation]
    for_selection: Evaluation
    missing: Mapping[ClientId, str]

    def record(self, num_clients: int, others: Mapping[ClientId, str]) -> dict[str, Any]:
        """What the result says of clients; `others` are awaited too."""
        record = clients_record(self.local, self.for_selection, num_clients)
        missing = {**others, **self.missing}
        if not missing:
            return record
        seen = self.for_selection
        return {
            **record,
            AWAITED: {str(client): missing[client] for client in sorted(missing)},
            VALIDATED: [seen.correct, seen.total],
        }


def end_with_clients(
    plan: Plan, federation: Federation, state: ServerState, clients: Sequence[ClientId]
) -> Ending:
    """Ask clients for their own models and tests."""
    config, missing = plan.config, dict[ClientId, str]()

    def note(answer: Missing) -> None:
        missing[answer.client] = f"{answer.outcome}: {answer.reason}"

    about = federation, state, config.seed
    local = finish_clients(plan.algorithm, *about, clients, config.threads, note)
    here = [client for client in clients if client not in missing]
    for_selection = Evaluation()
    if config.validation > 0:
        for_selection = validate_clients(*about, here, config.threads)
    return Ending(local, for_selection, missing)


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
    correct, total = result.pop(VALIDATED)
    back = [k for k in map(int, still) if k in federation.members]
    ending = end_with_clients(plan, federation, saved.state, sorted(back))
    for client in back:
        still.pop(str(client))
    known = {
        client: accuracy
        for client, accuracy in enumerate(result["client_accuracy"])
        if accuracy is not None
    }
    seen = Evaluation(correct, total) + ending.for_selection
    made = Ending(ending.local, seen, ending.missing).record(result["clients"], _numbered(still))
    accuracies = [known.get(k, own) for k, own in enumerate(made["client_accuracy"])]
    told = [accuracy for accuracy in accuracies if accuracy is not None]
    made |= {
        "client_accuracy": accuracies,
        "client_accuracy_mean": sum(told) / len(told) if told else None,
    }
    folder.write_result({**result, **made})
    return folder.read_json(RESULT)


def _numbered(awaited: Mapping[str, str]) -> dict[ClientId, str]:
    return {int(client): why for client, why in awaited.items()}
