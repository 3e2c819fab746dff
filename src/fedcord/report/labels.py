"""Where to write names beside points so that none covers another.

All in pixels, without matplotlib. Every label tries places around its point, near ones first, and
takes the cheapest; then all are reconsidered until none wants to move. Nothing is random, so equal
points give equal figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""

NUM_DIRECTIONS = 24
GAPS = (2.5, 4.5, 9.0, 15.0, 22.0, 30.0, 40.0, 52.0, 66.0)
"""Distances from a point's mark to its label, in multiples of the unit."""
LEADER_GAP = 5.0
"""From this distance on, a line has to tie the label to its point."""
CLEARANCE = 2.0
"""Free space around a label, in units."""
NUM_SWEEPS = 12
NUM_PROBES = 12

COST_OUTSIDE, COST_LABEL, COST_MARK, COST_LINE, COST_CROSSING = 1e5, 3e3, 8e2, 30.0, 40.0
COST_LEADER, COST_TURN = 14.0, 7.0


@dataclass(frozen=True)
class Label:
    """What is to be placed.

    Attributes:
        point: x and y of the mark it belongs to.
        radius: of that mark.
        size: width and height of the text.
        wish: direction it would like to stand in, in radians, 0 to the right.
    """

    point: tuple[float, float]
    radius: float
    size: tuple[float, float]
    wish: float


@dataclass(frozen=True)
class Placed:
    """Where a label stands.

    Attributes:
        centre: of the text's box.
        needs_leader: whether it is so far off that a line has to tie it to its point.
    """

    centre: tuple[float, float]
    needs_leader: bool


def place_labels(
    labels: Sequence[Label], obstacles: Sequence[Box], bounds: Box, unit: float = 1.0
) -> tuple[Placed, ...]:
    """A place for each label.

    Args:
        labels: all names of one panel.
        obstacles: thin boxes of lines that a label should rather not cross.
        bounds: where labels may be.
        unit: pixels of a typographic point.
    """
    points = np.array([label.point for label in labels], dtype=float).reshape(-1, 2)  # [n, 2]
    radii = np.array([label.radius for label in labels])[:, None]
    marks = np.hstack([points - radii, points + radii])  # [n, 4]
    lines = np.array(obstacles, dtype=float).reshape(-1, 4)
    options = [_options(label, marks, lines, bounds, unit) for label in labels]
    chosen = [int(np.argmin(cost)) for _, _, cost in options]
    for _ in range(NUM_SWEEPS):
        before = list(chosen)
        for own, (boxes, _, cost) in enumerate(options):
            others = [options[k][0][chosen[k]] for k in range(len(labels)) if k != own]
            if not others:
                break
            total = cost + _conflicts(points, boxes, own, np.array(others), unit)
            chosen[own] = int(np.argmin(total))
        if chosen == before:
            break
    placed = []
    for (boxes, gaps, _), pick in zip(options, chosen, strict=True):
        left, bottom, right, top = boxes[pick]
        centre = (float(left + right) / 2, float(bottom + top) / 2)
        placed.append(Placed(centre, bool(gaps[pick] >= LEADER_GAP)))
    return tuple(placed)


def _options(
    label: Label,
    marks: Array,
    lines: Array,
    bounds: Box,
    unit: float,
) -> tuple[Array, Array, Array]:
    """Boxes [m, 4] a label may take, their gaps [m], and what each costs by itself [m]."""
    angle = label.wish + 2 * np.pi * np.arange(NUM_DIRECTIONS) / NUM_DIRECTIONS
    angles, gaps = (a.ravel() for a in np.meshgrid(angle, GAPS))
    towards = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # [m, 2]
    half = np.array(label.size) / 2
    # the box touches the ring around the mark with the side or corner that faces it
    centres = np.array(label.point) + towards * (label.radius + gaps * unit)[:, None]
    centres = centres + np.clip(1.6 * towards, -1, 1) * half
    boxes = np.hstack([centres - half, centres + half])
    outside = np.maximum(np.array(bounds[:2]) - boxes[:, :2], 0).sum(axis=1)
    outside += np.maximum(boxes[:, 2:] - np.array(bounds[2:]), 0).sum(axis=1)
    cost = gaps + COST_TURN * (1 - np.cos(angles - label.wish)) + COST_LEADER * (gaps >= LEADER_GAP)
    cost = cost + COST_OUTSIDE * (outside > 0) + outside
    padded = _padded(boxes, unit)
    cost = cost + COST_MARK * _touch(padded, marks).sum(axis=1)
    cost = cost + COST_LINE * _touch(_padded(boxes, unit / 2), lines).sum(axis=1)
    is_other = np.abs(marks - np.tile(label.point, 2)).max(axis=1) > label.radius
    start = np.broadcast_to(np.array(label.point), (len(boxes), 2))
    through = _runs_through(start, _nearest(start, boxes), marks[is_other])
    cost = cost + COST_CROSSING * through.sum(axis=1)
    return boxes, gaps, cost


def _conflicts(
    points: Array,
    boxes: Array,
    own: int,
    others: Array,
    unit: float,
) -> Array:
    """What each option [m] of one label costs because of where the other labels stand."""
    cost = COST_LABEL * _touch(_padded(boxes, unit), others).sum(axis=1)
    start = np.broadcast_to(points[own], (len(boxes), 2))
    end = _nearest(start, boxes)
    rest = np.delete(points, own, axis=0)
    cost = cost + COST_CROSSING * _runs_through(start, end, others).sum(axis=1)
    crossed = _cross(start, end, rest, _nearest(rest, others)).sum(axis=1)
    return np.asarray(cost + COST_CROSSING * crossed)


def _padded(boxes: Array, unit: float) -> Array:
    margin = CLEARANCE * unit
    return np.hstack([boxes[:, :2] - margin, boxes[:, 2:] + margin])


def _touch(boxes: Array, others: Array) -> NDArray[np.bool_]:
    """[m, k] whether two boxes share area."""
    a, b = boxes[:, None], others[None]
    is_apart = (a[..., :2] >= b[..., 2:]) | (b[..., :2] >= a[..., 2:])
    return np.asarray(~np.any(is_apart, axis=-1))


def _nearest(points: Array, boxes: Array) -> Array:
    """[m, 2] the place of each box that is nearest to its point: where a leader ends."""
    return np.asarray(np.clip(points, boxes[:, :2], boxes[:, 2:]))


def _runs_through(start: Array, end: Array, boxes: Array) -> NDArray[np.bool_]:
    """[m, k] whether a leader runs through a box, looked up at places along it."""
    along = np.linspace(0, 1, NUM_PROBES)[:, None]
    probes = start[:, None] + along * (end - start)[:, None]  # [m, probes, 2]
    is_inside = (probes[:, :, None] > boxes[:, :2]) & (probes[:, :, None] < boxes[:, 2:])
    return np.asarray(np.any(np.all(is_inside, axis=-1), axis=1))


def _cross(start: Array, end: Array, other_start: Array, other_end: Array) -> NDArray[np.bool_]:
    """[m, k] whether two leaders cross."""
    a, b, c, d = start[:, None], end[:, None], other_start[None], other_end[None]
    return (_side(a, b, c) * _side(a, b, d) < 0) & (_side(c, d, a) * _side(c, d, b) < 0)


def _side(a: Array, b: Array, c: Array) -> Array:
    """On which side of the line from a to b the point c lies: -1, 0 or 1."""
    u, v = b - a, c - a
    return np.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])
