"""Draws the figures of explanation-what-flare-really-does.md from the policy's own code.

    python docs/draw_flare.py                      # the two figures that need no training
    python docs/draw_flare.py runs/flare-robustness # and the one of that study

Nothing is trained for the first two: both losses are given, or follow the closed form under which
prototypes shrink when nothing but alignment moves them, and `Policy` moves λ as it does at a
client.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.algorithms.oneshot.policy import Policy, Sigma
from fedcord.report.alignment import alignment_figure
from fedcord.report.canvas import DASHES, PALETTE, house_style, logarithmic, save_figure
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images"
STEPS, MOMENTUM = 3000, 0.9
BASE, ALIGN = 7.0, 0.8
"""Losses of the size that FAFI's clients have in the middle of training."""

POLICIES = {
    "uw (V10)": Policy("uw"),
    "uw_meta_data (V12 as reported)": Policy("uw_meta_data"),
    "uw_meta_data_raw (V12 as written)": Policy("uw_meta_data_raw"),
    "uw_ext (what V11 was meant to be)": Policy("uw_ext"),
    "uw_meta_log (FLARE)": Policy("uw_meta_log"),
}
LR, CLASSES, FEATURES, PUSH = 0.05, 10, 128, 0.3
"""Of the shrinking prototypes: those of the SVHN study, and how hard classification resists."""


def rest_figure() -> Figure:
    """λ in use over training when both losses stay what they are."""
    with house_style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=(6.8, 3.6), layout="constrained")
        axes = fig.subplots()
        for place, (name, policy) in enumerate(POLICIES.items()):
            sigma, used = Sigma(log_local=math.log(5.0)), []
            for step in range(STEPS):
                factor = policy.factor(step / STEPS)
                used.append(policy.weights(sigma, factor)[1])
                gradient = policy.gradient(sigma, BASE, ALIGN, factor)
                sigma = policy.descend(sigma, gradient, MOMENTUM)
            look = {"color": PALETTE[place], "linestyle": DASHES[place % 3]}
            axes.plot([step / STEPS for step in range(STEPS)], used, label=name, **look)
        logarithmic(axes)
        axes.set_ylim(0.05, 2e3)
        axes.set_xlabel("progress of training")
        axes.set_ylabel("λ in use")
        fig.legend(loc="outside upper left", ncols=2)
    return fig


def feedback_figure() -> Figure:
    """λ and alignment loss when a larger λ shrinks the loss that λ is divided by."""
    shown = {
        "V12, no valve": Policy("uw_meta_data"),
        "V13, floor 0.001": Policy("uw_meta_data", align_floor=1e-3),
        "V12 with valve at 50": Policy("uw_meta_data", lambda_max=50.0),
        "FLARE": Policy("uw_meta_log", lambda_max=50.0),
    }
    with house_style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=(8.2, 3.4), layout="constrained")
        panels = fig.subplots(1, 2)
        for place, (name, policy) in enumerate(shown.items()):
            sigma, align, speed = Sigma(log_local=math.log(8.0)), 1.0, 0.0
            raws, aligns = [], []
            for step in range(STEPS):
                factor = policy.factor(step / STEPS)
                weight = policy.weights(sigma, factor)[1]
                gradient = policy.gradient(sigma, BASE, align, factor)
                norm = math.hypot(*gradient)  # clipped to 1, as at a client
                shrink = min(1.0, 1.0 / norm)
                clipped = gradient[0] * shrink, gradient[1] * shrink
                sigma = policy.descend(sigma, clipped, MOMENTUM)
                # ‖P − A‖ follows SGD with momentum on λ/(C·D)·‖P − A‖², clipped to 1, against the
                # classification's constant push
                distance = math.sqrt(align * CLASSES * FEATURES)
                pull = min(2 * weight * distance / (CLASSES * FEATURES), 1.0) - PUSH
                speed = MOMENTUM * speed + pull
                distance = max(distance - LR * speed, 1e-3)
                align = distance**2 / (CLASSES * FEATURES)
                raws.append(sigma.ratio)
                aligns.append(align)
            look = {"color": PALETTE[place], "linestyle": DASHES[place % 3], "label": name}
            progress = [step / STEPS for step in range(STEPS)]
            panels[0].plot(progress, raws, **look)
            panels[1].plot(progress, aligns, **{**look, "label": None})
        panels[0].set_ylabel("λ_raw")
        panels[1].set_ylabel("alignment loss")
        for axes in panels:
            logarithmic(axes)
            axes.set_xlabel("progress of training")
        fig.legend(loc="outside upper left", ncols=4)
    return fig


def main(studies: list[str]) -> None:
    """Write the figures to docs/images."""
    save_figure(rest_figure(), IMAGES / "flare-policies.svg")
    save_figure(feedback_figure(), IMAGES / "flare-feedback.svg")
    for study in studies:
        figure = alignment_figure(leaderboard(load_runs(Path(study))))
        assert figure is not None, f"{study} holds no traces of λ"
        save_figure(figure, IMAGES / "flare-svhn.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
