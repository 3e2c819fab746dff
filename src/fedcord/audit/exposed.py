"""What of a federation somebody can look into, and what its candidates look like there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        sent: by client, the last tensor of every name that the server could read.
        env: the server's place at the end.
        offset: what its numbers of clients are higher than the run's.
    """

    state: ServerState
    sent: dict[ClientId, dict[str, Tensor]]
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
    algorithm: Algorithm,
    played: Played,
    client: ClientId,
    views: Sequence[Tensor],
    labels: Tensor,
) -> Iterator[tuple[Exposure, Signals]]:
    """Of the network that a client has sent, whole or without its head; nothing if it sent none."""
    client += played.offset
    task, sent = played.env.task, played.sent.get(client, {})
    model = grow(select(sent, MODEL))
    network = task.scratch_network(client)
    if not model:
        return
    if model.keys() == network.state_dict().keys():
        whole = task.held_network(model, client)
        yield OWN_MODEL, score_signals([in_batches(whole, v, task) for v in views], labels, False)
        return
    if model.keys() != encoder_tensors(network).keys():
        return
    encoder = held_encoder(task, model, client)
    features = [in_batches(encoder.features, view, task) for view in views]
    shares = algorithm.traits.holds_encoders is not None  # whether or not one can be dropped
    yield (
        SHARED_ENCODER if shares else SENT_ENCODER,
        encoder_signals(features, labels, None),
    )
    prototypes = _prototypes(sent, encoder.feature_dim)
    if prototypes is not None:
        yield WITH_PROTOTYPES, encoder_signals(features, labels, prototypes)


def _prototypes(sent: Tensors, width: int) -> Tensor | None:
    """[C, D] of the client's, where they belong to its features."""
    found = sent.get(PROTOTYPES)
    return found if found is not None and found.ndim == 2 and found.shape[1] == width else None
