"""Streaming X'X in float64 at the speed of the machine's symmetric rank-k update.

PyTorch has no symmetric product and computes both triangles; BLAS `dsyrk` does half the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg.blas
import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from torch import Tensor

from fedcord.core.errors import NumericalError
from fedcord.ops.symmetric import pack

ROWS_AT_ONCE = 4096
"""Rows turned into float64 and multiplied in one call."""


class GramAccumulator:
    """Sums of outer products of rows.

    Attributes:
        size: length of a row.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._sum = np.zeros((size, size), order="F")

    def add(self, rows: Tensor) -> None:
        """Add the outer products of `rows` [B, D]; values that are not finite are refused."""
        for part in rows.detach().cpu().split(ROWS_AT_ONCE):
            # in Fortran's eyes the rows are columns, so no copy is made; `lower` there is `upper`
            columns = part.to(torch.float64).contiguous().numpy().T
            with single_blas():
                self._sum = scipy.linalg.blas.dsyrk(
                    1.0, columns, beta=1.0, c=self._sum, trans=0, lower=1, overwrite_c=1
                )
        # a value that is not finite cannot leave its column's sum of squares finite
        if not np.isfinite(self._sum.diagonal()).all():
            raise NumericalError(
                "features are not finite, or too large to be squared; check the inputs and the "
                "encoder, because a single such value would spoil the sums of everybody."
            )

    def packed(self) -> Tensor:
        """The sum as a packed upper triangle [D(D+1)/2] float64."""
        return pack(torch.from_numpy(self._sum.T))


@contextmanager
def single_blas() -> Iterator[None]:
    """Let SciPy's BLAS use as many threads as PyTorch, so that engines agree in every bit."""
    with _controller().limit(limits=torch.get_num_threads(), user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> Any:
    return ThreadpoolController()
