"""What a run writes down: its start, its rounds and its result, as plain values."""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.device import CPU
from fedcord.core.passes import Passes
from fedcord.core.privacy import AccountsPrivacy
from fedcord.data.facts import DataFacts
from fedcord.engine.requests import TOOK
from fedcord.engine.rounds import RoundRecord
from fedcord.engine.traffic import ROUND, Phase, Traffic
from fedcord.experiment.build import Plan, attack_of
from fedcord.experiment.config import RunConfig
from fedcord.experiment.holdings import Holdings
from fedcord.experiment.measured import by_metric, over_clients
from fedcord.metrics.sums import Evaluation
from fedcord.models.registry import auto_model
from fedcord.store.provenance import identity, provenance

OWN_PARTS = "clients' own test parts"
ABOUT_ACCURACY = ("own_models", "accuracy_by_rule")
"""What a round's line says about its accuracy where a method has it, repeated in the result."""


def client_names(partition: Mapping[str, Any]) -> dict[ClientId, str]:
    """What `partition.json` calls clients; nothing where they are numbers."""
    return {client: str(name) for client, name in enumerate(partition.get("client_names") or ())}


def provenance_record(
    config: RunConfig, holdings: Holdings, reuse: Path | None = None, device: str = CPU
) -> dict[str, Any]:
    """The content of `provenance.json`; with `reuse`, where clients' work lies outside the run."""
    return provenance(
        config_hash=config.hash,
        partition_hash=holdings.hash,
        data_hash=holdings.data_hash,
        threads=config.threads,
        device=device,
        command=shlex.join(["fedcord", *sys.argv[1:]]),
        reuse=reuse,
    )


def round_record(record: RoundRecord, holdings: Holdings) -> dict[str, Any]:
    """A line of `metrics.jsonl`."""
    line: dict[str, Any] = {
        "round": record.round,
        "clients": record.participants,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "seconds": round(record.seconds, 6),
        "refused": list(record.refused),
    }
    if record.is_probe:
        line["probe"] = True
    if record.traffic:
        line["traffic"] = _traffic(record.traffic)
    if record.missing:
        line["missing"] = {str(client): why for client, why in record.missing.items()}
    if record.events:
        line["events"] = list(record.events)
    if record.notes:
        line["notes"] = list(record.notes)
    if record.client_metrics:
        line["client_metrics"] = {str(k): m for k, m in record.client_metrics.items()}
    if record.server_metrics:
        line["server_metrics"] = dict(record.server_metrics)
    if record.took:
        line[TOOK] = {str(client): own.plain() for client, own in record.took.items()}
    if record.cpu_seconds is not None:
        line["cpu_seconds"] = round(record.cpu_seconds, 6)
    if record.train_loss is not None:
        line["train_loss"] = record.train_loss
    if record.evaluation is not None:
        line |= evaluation_record(record.evaluation, record.own_models, holdings)
    return line


def evaluation_record(
    evaluation: Evaluation, own_models: int | None, holdings: Holdings
) -> dict[str, Any]:
    """What the server's test says of a model, or of `own_models` clients' own."""
    values: dict[str, Any] = evaluation.metrics(len(holdings.class_names))
    values.pop("log_loss", None)  # it has always been called loss
    values["loss"] = evaluation.loss
    for name, accuracies in evaluation.group_accuracy().items():
        names = holdings.group_names.get(name)  # a server without data knows their numbers only
        values[f"per_{name}"] = {
            str(k) if names is None else names[k]: value for k, value in accuracies.items()
        }
    if own_models is not None:
        values["own_models"] = own_models
    if evaluation.by_rule:
        values["accuracy_by_rule"] = evaluation.rule_accuracy()
    return values


def clients_record(
    local: Mapping[ClientId, Evaluation],
    for_selection: Evaluation,
    num_clients: int,
    num_classes: int,
) -> dict[str, Any]:
    """What clients' own test and validation parts say."""
    accuracies = {client: evaluation.accuracy for client, evaluation in local.items()}
    return {
        "validation_accuracy": for_selection.accuracy if for_selection.total else None,
        "validation_metrics": for_selection.metrics(num_classes) if for_selection.total else {},
        "client_accuracy_mean": statistics.fmean(accuracies.values()) if accuracies else None,
        "client_accuracy": [accuracies.get(k) for k in range(num_clients)],
        "client_metrics": over_clients(by_metric(local, num_classes), num_clients),
    }


