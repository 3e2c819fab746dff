"""Attacks on the sums of a run: of one client, of all, and with the noise of privacy in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.ledger import LEDGER
from fedcord.algorithms.analytic.membership import HoldsSums
from fedcord.algorithms.analytic.privacy import Privacy, add_noise, sensitivity
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import add_messages
from fedcord.audit.candidates import Candidates
from fedcord.audit.finding import Exposure, Finding
from fedcord.audit.rates import attack_rates, gaussian_limit
from fedcord.audit.sums import LONGEST_LIST, Reconstruction, leverage_scores
from fedcord.core.contract import ClientId, Env, ServerState, Update
from fedcord.core.examples import Examples
from fedcord.experiment.build import Experiment

ONE = Exposure("a client's sums", "server")
ALL = Exposure("the sum over all clients", "server")
ALL_GIVEN = Exposure("the sum over all clients", "server and all clients")
RELEASED = Exposure("the sum over all clients, with the server's noise", "whoever gets it")
SENDERS = f"{LEDGER}.client"
LEVERAGE, RECONSTRUCTION = "leverage", "reconstruction from a list"


@dataclass(frozen=True)
class Seen:
    """Sums as somebody has them.

    Attributes:
        stats: the sums.
        noise: standard deviation of the noise in every number of them.
    """

    stats: SufficientStats
    noise: float


def why_no_sums(experiment: Experiment, state: ServerState) -> str | None:
    """Why the sums of a run cannot be attacked here; None where they can."""
    if not experiment.algorithm.traits.holds_sums:
        name = experiment.config.algorithm
        return f"{name} with these settings holds no sums at its end, and only those are attacked"
    if SENDERS not in state.private:
        return "its clients have sent factors, and no sums"
    if CLASS_WEIGHT in state.shared:
        return "sums with class weights (balanced=true) are not attacked"
    return None


def attacks_on_sums(
    experiment: Experiment, state: ServerState, candidates: Mapping[ClientId, Candidates]
) -> Iterator[tuple[ClientId, Finding]]:
    """All attacks on all candidates; nothing is trained again.

    Args:
        experiment: the run's.
        state: it ended with.
        candidates: by client.
    """
    config, people = experiment.config, experiment.population
    assert config.rounds is not None
    method = cast(HoldsSums, experiment.algorithm)
    env = Env(experiment.task, config.seed, config.rounds - 1, config.rounds)
    senders = [int(client) for client in state.private[SENDERS]]
    tag = method.agreed_tag(state.shared, env)
    messages: dict[ClientId, Update] = {}
    for client in senders:
        place, data = env.at(client), people.client(client)
        messages[client] = experiment.algorithm.client_update(state.shared, {}, data, place).update
    privacy = _privacy(experiment)

    def added(clients: list[ClientId]) -> SufficientStats:
        return method.stats_of(add_messages({}, ((k, messages[k]) for k in clients), tag, env))

    def rows(examples: Examples) -> Tensor:
        return torch.cat([x for x, _ in method.summed_rows(state.shared, examples, env)])

    everyone = added(senders)
    noise = math.sqrt(len(senders)) * privacy.client_noise
    # where clients make heads of their own, they are given the Gram matrix and the head it solved
    given = any(tensor.shape == everyone.gram.shape for tensor in state.model.values())
    all_ = ALL_GIVEN if given and not privacy.server_noise else ALL
    total = {all_: Seen(everyone, noise)}
    if privacy.server_noise:
        noisy = add_noise(everyone, privacy.server_noise, env.generator("privacy"))
        total[RELEASED] = Seen(noisy, privacy.total_noise(len(senders)))
    asked = {client: found for client, found in candidates.items() if client in senders}
    features = {client: rows(found.examples) for client, found in asked.items()}
    whole = _WholeList(
        [(features[client], found.examples.labels) for client, found in asked.items()],
        [
            (rows(part), part.labels)
            for client in senders
            for part in [asked[client].rest if client in asked else people.client(client).train]
            if len(part)
        ],
    )
    for client, found in asked.items():
        own = (
            {} if config.secure is not None else {ONE: Seen(added([client]), privacy.client_noise)}
        )
        for exposure, seen in (own | total).items():
            near = leverage_scores(seen.stats, features[client], _floor(seen))
            yield _attack(exposure, LEVERAGE, found, near, seen, privacy)
        for exposure, seen in own.items():
            rest = [(rows(found.rest), found.rest.labels)] if len(found.rest) else []
            mine = _WholeList([(features[client], found.examples.labels)], rest)
            if mine.is_short:
                score = mine.scores(seen)[0]
                yield _attack(exposure, RECONSTRUCTION, found, score, seen, privacy)
    if whole.is_short:
        for exposure, seen in total.items():
            for found, score in zip(asked.values(), whole.scores(seen), strict=True):
                yield _attack(exposure, RECONSTRUCTION, found, score, seen, privacy)


class _WholeList:
    """Everybody who may be in sums: candidates, part by part, and members that are none.

    Args:
        candidates: (rows, labels) of each part.
        others: likewise.
    """

    def __init__(
        self, candidates: list[tuple[Tensor, Tensor]], others: list[tuple[Tensor, Tensor]]
    ) -> None:
        self._sizes = [len(labels) for _, labels in candidates]
        self._parts = candidates + others
        length = sum(len(labels) for _, labels in self._parts)
        self.is_short = 0 < length <= LONGEST_LIST

    def scores(self, seen: Seen) -> list[Tensor]:
        """Of the candidates, part by part."""
        rows = torch.cat([rows for rows, _ in self._parts])
        labels = torch.cat([labels for _, labels in self._parts])
        solved = Reconstruction(rows, labels, seen.noise).scores(seen.stats)
        return list(solved[: sum(self._sizes)].split(self._sizes))


def _attack(
    exposure: Exposure,
    attack: str,
    found: Candidates,
    scores: Tensor,
    seen: Seen,
    privacy: Privacy,
) -> tuple[ClientId, Finding]:
    limit = None
    if seen.noise:
        limit = gaussian_limit(seen.noise / sensitivity(privacy.clip, "add-remove"))
    rates = attack_rates(scores.numpy(), found.is_member.numpy())
    return found.client, Finding(exposure.name, exposure.seen_by, attack, rates, limit)


def _floor(seen: Seen) -> float:
    """The spectral norm of the noise: directions with less are noise."""
    return seen.noise * math.sqrt(2 * seen.stats.num_features)


def _privacy(experiment: Experiment) -> Privacy:
    found = getattr(experiment.algorithm, "privacy", None)
    return found if isinstance(found, Privacy) else Privacy()
