"""The federation under attack, trained again, and the attacker's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from fedcord.algorithms.accord.joint_features import ENCODER
from fedcord.audit.candidates import Candidates
from fedcord.audit.exposed import Played
from fedcord.core.contract import ClientId, Env, Update
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, select
from fedcord.engine.sampling import clients_of_round
from fedcord.engine.summands import needs_only
from fedcord.experiment.build import Experiment
from fedcord.experiment.played import play


def played_again(experiment: Experiment) -> Played:
    """The run's own clients, with its own random streams: bit for bit what it was."""
    return _played(experiment, dict(enumerate(_everybody(experiment))), 0)


def played_by_attacker(
    experiment: Experiment,
    number: int,
    candidates: Mapping[ClientId, Candidates],
    has: Mapping[ClientId, Tensor],
) -> Played:
    """A shadow: the same recipe and the same public first weights, with other random streams.

    Its clients are numbered on behind the run's own, so that batches and augmentations, which are
    the clients' secret, are drawn anew, while what follows from the seed alone is the same.

    Args:
        experiment: the run's.
        number: of the shadow, from 1.
        candidates: of all clients that have any.
        has: by client, which of them [2n] it trains on.
    """
    clients = dict(enumerate(_everybody(experiment)))
    clients |= {client: candidates[client].having(chosen) for client, chosen in has.items()}
    kinds = len(experiment.task.networks)  # who has which network goes by number
    offset = number * kinds * -(-len(clients) // kinds)
    return _played(experiment, clients, offset)


def _everybody(experiment: Experiment) -> list[ClientData]:
    return [experiment.population.client(client) for client in experiment.population.clients]


def _played(experiment: Experiment, clients: Mapping[ClientId, ClientData], offset: int) -> Played:
    config, algorithm = experiment.config, experiment.algorithm
    assert config.rounds is not None
    env = Env(experiment.task, config.seed, 0, config.rounds)
    eligible = [client for client, data in clients.items() if len(data.train)]
    sent: dict[ClientId, dict[frozenset[str], Tensors]] = {}
    shared: set[ClientId] = set()

    def participants(round_: int) -> list[ClientId]:
        drawn = clients_of_round(algorithm, config.participation, config.seed, round_, eligible)
        return [client + offset for client in drawn]

    def heard(here: Env, client: ClientId, update: Update) -> None:
        if config.secure is None or needs_only(algorithm, here) is None:  # not masked
            own = sent.setdefault(client, {})
            names = frozenset(update.tensors)
            own.pop(names, None)  # the last comes last
            own[names] = update.tensors

    def told(given: Tensors) -> None:
        shared.update(int(name.split(".")[0]) for name in select(given, ENCODER))

    state, _ = play(
        algorithm,
        algorithm.init(env),
        {client + offset: data for client, data in clients.items()},
        env,
        config.rounds,
        participants,
        heard,
        told,
    )
    last = replace(env, round=config.rounds - 1)
    letters = {client: tuple(own.values()) for client, own in sent.items()}
    return Played(state, letters, frozenset(shared), last, offset)