def result_record(
    plan: Plan,
    holdings: Holdings,
    origin: Mapping[str, Any],
    metrics: list[dict[str, Any]],
    after: Mapping[Phase, Traffic],
    measured: Mapping[str, Any],
    state_hash: str,
    engine: str,
    out: Path,
    cost: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of `result.json`."""
    config, last = plan.config, metrics[-1]
    return {
        "algorithm": config.algorithm,
        "dataset": config.dataset,
        "partition": holdings.spec,
        "partition_hash": holdings.hash,
        "clients": holdings.num_clients,
        "rounds": sum(not line.get("probe", False) for line in metrics),
        "seed": config.seed,
        "device": str(plan.task.device),
        "model": [_resolved(model, plan.facts) for model in config.model],
        "accuracy": last["accuracy"],
        "accuracy_on": "global test set" if holdings.has_common_test else OWN_PARTS,
        "balanced_accuracy": last.get("balanced_accuracy"),  # older versions did not measure it
        "loss": last["loss"],
        **measured,
        **traffic_record(metrics, after),
        **cost,
        "seconds": round(sum(line["seconds"] for line in metrics), 3),
        "refused": sum(len(line["refused"]) for line in metrics),
        "state_hash": state_hash,
        "config_hash": config.hash,
        "test_counts": list(holdings.test_counts or ()),
        "notes": [*holdings.notes, *plan.notes, *_claimed(measured)],
        **_attack(config, holdings.num_clients),
        **identity(origin),
        "engine": engine,
        "run_dir": str(out),
        **{k: v for k, v in last.items() if k.startswith("per_") or k in ABOUT_ACCURACY},
    }


def traffic_record(
    metrics: Sequence[Mapping[str, Any]], after: Mapping[Phase, Traffic]
) -> dict[str, Any]:
    """Bytes of all rounds and of what passed after the last."""
    passed = _added([*(line.get("traffic", {}) for line in metrics), _traffic(after)])
    counted = [passed.get(phase, {}) for phase in (*ROUND, "personalisation")]
    return {
        "bytes_up": sum(traffic.get("up", 0) for traffic in counted),
        "bytes_down": sum(traffic.get("down", 0) for traffic in counted),
        "traffic": passed,
    }


def with_late(
    line: Mapping[str, Any],
    count: int,
    passed: Traffic,
    took: Mapping[ClientId, Passes],
    cpu_seconds: float,
) -> dict[str, Any]:
    """A round's line with the costs of clients that took part in it after it was over.

    Args:
        line: of the round.
        count: how many they are.
        passed: what they were sent for it and answered.
        took: their passes.
        cpu_seconds: of their work and the server's.
    """
    late: dict[str, Any] = {
        **line,
        "clients": line["clients"] + count,
        "bytes_up": line["bytes_up"] + passed.up,
        "bytes_down": line["bytes_down"] + passed.down,
        "traffic": _added([line.get("traffic", {}), _traffic({"training": passed})]),
        TOOK: {**line.get(TOOK, {}), **{str(client): own.plain() for client, own in took.items()}},
    }
    if "cpu_seconds" in line:
        late["cpu_seconds"] = round(line["cpu_seconds"] + cpu_seconds, 6)
    return late


def cost_record(
    config: RunConfig,
    metrics: Sequence[Mapping[str, Any]],
    after: Mapping[Phase, Traffic],
    delivery: int,
    own_models: Mapping[ClientId, Passes],
) -> dict[str, Any]:
    """What a run costs by rules that are the same for every method.

    First weights follow from the seed, so that nobody need send them: what the first exchange
    brought down is not counted, unless the run began with another's state. At the end every client
    is sent what the final model has and it has not, which takes the place of what personalisation
    brought down.

    Args:
        config: of the run.
        metrics: the lines of all rounds.
        after: what passed after the last round.
        delivery: bytes of the final model that clients lack, over all clients.
        own_models: what making own models took clients.
    """
    rounds = [line for line in metrics if not line.get("probe", False)]
    first = rounds[0].get("traffic", {}).get("training", {}).get("down", 0)
    first = 0 if config.start is not None else first
    personal = after.get("personalisation", Traffic())
    complete = {
        "up": sum(line["bytes_up"] for line in metrics) + personal.up,
        "down": sum(line["bytes_down"] for line in metrics) - first + delivery,
        "first_weights": first,
        "delivery": delivery,
    }
    return {"complete_traffic": complete, **_work(rounds, own_models)}


def _work(
    rounds: Sequence[Mapping[str, Any]], own_models: Mapping[ClientId, Passes]
) -> dict[str, Any]:
    """Passes of all clients together and of the one with most; nothing where some do not tell."""
    total: dict[str, Passes] = {str(client): own for client, own in own_models.items()}
    for line in rounds:
        took = line.get(TOOK, {})
        if len(took) < line["clients"] - len(line["refused"]) - len(line.get("missing", {})):
            return {}
        for client, own in took.items():
            total[client] = total.get(client, Passes()) + Passes.from_plain(own)
    whole = sum(total.values(), Passes())
    seconds = [line["cpu_seconds"] for line in rounds if "cpu_seconds" in line]
    most = max(total.values(), key=lambda own: own.compute, default=Passes())
    return {
        "work": {
            "forward": whole.forward,
            "backward": whole.backward,
            "cpu_seconds": round(sum(seconds), 3) if len(seconds) == len(rounds) else None,
            "most_forward": most.forward,
            "most_backward": most.backward,
        }
    }


def privacy_record(algorithm: Algorithm, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """What noise guarantees after all rounds, where a method adds some.

    Args:
        algorithm: the method.
        sizes: training examples of every client that may have taken part.
        rounds: of the run.
    """
    if not algorithm.traits.accounts_privacy:
        return {}
    return {"privacy": asdict(cast(AccountsPrivacy, algorithm).privacy_spent(sizes, rounds))}


def _claimed(measured: Mapping[str, Any]) -> list[str]:
    return [measured["privacy"]["statement"]] if "privacy" in measured else []


def _attack(config: RunConfig, num_clients: int) -> dict[str, Any]:
    """Who attacked, where somebody did."""
    attack = attack_of(config, num_clients)
    if attack is None:
        return {}
    return {"attack": {"what": config.attack, "clients": list(attack.clients)}}


def _traffic(passed: Mapping[Phase, Traffic]) -> dict[str, dict[str, int]]:
    """Bytes by phase and direction, without what is zero and what only a simulation moves."""
    found: dict[str, dict[str, int]] = {}
    for phase, traffic in passed.items():
        counts = {name: count for name, count in asdict(traffic).items() if count}
        if counts and phase != "memory":
            found[phase] = counts
    return found


def _added(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for phase, counts in part.items():
            sums = total.setdefault(phase, {})
            for name, count in counts.items():
                sums[name] = sums.get(name, 0) + count
    return total


def _resolved(model: str, facts: DataFacts) -> str:
    """The network that `auto` stood for."""
    return auto_model(facts.kind, facts.input_shape) if model == "auto" else model
