from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.report import feature_map_figure, save_figure
from fedcord.report.feature_map import principal_plane

GENERATOR = np.random.default_rng(0)
CENTRES = GENERATOR.normal(size=(3, 6))
LABELS = np.repeat(np.arange(3), 20)
FEATURES = CENTRES[LABELS] + 0.1 * GENERATOR.normal(size=(60, 6))
NAMES = ["ant", "bee", "cat"]


def test_the_plane_is_that_of_largest_variance() -> None:
    """Against the eigenvectors of the covariance."""
    middle, axes = principal_plane(FEATURES)
    values, vectors = np.linalg.eigh(np.cov(FEATURES.T))
    np.testing.assert_allclose(middle, FEATURES.mean(axis=0))
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    spread = ((FEATURES - middle) @ axes.T).var(axis=0, ddof=1)
    np.testing.assert_allclose(spread, values[::-1][:2])
    np.testing.assert_allclose(np.abs(axes @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-6)


def test_one_feature_and_one_dimension_have_a_plane_too() -> None:
    for rows in (FEATURES[:1], FEATURES[:, :1]):
        _, axes = principal_plane(rows)
        assert axes.shape == (2, rows.shape[1])
        assert np.isfinite(axes).all()


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_dots_lie_near_the_star_of_their_class(method: Literal["pca", "tsne"]) -> None:
    """Prototypes ten times as long point the same way."""
    fig = feature_map_figure(FEATURES, LABELS, 10 * CENTRES, NAMES, method)
    drawn = [np.asarray(group.get_offsets()) for group in fig.axes[0].collections]
    dots, stars = drawn[0::2], drawn[1::2]
    assert [len(each) for each in dots] == [20, 20, 20]
    middles = np.stack([each.mean(axis=0) for each in dots])
    for place, star in enumerate(stars):
        distance = np.linalg.norm(middles - star, axis=1)
        assert int(distance.argmin()) == place


def test_several_prototypes_per_class_and_equal_bytes(tmp_path: Path) -> None:
    hyper = GENERATOR.normal(size=(3, 5, 6))
    for name in ("one.svg", "two.svg"):
        save_figure(feature_map_figure(FEATURES, LABELS, hyper, NAMES), tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert all(name in text for name in NAMES)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(DataError, match="do not fit together"):
        feature_map_figure(FEATURES, LABELS, CENTRES[:, :4], NAMES)
    with pytest.raises(DataError, match="do not fit together"):
        feature_map_figure(FEATURES, LABELS[:5], CENTRES, NAMES)
