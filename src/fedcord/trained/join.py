"""Clients that come after a run has ended: exact, where the server holds nothing but sums.

The counterpart of `forget`. Their messages are made from their own data, prepared as the run has
prepared everybody's, added to the sums, and the model is solved and measured anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedcord.algorithms.analytic.membership import (
    HoldsSums,
    join,
    keeps_no_sums,
    model_difference,
)
from fedcord.core.contract import ClientId, Update
from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.names import told_name
from fedcord.core.passes import Passes
from fedcord.core.tensors import hash_tensors
from fedcord.data.facts import DataFacts
from fedcord.data.holdout import split_client
from fedcord.engine.population import Population
from fedcord.engine.requests import TOOK, Reply
from fedcord.engine.threads import torch_threads
from fedcord.engine.traffic import Phase, Traffic
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.engines import open_federation
from fedcord.experiment.frozen_features import as_features
from fedcord.experiment.load import load_config
from fedcord.experiment.made_run import (
    FORGOTTEN,
    JOINED,
    SourceRun,
    asking,
    evaluated,
    last_round,
    make_run,
    solved_again,
)
from fedcord.experiment.records import cost_record, traffic_record, with_late
from fedcord.store.run_folder import RunFolder
from fedcord.trained.new_examples import open_examples


@dataclass(frozen=True)
class Joined:
    """What joining did.

    Attributes:
        clients: the numbers of those who are new.
        difference: largest relative difference between the new model and the last round done anew
            by everybody; the proof.
        accuracy_before: of the model on the server's test set, without them.
        accuracy_after: with them.
        run_dir: folder of the model with them.
    """

    clients: tuple[ClientId, ...]
    difference: float
    accuracy_before: float
    accuracy_after: float
    run_dir: str


def join_clients(
    run: Path,
    data: Sequence[str],
    names: Sequence[str] = (),
    data_dirs: Sequence[Path] | None = None,
    out: Path | None = None,
) -> Joined:
    """Make the model of a finished run as if further clients had been there.

    Args:
        run: folder of a finished run.
        data: for each client its labelled examples, as `fedcord predict` reads them.
        names: for each client what it is called, where those of the run have names.
        data_dirs: where the run's data lies.
        out: folder of the new run; by default beside `run`, which stays as it is.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(f"'{run}' holds no finished run; finish it with --resume first.")
    with folder.lock():
        is_verified = folder.check()
        experiment = build_experiment(load_config(folder.read_config()), data_dirs=data_dirs)
        _check_can_join(experiment)
        source = SourceRun.read(folder, experiment, is_verified)
        if source.result.get(FORGOTTEN) or source.result.get(JOINED):
            raise ConfigError(
                f"'{run}' was itself made by forget or join; start from the run it was made of, "
                "and bring all clients at once by several --data."
            )
        called = _names(names, len(data), experiment)
        people = [_client(text, experiment, data_dirs) for text in data]
        first = experiment.population.num_clients
        clients = tuple(range(first, first + len(data)))
        together = replace(experiment, population=_with(experiment, people, called))
        new = _solved(together, source, clients)
        partition = _partition(experiment, people, called)
        result = {**new.run.result, "clients": partition["num_clients"]}
        result |= {"partition_hash": partition["hash"]}
        target = RunFolder(out or _beside(run, clients))
        make_run(target, together, replace(new.run, result=result), partition)
    before, after = source.result["accuracy"], new.run.result["accuracy"]
    return Joined(clients, new.difference, before, after, str(target.path))


@dataclass(frozen=True)
class _New:
    run: SourceRun
    difference: float


def _solved(together: Experiment, source: SourceRun, clients: Sequence[ClientId]) -> _New:
    algorithm, state = cast(HoldsSums, together.algorithm), source.checkpoint.state
    marks = {JOINED: list(clients)}
    with torch_threads(together.config.threads):
        with open_federation(together) as people:
            env, started = last_round(together, state), time.process_time()
            request = asking("update", state, env)
            updates, took = list[tuple[ClientId, Update]](), dict[ClientId, Passes]()
            for reply in people.ask(request, clients, "training"):
                if isinstance(reply, Reply) and reply.client is not None:
                    updates.append((reply.client, reply.update(people.said(reply.client))))
                    took[reply.client] = Passes.from_plain(reply.values[TOOK])
            passed = people.take_traffic()["training"]
            after = join(algorithm, state, updates, env)
            cpu_seconds = time.process_time() - started
            # everybody lacks of the new model what they lacked of the old one
            delivery = people.holders.lacking(after.model, clients)
            difference = model_difference(after, solved_again(together, people, after))
        with open_federation(together) as people:  # who keeps nothing yet
            made, own_models = evaluated(together, people, source, after, marks)
            ending = people.take_traffic()
    line = with_late(source.metrics[-1], len(clients), passed, took, cpu_seconds)
    last = made.metrics[-1] | {name: line[name] for name in ("clients", "bytes_up", "bytes_down")}
    costs = _costs(source, line, ending, delivery, own_models, together.config)
    made = replace(made, metrics=[*made.metrics[:-1], last], result=made.result | costs)
    return _New(made, difference)


