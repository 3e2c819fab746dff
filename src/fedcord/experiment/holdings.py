"""Who holds what, as far as the server knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedcord.data.partitioners.partitioner import Indices

TASK = "task"
"""Entry of `partition.json`: the form of examples and the constants they are prepared by."""


@dataclass(frozen=True)
class Holdings:
    """What a run writes down of its clients' data.

    A simulation knows all of it. A deployment knows what sites told: no indices and no files, and
    counts of classes only from those who agree to share them.

    Attributes:
        spec: how examples are spread, in its one canonical spelling.
        hash: of the spread; equal for results that may be paired.
        data_hash: of all examples and the constants they are prepared by.
        num_clients: K.
        client_names: what each client is called; none when they are numbers.
        class_names: what each class is called.
        counts: by client, training examples of each class; None for one that does not tell.
        indices: by client, which training examples; none where only the client knows.
        files: names of all training examples' files, where they have any.
        group_names: by kind of group of test examples, what its numbers stand for.
        has_common_test: whether there is a test set that is nobody's own.
        test_counts: examples of each class that models are tested on; None: nobody told.
        notes: what deserves a second look, in plain words.
        more: further entries of `partition.json`: the task, and what a deployment needs to go on.
    """

    spec: str
    hash: str
    data_hash: str
    num_clients: int
    client_names: Sequence[str]
    class_names: Sequence[str]
    counts: Sequence[Sequence[int] | None]
    indices: Sequence[Indices] = ()
    files: Sequence[str] = ()
    group_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    has_common_test: bool = True
    test_counts: Sequence[int] | None = None
    notes: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The content of `partition.json`."""
        return {
            "spec": self.spec,
            "hash": self.hash,
            "num_clients": self.num_clients,
            "num_classes": len(self.class_names),
            "client_names": list(self.client_names),
            "class_names": list(self.class_names),
            "counts": list(self.counts),
            "indices": [rows.tolist() for rows in self.indices],
            "files": [[self.files[row] for row in rows] for rows in self.indices if self.files],
            **self.more,
        }
