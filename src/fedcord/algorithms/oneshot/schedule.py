"""Where local training stands.

Local training has T epochs in R chunks; after each chunk the server may look at what it would
aggregate now. Sources disagree about which number between 0 and 1 is the progress of epoch e in
chunk r, so it is named:

| progress | of epoch e, the j-th of E in chunk r | note |
|---|---|---|
| global | e / T | recommended: does not depend on R |
| chunk | j / E | constant 0 when E = 1: no schedule at all |
| round_start | r / R | |
| round_end | (r+1) / R | |
"""

from __future__ import annotations

from dataclasses import dataclass

PROGRESS = ("global", "chunk", "round_start", "round_end")


@dataclass(frozen=True)
class Plan:
    """All epochs of local training, cut into chunks as even as possible.

    Attributes:
        epochs: T.
        chunks: R, at most T.
    """

    epochs: int
    chunks: int

    def epochs_of(self, chunk: int) -> range:
        """The epochs of a chunk, numbered over the whole training."""
        return range(chunk * self.epochs // self.chunks, (chunk + 1) * self.epochs // self.chunks)

    def progress(self, kind: str, chunk: int, epoch: int) -> float:
        """The progress in [0, 1] at `epoch` of `chunk`."""
        if kind == "global":
            return epoch / self.epochs
        if kind == "chunk":
            own = self.epochs_of(chunk)
            return (epoch - own.start) / len(own)
        return (chunk + (kind == "round_end")) / self.chunks