def _costs(
    source: SourceRun,
    line: Mapping[str, Any],
    ending: Mapping[Phase, Traffic],
    delivery: int,
    own_models: Mapping[ClientId, Passes],
    config: RunConfig,
) -> dict[str, Any]:
    """What rounds, late messages and the new model cost together; it is delivered to everybody.

    Args:
        source: the run.
        line: of its last round, with those who are new.
        ending: what passed after that.
        delivery: bytes of the new model that those who are new lack.
        own_models: what making own models anew took clients.
        config: of the run.
    """
    before, was = source.result, source.metrics[-1]
    if "complete_traffic" not in before:  # an older version, which did not count by phase
        return {k: before[k] + line[k] - was[k] for k in ("bytes_up", "bytes_down")}
    rounds = [*source.metrics[:-1], line]
    delivery += before["complete_traffic"]["delivery"]
    return {
        **traffic_record(rounds, ending),
        **cost_record(config, rounds, ending, delivery, own_models),
    }


def _check_can_join(experiment: Experiment) -> None:
    config, algorithm = experiment.config, experiment.algorithm
    if not algorithm.traits.holds_sums:
        raise ConfigError(
            f"{keeps_no_sums(config.algorithm, algorithm)}, so nobody can join exactly; go on "
            "training with 'fedcord run --from', or use an additive method such as afl."
        )
    why = cast(HoldsSums, algorithm).why_not_forget()
    if config.secure is not None:
        why = "its updates were masked"
    if why is not None:
        raise ConfigError(f"nobody can join {config.algorithm} exactly: {why}; train again.")


def _names(names: Sequence[str], count: int, experiment: Experiment) -> list[str]:
    has_names = bool(experiment.population.names)
    if len(names) != (count if has_names else 0):
        how = (
            f"clients of this run have names; give --name for each of the {count}"
            if has_names
            else "clients of this run are numbers; leave --name out"
        )
        raise ConfigError(f"{len(names)} names were given: {how}.")
    taken = set(experiment.population.names.values())
    for name in names:
        try:
            told_name(name)
        except ValueError as error:
            raise ConfigError(f"--name: {error}.") from error
        if name in taken or not name:
            raise ConfigError(f"--name '{name}': is taken or empty; every client has its own.")
        taken.add(name)
    return list(names)


def _client(text: str, experiment: Experiment, data_dirs: Sequence[Path] | None) -> Examples:
    """A late client's labelled examples, as the population of the run holds them."""
    facts, plan = experiment.plan.facts, experiment.plan
    inputs, labels = _labelled(text, facts)
    examples = Examples(inputs, labels)
    if plan.encoder is None:
        return examples
    nothing = Examples(inputs[:0], labels[:0])
    alone = Population.from_clients([ClientData(examples, nothing, nothing)], nothing)
    about = plan.encoder, plan.config.threads, data_dirs
    alone, _ = as_features(alone, *about, lambda done, total: None)
    return Examples(alone.inputs, labels)


def _labelled(text: str, facts: DataFacts) -> tuple[Tensor, Tensor]:
    batches = list(open_examples(text, facts).batches())
    labels = [label for batch in batches for label in batch.labels]
    if None in labels:
        raise DataError(
            f"{text}: example {labels.index(None)} (from 0) has no class; whoever joins brings "
            "labelled examples, such as npz:PATH with x and y."
        )
    return torch.cat([batch.inputs for batch in batches]), torch.tensor(labels, dtype=torch.int64)


def _with(experiment: Experiment, people: Sequence[Examples], names: Sequence[str]) -> Population:
    """Everybody, those who are new at the end, with parts cut like everybody's."""
    before, config = experiment.population, experiment.config
    inputs, labels, bounds = [before.inputs], [before.labels], [before.bounds]
    end = len(before.labels)
    for client, own in enumerate(people, before.num_clients):
        parts = split_client(
            np.arange(len(own), dtype=np.int64),
            validation=config.validation,
            test=config.test,
            seed=config.seed,
            client=client,
        )
        rows = torch.from_numpy(np.concatenate(parts))
        inputs.append(own.inputs[rows])
        labels.append(own.labels[rows])
        ends = end + np.cumsum([0, *(len(part) for part in parts)])
        bounds.append(torch.from_numpy(ends)[None])
        end = int(ends[-1])
    return replace(
        before,
        inputs=torch.cat(inputs),
        labels=torch.cat(labels),
        bounds=torch.cat(bounds),
        names={**before.names, **dict(enumerate(names, before.num_clients))},
    )


def _partition(
    experiment: Experiment, people: Sequence[Examples], names: Sequence[str]
) -> dict[str, Any]:
    """`partition.json` with those who are new; what they hold has no index in the run's data."""
    record, classes = experiment.holdings.record(), experiment.task.num_classes
    data = [hash_tensors({"inputs": own.inputs, "labels": own.labels}) for own in people]
    text = json.dumps([record["hash"], data])
    more: dict[str, list[Any]] = {
        "client_names": list(names),
        "counts": [own.labels.bincount(minlength=classes).tolist() for own in people],
        "indices": [[] for _ in people],
        "files": [[] for _ in people] if record["files"] else [],
    }
    return {
        **record,
        **{name: [*record[name], *values] for name, values in more.items()},
        "num_clients": record["num_clients"] + len(people),
        "hash": hashlib.sha256(text.encode()).hexdigest(),
    }


def _beside(run: Path, clients: Sequence[ClientId]) -> Path:
    """The folder of the new run: the old name, and who is in it beside the others."""
    place = run.resolve()
    return place.with_name(f"{place.name}-with-{'-'.join(map(str, clients))}")
