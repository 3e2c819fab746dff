"""Going on from a finished run: more rounds of it, or another run that begins with its state.

With all settings but the rounds the same, the new run is the old one with more rounds: it holds the
rounds that were, clients have what they kept, and it ends with the bits of a run that had as many
rounds from the start, unless the method's schedules look at their number. With any other setting
changed (clients, data, method) it is a run of its own whose first state is what the old one shared
with its clients. So is every run from or over sites: what these remember stays with them, under the
identity of the run that left it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedcord.core.contract import Algorithm, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.tensors import Tensors, spec_of
from fedcord.experiment.config import DEFAULT_ROUNDS, MAX_ROUNDS, RunConfig
from fedcord.experiment.finished_run import FinishedRun
from fedcord.store.checkpoint import Checkpoint
from fedcord.store.run_folder import RunFolder

MOST_NAMED = 5
"""Tensors that a message names."""


def going_on(
    config: RunConfig, source: FinishedRun, further: int | None, over_sites: bool = False
) -> RunConfig:
    """The settings of a run that begins where another ended.

    Args:
        config: as it would be without the other.
        source: the other.
        further: rounds that were asked for; None for as many as usual.
        over_sites: whether clients of the new one are sites.
    """
    name, traits = config.algorithm, config.method.traits
    if traits.holds_sums:
        raise ConfigError(
            f"--from: {name} has no state to train on from, it adds up sums; bring further clients "
            "into a finished run with 'fedcord join'."
        )
    if source.is_over_sites and source.config.method.traits.keeps_own_models:
        raise ConfigError(
            f"--from '{source.path}': what {source.config.algorithm} has learnt is in the models "
            "of its sites, which stay there; begin with a run of a method that shares its model, "
            "such as fedavg."
        )
    begun = replace(config, start=str(source.result["state_hash"]))
    if over_sites or not is_more_of(config, source):
        return begun
    if traits.rounds is not None:
        raise ConfigError(
            f"--from: {name} is done after its {traits.rounds} round(s), and '{source.path}' has "
            "had them; change a setting, such as --clients or the method."
        )
    rounds = source.checkpoint.state.round + (further or DEFAULT_ROUNDS)
    if rounds > MAX_ROUNDS:
        raise ConfigError(f"--from: {rounds} rounds in all; at most {MAX_ROUNDS} are run.")
    return replace(begun, rounds=rounds)


def is_more_of(config: RunConfig, source: FinishedRun) -> bool:
    """Whether a simulation is the other with more rounds."""
    if source.is_over_sites:
        return False
    others = {"rounds": None, "start": None}
    mine, theirs = config.plain() | others, source.config.plain() | others
    return bool(mine == theirs)


@dataclass(frozen=True)
class FirstState:
    """What a run begins with that goes on from another.

    Attributes:
        checkpoint: the state, and what clients keep.
        metrics: the rounds that were, where the run is the other with more of them.
        note: what its reports say of it.
        origin: what its provenance says of it.
    """

    checkpoint: Checkpoint
    metrics: Sequence[Mapping[str, Any]]
    note: str
    origin: Mapping[str, Any]


def first_state(
    config: RunConfig, algorithm: Algorithm, source: FinishedRun, env: Env, data_hash: str | None
) -> FirstState:
    """What a run begins with.

    Args:
        config: from `going_on`.
        algorithm: of the new run.
        source: the run it begins from.
        env: the server's place before the first round.
        data_hash: of the new run's data; None where it lies at sites.
    """
    left, name = source.checkpoint.state, source.config.algorithm
    origin = {
        "run_dir": str(source.path),
        "algorithm": name,
        "rounds": left.round,
        "state_hash": config.start,
    }
    if data_hash is None or not is_more_of(config, source):
        fresh = algorithm.init(env)
        _check_same(fresh.shared, left.shared, config, source)
        note = (
            f"begins with the state of a run of {name} over {left.round} round(s), whose bytes and "
            "seconds are not counted."
        )
        state = ServerState(dict(left.shared), fresh.private)
        return FirstState(Checkpoint(state, {}), (), note, origin)
    if source.provenance.get("data_hash") != data_hash:
        raise CheckpointError(
            f"the data is not what the run in '{source.path}' was made with; restore that data, or "
            "change a setting to begin another run with its state."
        )
    note = f"goes on after {left.round} round(s) of an earlier run, which are counted."
    return FirstState(source.checkpoint, source.metrics, note, origin)


def begin_with(first: FirstState | None, folder: RunFolder) -> Checkpoint:
    """Put the rounds that were into a new run's folder; call it with the lock held."""
    if first is None:
        raise CheckpointError(
            f"'{folder.path}' was stopped before its first checkpoint, and begins with the state "
            "of another run; name that again with --from."
        )
    folder.rewind_metrics(0)
    for line in first.metrics:
        folder.append_metrics(line, to_disk=False)
    return replace(first.checkpoint, metrics="")


def _check_same(own: Tensors, given: Tensors, config: RunConfig, source: FinishedRun) -> None:
    wanted, found = spec_of(own), spec_of(given)
    if not wanted:
        raise ConfigError(f"--from: {config.algorithm} shares no tensors to begin with.")
    differing = [
        f"{name} is {found.get(name, 'not there')} there and {wanted.get(name, 'not there')} here"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]
    if differing:
        more = len(differing) - MOST_NAMED
        listed = "; ".join(differing[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        raise ConfigError(
            f"--from '{source.path}': {config.algorithm} begins with other tensors than "
            f"{source.config.algorithm} has left ({listed}); use the same --model, data of the "
            "same form, and a method that shares the same tensors."
        )
