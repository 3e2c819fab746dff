"""Symmetric matrices as vectors: only one triangle is kept, sent and added.

`pack` keeps the upper triangle row by row. `svec` multiplies what is off the diagonal by √2, so
that the Euclidean length of the vector is the Frobenius norm of the matrix; noise that is
calibrated to lengths, as in differential privacy, needs that form.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from fedcord.core.errors import NumericalError, ProtocolError


def packed_length(size: int) -> int:
    """Numbers in one triangle of a [size, size] matrix."""
    return size * (size + 1) // 2


def matrix_size(length: int) -> int:
    """The inverse of `packed_length`; a length no matrix has is refused."""
    size = (math.isqrt(8 * length + 1) - 1) // 2
    if packed_length(size) != length:
        raise ProtocolError(
            f"{length} numbers are not one triangle of a symmetric matrix; expected d(d+1)/2, "
            f"such as {packed_length(size)} or {packed_length(size + 1)}."
        )
    return size


def pack(matrix: Tensor) -> Tensor:
    """The upper triangle of [D, D], row by row, as [D(D+1)/2]; the lower one is not read."""
    return matrix.reshape(-1)[_upper(matrix.shape[0])]


def unpack(packed: Tensor) -> Tensor:
    """The symmetric matrix [D, D] whose upper triangle is `packed`."""
    size = matrix_size(packed.shape[0])
    flat = packed.new_empty(size * size)
    flat[_upper(size)] = packed
    flat[_lower(size)] = packed
    return flat.view(size, size)


def svec(packed: Tensor) -> Tensor:
    """Packed with off-diagonal numbers times √2: its length is the matrix's Frobenius norm."""
    return packed * _svec_factor(packed.shape[0]).to(packed.dtype)


def unsvec(vector: Tensor) -> Tensor:
    """The inverse of `svec`."""
    return vector / _svec_factor(vector.shape[0]).to(vector.dtype)


def diagonal_places(size: int) -> Tensor:
    """Where the diagonal stands in a packed [size, size] matrix: [size] int64."""
    row = torch.arange(size)
    return row * size - row * (row - 1) // 2


# index tables of the few sizes a run uses; a client would spend longer making them than packing
@lru_cache(maxsize=8)
def _upper(size: int) -> Tensor:
    row, column = torch.triu_indices(size, size).unbind()
    return row * size + column


@lru_cache(maxsize=8)
def _lower(size: int) -> Tensor:
    row, column = torch.triu_indices(size, size).unbind()
    return column * size + row


@lru_cache(maxsize=8)
def _svec_factor(length: int) -> Tensor:
    factor = torch.full((length,), math.sqrt(2), dtype=torch.float64)
    factor[diagonal_places(matrix_size(length))] = 1.0
    return factor


def decompose(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [D], ascending, and eigenvectors [D, D] in columns of a symmetric matrix.

    The fast method gives up on some matrices whose eigenvalues are mostly the same, such as sums
    over a handful of samples with many features, nearly all 0. A slower one does not.
    """
    try:
        values, vectors = torch.linalg.eigh(matrix)
        return values, vectors
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        from scipy.linalg import LinAlgError, eigh  # deferred: slow to import, seldom needed

        try:
            found = eigh(matrix.cpu().numpy(), driver="ev")  # QR iteration
        except (LinAlgError, ValueError) as error:
            raise NumericalError(
                f"a symmetric {matrix.shape[0]}x{matrix.shape[0]} matrix of sums has no "
                f"eigenvalues that can be found ({error}); use more samples, or set `ridge` to a "
                "larger number."
            ) from error
        values, vectors = (torch.from_numpy(part).to(matrix) for part in found)
        return values, vectors.contiguous()
