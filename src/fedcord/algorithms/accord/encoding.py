"""The round in which encoders are trained: at a client alone, and handed on by the server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from fedcord.algorithms.accord.choosing import choose
from fedcord.algorithms.accord.encoder_training import EncoderTraining
from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    JointFeatures,
    chosen_clients,
    packed_encoders,
)
from fedcord.algorithms.accord.phases import is_asked
from fedcord.algorithms.accord.selection import Selection, by_difference, by_size, on_noise
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT, balancing_weight
from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.algorithms.oneshot.member import COUNTS, MODEL
from fedcord.core.contract import ClientId, Env, Update, Work
from fedcord.core.errors import ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.names import clients_listed
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.number_format import shrink, travelling_spec


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How encoders come about and which of them are used.

    Attributes:
        training: how a client makes its own.
        selection: whose are wanted.
        joint: how many columns there may be.
        form: numbers of encoders on the wire.
        balanced: whether class weights follow from the class counts.
    """

    training: EncoderTraining
    selection: Selection
    joint: JointFeatures
    form: str
    balanced: bool

    def expected_model(self, env: Env) -> dict[str, TensorSpec]:
        """A client's encoder as it travels."""
        encoder = encoder_tensors(env.task.scratch_network(env.client))
        spec = travelling_spec(encoder, self.form)
        return {f"{MODEL}.{name}": part for name, part in spec.items()}

    def expected_message(self, env: Env) -> dict[str, TensorSpec]:
        """Encoder, class counts, and of training by an objective prototypes: FAFI's message."""
        return {
            **self.expected_model(env),
            **self.training.extra_spec(env),
            COUNTS: TensorSpec((env.task.num_classes,), torch.float32, counts=True),
        }

    def work(self, env: Env) -> Work | None:
        """What decides a client's training, and how its encoder travels where that is special."""
        work = self.training.work(env)
        if work is None or self.form == "float32":
            return work
        return Work({**work.settings, "encoder_format": self.form}, work.received)

    def trained(self, data: ClientData, env: Env) -> Update:
        """A client's message after training alone."""
        update = self.training.trained(data, env)
        names = (*self.training.extra_spec(env), COUNTS)
        kept = {name: update.tensors[name] for name in names}
        model = self.packed(select(update.tensors, MODEL))
        return dataclasses.replace(update, tensors={**model, **kept})

    def packed(self, encoder: Tensors) -> dict[str, Tensor]:
        """A client's encoder as it travels to the server."""
        return prefixed(MODEL, shrink(encoder, self.form))

    def chosen_by_counts(self, heard: Mapping[ClientId, Update], env: Env) -> dict[str, Tensor]:
        """What is shared once everybody's class counts [C] are known and nobody has trained."""
        counts = {client: update.tensors[COUNTS] for client, update in heard.items()}
        order = self.selection.order(counts, env)
        return {CHOSEN: self._choice(order, env), **self._balance(counts)}

    def handed_on(
        self,
        shared: Tensors,
        heard: Mapping[ClientId, Update],
        env: Env,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is shared from now on, and encoders for everybody.

        Of those chosen before whose encoder was heard, or of those chosen now.

        Raises:
            ProtocolError: none of those chosen before was heard.
        """
        models = encoders_in(heard, shared)
        if CHOSEN in shared:
            if not models:
                raise ProtocolError(_none_of(shared, env))
            here = {**shared, CHOSEN: torch.tensor(sorted(models))}
            return here, packed_encoders(models)
        counts = {client: heard[client].tensors[COUNTS] for client in models}
        order = by_size(counts)
        if self.selection.rule == "cka":
            order = by_difference(on_noise(models, env), order[0])
        chosen = self._choice(order, env)
        used = {client: models[client] for client in chosen.tolist()}
        return {CHOSEN: chosen, **self._balance(counts)}, packed_encoders(used)

    def _choice(self, order: list[ClientId], env: Env) -> Tensor:
        return choose(order, self.selection, self.joint, self.form, env)

    def _balance(self, counts: Mapping[ClientId, Tensor]) -> dict[str, Tensor]:
        if not self.balanced:
            return {}
        total = torch.stack(list(counts.values())).sum(0).to(torch.int64)
        return {CLASS_WEIGHT: balancing_weight(total)}


def encoders_in(heard: Mapping[ClientId, Update], shared: Tensors) -> dict[ClientId, Tensors]:
    """The encoders that asked clients have sent, as they travelled."""
    return {
        client: select(heard[client].tensors, MODEL) for client in heard if is_asked(shared, client)
    }


def _none_of(shared: Tensors, env: Env) -> str:
    chosen = chosen_clients(shared)
    return (
        f"no client sent an encoder; at least one is needed. Chosen were clients "
        f"{clients_listed(chosen, env.names)}, and none of them was there in the round of "
        "encoders: choose more (selection.max_encoders), let more clients take part in that round "
        "(--participation), or ask everybody for encoders (selection.rule=all)."
    )
