"""Which encoders fit, and which settings can never fit."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.accord.selection import Cost, Selection
from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.core.contract import ClientId, Env
from fedcord.core.errors import ConfigError
from fedcord.core.names import clients_listed
from fedcord.core.task import Task
from fedcord.ops.number_format import travelling_bytes


def choose(
    order: list[ClientId], selection: Selection, joint: JointFeatures, form: str, env: Env
) -> Tensor:
    """[M] clients whose encoders are used, ascending.

    Args:
        order: clients in the order in which their encoders are wanted.
        selection: how many bytes there may be.
        joint: how many columns there may be.
        form: how encoders travel.
        env: any place of the run.
    """

    def cost(client: ClientId) -> Cost:
        num_bytes = encoder_bytes(env.task, client, form)
        return Cost(num_bytes, joint.columns_of(env.task, client))

    chosen = selection.within_budget(order, cost, joint.columns_left(env.task))
    if not chosen:  # some architecture fits, but nobody with it takes part
        least = min(cost(client).num_bytes for client in order)
        raise ConfigError(
            f"no encoder of clients {clients_listed(order, env.names)} fits "
            f"selection.byte_budget = {selection.byte_budget:g} and joint.width_limit = "
            f"{joint.width_limit}; the smallest takes {least} bytes."
        )
    return torch.tensor(chosen)


def misfits(selection: Selection, joint: JointFeatures, form: str, task: Task) -> list[str]:
    """What cannot work with this task's networks, whoever takes part."""
    places = range(len(task.networks))
    least = min(encoder_bytes(task, client, form) for client in places)
    problems = list(joint.review(task).errors)
    if least > selection.byte_budget:
        problems.append(
            f"selection.byte_budget = {selection.byte_budget:g} does not hold one encoder, which "
            f"takes {least} bytes as {form}; raise it to {least} or more, use a smaller model or "
            "another encoder_format."
        )
    if selection.rule == "cka" and not _reads_numbers(task):
        problems.append(
            "selection.rule = 'cka' compares encoders on noise, which is no text; use size, "
            "coverage or random."
        )
    return problems


def more_than_fit(selection: Selection, joint: JointFeatures, task: Task) -> tuple[str, ...]:
    """What to say of a bound on encoders above what the head has room for, which is no mistake."""
    if selection.max_encoders is None:
        return ()
    too_wide = joint.too_wide(selection.max_encoders, task)
    if too_wide is None:
        return ()
    return (
        f"selection.max_encoders = {selection.max_encoders}: {too_wide} Where so many clients take "
        "part, as many encoders are used as fit.",
    )


def encoder_bytes(task: Task, client: ClientId, form: str) -> int:
    """Of one client's encoder as it travels."""
    return travelling_bytes(encoder_tensors(task.scratch_network(client)), form)


def _reads_numbers(task: Task) -> bool:
    return task.prepare(torch.zeros(1, *task.input_shape)).is_floating_point()
