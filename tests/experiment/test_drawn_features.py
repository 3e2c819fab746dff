"""Pictures of what a finished run's model makes of test examples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

import fedcord
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.experiment.feature_map import MOST, draw_feature_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pytest.importorskip("matplotlib")


def finished(
    name: str,
    folder: Path,
) -> Path:
    """One round on few digits."""
    out = folder / "run"
    fedcord.run(name, out=out, rounds=1, clients=4, subset=200, partition="iid")
    return out


def offsets(figure: Figure) -> list[NDArray[np.float64]]:
    """Places of dots and stars, class by class."""
    return [np.asarray(group.get_offsets()) for group in figure.axes[0].collections]


@pytest.mark.parametrize(
    ("name", "per_class", "words"),
    [
        ("fedavg", 1, "mean features of classes"),
        ("fedproto", 1, "prototypes"),
        ("fedtgp+", 1, "prototypes"),
        ("fedhpro", 5, "prototypes"),
    ],
)
def test_dots_are_test_examples_and_stars_what_the_method_holds(
    name: str, per_class: int, words: str, tmp_path: Path
) -> None:
    figure = draw_feature_map(finished(name, tmp_path))
    groups = offsets(figure)
    dots, stars = groups[0::2], groups[1::2]
    assert sum(map(len, dots)) == 359 < MOST
    assert [len(each) for each in stars] == [per_class] * 10
    assert all(np.isfinite(each).all() for each in groups)
    assert figure.legends[0].get_texts()[-1].get_text() == words


def test_own_models_differ_and_are_asked_for_by_client(tmp_path: Path) -> None:
    run = finished("fedproto", tmp_path)
    first, third = draw_feature_map(run), draw_feature_map(run, client=2)
    assert not np.allclose(offsets(first)[0], offsets(third)[0])
    with pytest.raises(ConfigError, match=r"client 9 has no model.*0, 1, 2, 3"):
        draw_feature_map(run, client=9)


@pytest.mark.parametrize("name", ["ditto", "pfedme", "per-fedavg"])
def test_a_client_has_its_own_beside_the_common_model(name: str, tmp_path: Path) -> None:
    run = finished(name, tmp_path)
    common, first, third = (draw_feature_map(run, client=client) for client in (None, 0, 2))
    assert not np.allclose(offsets(common)[0], offsets(first)[0])
    assert not np.allclose(offsets(first)[0], offsets(third)[0])


def test_own_heads_on_common_features_are_told(tmp_path: Path) -> None:
    run = finished("fedrod", tmp_path)
    draw_feature_map(run)
    with pytest.raises(ConfigError, match="fedrod its features are those of the model that all"):
        draw_feature_map(run, client=2)


def test_a_class_that_nobody_holds_has_no_star(tmp_path: Path) -> None:
    """Two clients of one class each: eight classes stay without a prototype."""
    run = tmp_path / "run"
    fedcord.run("fedproto", out=run, rounds=1, clients=2, partition="classes:1", subset=200)
    figure = draw_feature_map(run)
    assert sorted(map(len, offsets(figure)[1::2])) == [0] * 8 + [1] * 2


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no finished run"):
        draw_feature_map(tmp_path)
    run = finished("fedavg", tmp_path)
    with pytest.raises(ConfigError, match=r"client 1: .* fedavg its features are those of the"):
        draw_feature_map(run, client=1)
    with pytest.raises(ConfigError, match=r"client 9 is not in this run; its clients are 0, 1, 2"):
        draw_feature_map(run, client=9)
    other = tmp_path / "afl"
    fedcord.run("afl", out=other, clients=4, subset=200)
    with pytest.raises(ConfigError, match="no single network"):
        draw_feature_map(other)
