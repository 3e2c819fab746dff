"""The processes that runs of a study are done in, for as long as a command needs them.

A new process spends seconds on importing PyTorch before it can do anything. So one does run after
run, also of the several studies that tuning consists of, and the first ones may be started before
this process has imported PyTorch itself. Nothing here does.
"""

from __future__ import annotations

from fedcord.engine.child import Child, end_children, start_child

JOB = "fedcord.experiment.job"


class Workers:
    """Processes that do runs; whoever makes it must close it."""

    def __init__(self, file: int | None = None) -> None:
        """None run yet.

        Args:
            file: that every one of them keeps open, of data that was passed as an object.
        """
        self._file = file
        self.children: list[Child] = []

    def close(self) -> None:
        """End all of them."""
        self.end(self.children)

    def start(self, count: int) -> None:
        """Have so many; they find themselves ready while we go on."""
        more, files = ({}, []) if self._file is None else ({"data": self._file}, [self._file])
        while len(self.children) < count:
            self.children.append(start_child(JOB, more, files))

    def end(self, children: list[Child]) -> None:
        """End some, whatever they are doing."""
        gone = list(children)
        end_children(gone)
        self.children = [child for child in self.children if child not in gone]

    def drop_ended(self, kept: set[object]) -> None:
        """Forget those that are gone, but for connections that somebody still listens to."""
        for child in list(self.children):
            if child.process.poll() is not None and child.connection not in kept:
                self.children.remove(child)
                child.connection.close()
