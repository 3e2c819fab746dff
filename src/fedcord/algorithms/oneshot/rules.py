"""Which combinations of parts make no sense, and which deserve a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcord.algorithms.oneshot.views import PER_BATCH, chosen_view
from fedcord.core.contract import Review
from fedcord.core.task import Task

if TYPE_CHECKING:
    from fedcord.algorithms.oneshot.oneshot import OneShot

_WITHOUT_SCHEDULE = ("none", "fixed", "uw", "kendall_coupled")


def cross_rules(method: OneShot) -> list[str]:
    """Mistakes that show without any data."""
    policy, objective, problems = method.policy, method.objective, []
    if policy.is_used and not method.anchors.is_used:
        problems.append(
            f"policy.kind = '{policy.kind}' weighs an alignment, but anchors.kind = 'none'; choose "
            "anchors (--set anchors.kind=etf) or --set policy.kind=none."
        )
    server = method.server
    learns = server.kind == "trainable_protos" and server.training.needs_anchors
    if learns and not method.anchors.is_used:
        problems.append(
            "server.kind = 'trainable_protos' trains prototypes from and towards anchors, but "
            "anchors.kind = 'none'; choose anchors (--set anchors.kind=etf), or --set "
            "server.training.start=mean and --set server.training.etf_weight=0."
        )
    if method.conflict.kind != "none" and method.alignment.on == "feature":
        problems.append(
            f"conflict.kind = '{method.conflict.kind}' works on prototypes; use "
            "--set alignment.on=prototype."
        )
    if objective.alignment_epochs > 0 and objective.feature_bank == 0:
        problems.append(
            f"objective.alignment_epochs = {objective.alignment_epochs} needs a feature bank; "
            "--set objective.feature_bank=16."
        )
    if objective.bank_file and objective.feature_bank == 0:
        problems.append(
            f"objective.bank_file = '{objective.bank_file}' needs a feature bank; "
            "--set objective.feature_bank=16."
        )
    if objective.alignment_epochs >= objective.period:
        problems.append(
            f"objective.alignment_epochs = {objective.alignment_epochs} must be below "
            f"objective.period = {objective.period}, or nothing is ever classified."
        )
    if objective.contrastive == "simclr" and method.local.views == "none":
        problems.append(_needs_views("objective.contrastive = 'simclr'"))
    return problems


def client_review(method: OneShot, task: Task) -> Review:
    """What of the clients' training does not fit the task, and what may surprise."""
    errors, view = [], chosen_view(method.local.views, task)
    if method.objective.contrastive == "simclr" and view == "none":
        errors.append(_needs_views("objective.contrastive = 'simclr'"))
    parts = method.anchors.review(task) + method.local.review(task)
    return parts + Review(tuple(errors), _surprises(method, task))


def _surprises(method: OneShot, task: Task) -> tuple[str, ...]:
    """What runs but may surprise."""
    policy, notes = method.policy, []
    if policy.learns and policy.has_valve and policy.hinge == "linear":
        bound = 1 / (2 * policy.lambda_max)
        if policy.hinge_weight < bound:
            notes.append(
                f"policy.hinge_weight = {policy.hinge_weight:g} is a soft cap: λ_raw can climb to "
                f"{1 / (2 * policy.hinge_weight):g} instead of policy.lambda_max = "
                f"{policy.lambda_max:g}; from {bound:g} on it holds."
            )
    if policy.learns and not policy.has_valve and policy.align_floor == 0:
        notes.append(
            f"policy.kind = '{policy.kind}' without valve or floor: nothing bounds λ_raw when the "
            "alignment loss falls to 0; --set policy.lambda_max=50 does."
        )
    plan = method.plan
    stands = (policy.progress == "chunk" and plan.epochs == plan.chunks) or (
        policy.progress.startswith("round") and plan.chunks == 1
    )
    if policy.is_used and policy.kind not in _WITHOUT_SCHEDULE and stands:
        notes.append(
            f"policy.progress = '{policy.progress}' with {plan.epochs} epochs in {plan.chunks} "
            "chunks: the schedule is constant, nothing is annealed; use "
            "--set policy.progress=global."
        )
    anchors = method.anchors
    if anchors.is_used and anchors.kind != "random" and task.num_classes >= 2:
        feature_dim = int(task.scratch_network().feature_dim)  # type: ignore[arg-type]
        if task.num_classes > feature_dim + 1 and anchors.fallback != "error":
            notes.append(
                f"{task.num_classes} classes do not form a simplex in {feature_dim} dimensions; "
                f"anchors are '{anchors.fallback}' instead."
            )
    if method.local.views in PER_BATCH:
        notes.append(
            f"local.views = '{method.local.views}' changes all examples of a batch alike, as the "
            "released code does; --set local.views=simclr draws for each."
        )
    return tuple(notes)


def _needs_views(what: str) -> str:
    return f"{what} compares two views of an example, but local.views gives one; use supcon."
