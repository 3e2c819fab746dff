"""What the parts of an algorithm have to say about a task."""

from __future__ import annotations

import dataclasses
from typing import Any

from fedcord.core.contract import Review
from fedcord.core.task import Task


def review_of_parts(algorithm: Any, task: Task) -> Review:
    """The reviews of all fields that can give one, such as `LocalSGD`, in order."""
    found = Review()
    for field in dataclasses.fields(algorithm):
        part = getattr(algorithm, field.name)
        if hasattr(part, "review"):
            found += part.review(task)
    return found
