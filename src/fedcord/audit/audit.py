"""A finished run under attack: how well others can tell who was in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fedcord.audit.attacks import Shadow, attacks
from fedcord.audit.candidates import COMMON, LEAST, Candidates, candidates_by_client
from fedcord.audit.exposed import FINAL_MODEL, Played, model_signals, sent_signals
from fedcord.audit.federations import played_again, played_by_attacker
from fedcord.audit.finding import Exposure, Finding
from fedcord.audit.rates import mean_rates
from fedcord.audit.signals import Signals, prepared_views
from fedcord.audit.summed import attacks_on_sums, why_no_sums
from fedcord.core.contract import ClientId
from fedcord.core.errors import CheckpointError, ConfigError, DataError, unknown_name
from fedcord.core.names import clients_listed
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.finished_run import FinishedRun, read_finished
from fedcord.experiment.played import model_gap

MODELS, SUMS = "models", "sums"
PARTS = (MODELS, SUMS)
"""What can be attacked: models and encoders, which takes training again, and sums."""
MAX_SHADOWS = 1000
SAME_MODEL = 1e-6
"""Largest relative difference to the run's own model."""


@dataclass(frozen=True)
class Audit:
    """What came out.

    Attributes:
        run: the folder.
        algorithm: its method.
        findings: attack by attack.
        by_client: (client, finding) of every single client.
        shadows: federations that the attacker trained.
        notes: what the numbers rest on, in words.
    """

    run: str
    algorithm: str
    findings: tuple[Finding, ...]
    by_client: tuple[tuple[ClientId, Finding], ...]
    shadows: int
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        values = asdict(self)
        values["by_client"] = [{"client": client, **asdict(f)} for client, f in self.by_client]
        return values


