"""Names beside crowded points."""

import itertools

import numpy as np
import pytest

from fedcord.report.labels import Box, Label, Placed, place_labels

BOUNDS = (0.0, 0.0, 500.0, 300.0)


def box(label: Label, placed: Placed) -> Box:
    (x, y), (width, height) = placed.centre, label.size
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def share_area(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def crowd(seed: int) -> list[Label]:
    """Twelve points in a patch little larger than one name."""
    places = np.random.default_rng(seed).uniform((200, 110), (300, 190), (12, 2))
    return [Label((float(x), float(y)), 4.0, (60.0, 12.0), 0.0) for x, y in places]


@pytest.mark.parametrize("seed", range(10))
def test_a_crowd_is_named_without_covering_names_or_marks(seed: int) -> None:
    labels = crowd(seed)
    placed = place_labels(labels, [], BOUNDS)
    found = [box(label, place) for label, place in zip(labels, placed, strict=True)]
    assert not any(share_area(a, b) for a, b in itertools.combinations(found, 2))
    marks = [(x - 4, y - 4, x + 4, y + 4) for x, y in (label.point for label in labels)]
    assert not any(share_area(a, b) for a, b in itertools.product(found, marks))
    assert all(a[0] >= 0 and a[1] >= 0 and a[2] <= 500 and a[3] <= 300 for a in found)
    assert any(place.needs_leader for place in placed)
    assert place_labels(labels, [], BOUNDS) == placed


def test_a_lone_name_stands_where_it_wishes_without_a_leader() -> None:
    (placed,) = place_labels([Label((250.0, 150.0), 4.0, (60.0, 12.0), 0.0)], [], BOUNDS)
    assert placed == Placed((250 + 4 + 2.5 + 30, 150), needs_leader=False)


def test_a_name_keeps_off_lines_and_inside() -> None:
    label = Label((250.0, 150.0), 4.0, (60.0, 12.0), 0.0)
    line = (250.0, 149.0, 500.0, 151.0)
    (placed,) = place_labels([label], [line], BOUNDS)
    assert not share_area(box(label, placed), line)
    (placed,) = place_labels([label], [], (0.0, 0.0, 260.0, 300.0))
    assert box(label, placed)[2] <= 260


def test_no_names_take_no_place() -> None:
    assert place_labels([], [], BOUNDS) == ()
