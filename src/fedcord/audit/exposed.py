"""What of a federation somebody can look into, and what its candidates look like there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from fedcord.algorithms.kit.encoder import encoder_tensors, held_encoder
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.algorithms.oneshot.member import PROTOTYPES
from fedcord.audit.finding import Exposure
from fedcord.audit.signals import Signals, encoder_signals, in_batches, score_signals
from fedcord.core.contract import Algorithm, ClientId, Env, ServerState
from fedcord.core.tensors import Tensors, select
from fedcord.ops.number_format import grow

FINAL_MODEL = Exposure("final model", "whoever gets it")
OWN_MODEL = Exposure("a client's model", "server")
SENT_ENCODER = Exposure("a client's encoder", "server")
SHARED_ENCODER = Exposure("a client's encoder", "server and all clients")
WITH_PROTOTYPES = Exposure("a client's encoder and prototypes", "server")


@dataclass(frozen=True)
class Played:
    """A federation after its last round.

    Attributes:
        state: the server's.
        sent: by client, what the server could read: of updates with the same names the last, in
            the order in which they came. Tensors of two updates are never taken for one network.
        shared: clients whose encoders were given to everybody.
        env: the server's place at the end.
        offset: what its numbers of clients are higher than the run's.
    """

    state: ServerState
    sent: Mapping[ClientId, Sequence[Tensors]]
    shared: Collection[ClientId]
    env: Env
    offset: int


def model_signals(
    algorithm: Algorithm, played: Played, views: Sequence[Tensor], labels: Tensor
) -> Signals:
    """Of the final model's answers.

    Args:
        algorithm: the method.
        played: its federation.
        views: prepared candidates [N, ...], and random views of them.
        labels: [N].
    """
    scores = algorithm.predictor(played.state.model, {}, played.env).scores
    found = [in_batches(scores, view, played.env.task) for view in views]
    # what is solved from sums gives regressions of the one-hot code
    return score_signals(found, labels, regression=algorithm.traits.holds_sums is not None)


def sent_signals(
    played: Played,
    client: ClientId,
    views: Sequence[Tensor],
    labels: Tensor,
) -> Iterator[tuple[Exposure, Signals]]:
    """Of the last networks that a client has sent, whole and without a head; of none if none."""
    client += played.offset
    task, scratch = played.env.task, played.env.task.scratch_network(client)
    whole, bodies = scratch.state_dict().keys(), encoder_tensors(scratch).keys()
    models, encoders = list[dict[str, Tensor]](), list[tuple[Tensors, Tensors]]()
    for sent in played.sent.get(client, ()):
        found = grow(select(sent, MODEL))
        if found.keys() == whole:
            models.append(found)
        elif found.keys() == bodies:
            encoders.append((found, sent))
    if models:
        held = task.held_network(models[-1], client)
        yield OWN_MODEL, score_signals([in_batches(held, v, task) for v in views], labels, False)

    if not encoders:
        return

    def features_by(network: Tensors) -> tuple[list[Tensor], int]:
        encoder = held_encoder(task, network, client)
        return [in_batches(encoder.features, v, task) for v in views], encoder.feature_dim

    network, sent = encoders[-1]
    features, width = features_by(network)
    exposure = SHARED_ENCODER if client in played.shared else SENT_ENCODER
    yield exposure, encoder_signals(features, labels, None)
    described = [pair for pair in encoders if PROTOTYPES in pair[1]]
    if not described:
        return
    if PROTOTYPES not in sent:  # the encoder was trained on since
        network, sent = described[-1]
        features, width = features_by(network)
    prototypes = _prototypes(sent, width)
    if prototypes is not None:
        yield WITH_PROTOTYPES, encoder_signals(features, labels, prototypes)


def _prototypes(sent: Tensors, width: int) -> Tensor | None:
    """[C, D] of the client's, where they belong to its features."""
    found = sent.get(PROTOTYPES)
    return found if found is not None and found.ndim == 2 and found.shape[1] == width else None