def audit_run(
    run: Path,
    data_dirs: Sequence[Path] | None = None,
    num_shadows: int = 4,
    parts: Sequence[str] = PARTS,
    on_federation: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Attack a finished run.

    Args:
        run: its folder.
        data_dirs: where data lies.
        num_shadows: federations that the attacker trains, an even number; 0: the loss alone.
        parts: of PARTS.
        on_federation: (done, to do) of the federations that are trained.
    """
    problems = [unknown_name("part", str(part), PARTS) for part in parts if part not in PARTS]
    if not 0 <= num_shadows <= MAX_SHADOWS or num_shadows % 2:
        problems.append(
            f"shadows = {num_shadows}: must be an even number from 0 to {MAX_SHADOWS}; every "
            "candidate is in half of them."
        )
    if problems:
        raise ConfigError(problems)
    finished = read_finished(run, data_dirs)
    experiment = _experiment(finished)
    candidates = candidates_by_client(experiment.population, experiment.config.seed)
    if not candidates:
        raise DataError(
            f"no client of '{run}' has {LEAST} training samples with as many of the same classes "
            "that nobody trained on; run it with --test 0.3, or on more data."
        )
    with torch_threads(experiment.config.threads):
        found = list[tuple[ClientId, Finding]]()
        if MODELS in parts:
            found += _attacked_models(experiment, finished, candidates, num_shadows, on_federation)
        notes = list(_notes(experiment, candidates, finished))
        if SUMS in parts:
            state = finished.checkpoint.state
            why = why_no_sums(experiment, state)
            if why is None:
                found += attacks_on_sums(experiment, state, candidates)
            elif MODELS not in parts:
                raise ConfigError(f"--only sums: {why}; leave it out, or take --only models.")
            else:
                notes.append(f"Sums were not attacked: {why}.")
    by_client = tuple(found)
    algorithm = experiment.config.algorithm
    if not by_client:
        notes.append(
            f"Nothing was attacked, which does not say that {algorithm} tells nothing: there "
            "is no common model, network, encoder or sum of it that an attack is built in for."
        )
    shadows = num_shadows if MODELS in parts and by_client else 0
    return Audit(str(run), algorithm, _means(by_client), by_client, shadows, tuple(notes))


def _experiment(finished: FinishedRun) -> Experiment:
    """The run's task and data, as they were; what cannot be trained again is refused."""
    config, where = finished.config, f"'{finished.path}'"
    if finished.is_over_sites:
        raise ConfigError(
            f"{where} is a run over sites, which keep their data; an audit needs it all in one "
            "place. Audit a simulation with data like theirs."
        )
    if config.attack is not None or config.start is not None:
        which = "--attack" if config.attack is not None else "--from"
        raise ConfigError(f"{where} was made with {which}, which an audit cannot train again.")
    if finished.result.get("forgotten") or finished.result.get("joined"):
        raise ConfigError(
            f"clients were taken out of {where} or have joined it; audit the run it was made of."
        )
    experiment = build_experiment(config, data_dirs=finished.data_dirs)
    if experiment.data_hash != finished.provenance.get("data_hash"):
        raise CheckpointError(
            f"the data is not what {where} was trained on; restore that data, or run again."
        )
    return experiment


def _attacked_models(
    experiment: Experiment,
    finished: FinishedRun,
    candidates: Mapping[ClientId, Candidates],
    num_shadows: int,
    on_federation: Callable[[int, int], None],
) -> list[tuple[ClientId, Finding]]:
    """Everything that networks tell, client by client."""
    seed, task = experiment.config.seed, experiment.task
    to_do = 1 + num_shadows
    on_federation(0, to_do)
    views = {client: prepared_views(found, task, seed) for client, found in candidates.items()}
    played = _as_it_was(played_again(experiment), finished)
    targets = _signals(experiment, played, candidates, views)
    # by what it is: in a shadow, others may have been chosen to give theirs to everybody
    shadows: dict[tuple[ClientId, str], list[Shadow]] = {(k, e.name): [] for k, e in targets}
    halves = {client: dict[int, Tensor]() for client in candidates}
    for client, found in candidates.items():
        for pair in range(num_shadows // 2):
            for side, chosen in enumerate(found.halves(seed, pair)):
                halves[client][2 * pair + side] = chosen
    for number in range(num_shadows if targets else 0):
        on_federation(1 + number, to_do)
        has = {client: chosen[number] for client, chosen in halves.items()}
        shadow = played_by_attacker(experiment, 1 + number, candidates, has)
        for key, signals in _signals(experiment, shadow, candidates, views).items():
            client, exposure = key
            if (client, exposure.name) in shadows:
                shadows[client, exposure.name].append(Shadow(signals, has[client]))
    on_federation(to_do, to_do)
    return [
        (client, Finding(exposure.name, exposure.seen_by, attack, rates))
        for (client, exposure), signals in targets.items()
        for attack, rates in attacks(
            signals, candidates[client].is_member, shadows[client, exposure.name]
        ).items()
    ]


def _signals(
    experiment: Experiment,
    played: Played,
    candidates: Mapping[ClientId, Candidates],
    views: Mapping[ClientId, Sequence[Tensor]],
) -> dict[tuple[ClientId, Exposure], Signals]:
    """By client and by what is attacked."""
    algorithm = experiment.algorithm
    found = {}
    for client, own in candidates.items():
        labels = own.examples.labels
        if not algorithm.traits.keeps_own_models:
            signals = model_signals(algorithm, played, views[client], labels)
            found[client, FINAL_MODEL] = signals
        for exposure, signals in sent_signals(played, client, views[client], labels):
            found[client, exposure] = signals
    return found


def _as_it_was(played: Played, finished: FinishedRun) -> Played:
    """The run's own final model, and what clients sent on the way to it.

    Masks round, so what comes after a masked round is like what was sent, and not the same.
    """
    state = finished.checkpoint.state
    gap = model_gap(played.state.model, state.model)
    if gap > SAME_MODEL and finished.config.secure is None:
        raise CheckpointError(
            f"trained again, the model of '{finished.path}' is another (largest relative "
            f"difference {gap:.1e}); audit it with the versions it was made by, or run it again."
        )
    return replace(played, state=state)


def _means(found: Sequence[tuple[ClientId, Finding]]) -> tuple[Finding, ...]:
    """Over clients, attack by attack; what is about one target stands together."""
    targets = dict.fromkeys((finding.target, finding.seen_by) for _, finding in found)
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for target in targets:
        for _, finding in found:
            if (finding.target, finding.seen_by) == target:
                groups.setdefault((*target, finding.attack), []).append(finding)
    return tuple(
        Finding(*key, mean_rates([finding.rates for finding in own]), own[0].limit)
        for key, own in groups.items()
    )


def _notes(
    experiment: Experiment, candidates: Mapping[ClientId, Candidates], finished: FinishedRun
) -> list[str]:
    """What the numbers rest on."""
    notes = []
    common = [client for client, found in candidates.items() if found.origin == COMMON]
    if common:
        notes.append(
            f"Samples that nobody trained on are from the common test set for "
            f"{clients_listed(common, finished.names)}, matched by class. Where clients differ in "
            "more than their classes, keep some of their own samples out with --test 0.5."
        )
    left_out = [k for k in experiment.population.clients if k not in candidates]
    if left_out:
        notes.append(
            f"Too few samples to say anything about {clients_listed(left_out, finished.names)}."
        )
    if experiment.config.secure is not None:
        notes.append(
            "Updates were masked: single ones are counted as unseen where masks cover them."
        )
    return notes
