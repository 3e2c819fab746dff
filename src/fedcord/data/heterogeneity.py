"""How different the clients are, in numbers, before any training.

All numbers come from the client × class table n[k, c]. With p_k = n[k] / |n[k]| the label
distribution of client k and p that of all clients together:

- label entropy H(p_k) in bits; divided by log2 C it lies in [0, 1]; 2^H is the *effective number of
  classes*, the number of equally frequent classes with the same entropy.
- earth mover's distance Σ_c |p_k(c) − p(c)|, the form in use for federated learning since Zhao et
  al., "Federated Learning with Non-IID Data", 2018 (arXiv 1806.00582): 0 for equal distributions, 2
  for disjoint ones.
- Jensen–Shannon distance, the square root of the divergence in bits: 0 for equal, 1 for disjoint.
- Gini coefficient of the client sizes: 0 for equal sizes, towards 1 when one client has everything.

Clients without examples have no distribution; they are listed and left out of means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.core.names import client_said, clients_listed

MAX_PAIRED = 1000
"""Clients compared with each other at most; of more, evenly spaced ones are taken."""

_LISTED = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClientHeterogeneity:
    """One client's numbers; distances are None for a client without examples."""

    size: int
    num_classes: int
    entropy_bits: float
    entropy_normalized: float
    effective_classes: float
    earth_movers: float | None
    jensen_shannon: float | None


@dataclass(frozen=True)
class HeterogeneityReport:
    """The numbers of `fedcord inspect`; means are over clients that have examples.

    Attributes:
        num_clients: K.
        num_classes: C.
        num_held: examples held by all clients together; an example held twice counts twice.
        clients: one entry per client.
        mean_entropy_bits: mean label entropy.
        mean_effective_classes: mean effective number of classes.
        mean_earth_movers: mean distance to the label distribution of all clients together.
        mean_jensen_shannon: likewise.
        pairwise_earth_movers: mean over pairs of clients; 0 with fewer than two.
        pairwise_jensen_shannon: likewise.
        num_paired: how many clients the pairs were made of.
        size_gini: inequality of client sizes, empty clients included.
        empty_clients: those without examples.
        single_class_clients: those whose examples are all of one class, when C > 1.
        absent_classes: classes nobody holds.
        warnings: what deserves a second look, in plain words.
    """

    num_clients: int
    num_classes: int
    num_held: int
    clients: tuple[ClientHeterogeneity, ...]
    mean_entropy_bits: float
    mean_effective_classes: float
    mean_earth_movers: float
    mean_jensen_shannon: float
    pairwise_earth_movers: float
    pairwise_jensen_shannon: float
    num_paired: int
    size_gini: float
    empty_clients: tuple[int, ...]
    single_class_clients: tuple[int, ...]
    absent_classes: tuple[int, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values only, no NaN."""
        return dataclasses.asdict(self)


def measure_heterogeneity(
    counts: NDArray[np.int64],
    client_names: Sequence[str] = (),
    class_names: Sequence[str] = (),
) -> HeterogeneityReport:
    """Describe a partition by its client × class table.

    Args:
        counts: [K, C] examples of each class at each client, as `Partition.counts` gives them.
        client_names: [K] for the warnings; numbers when there are none.
        class_names: [C], likewise.
    """
    if counts.ndim != 2 or 0 in counts.shape or counts.min() < 0 or counts.sum() == 0:
        raise DataError(
            f"a table of shape {list(counts.shape)} is not a client × class table; give counts "
            ">= 0 for at least one client and one class, with at least one example."
        )
    num_clients, num_classes = counts.shape
    sizes = counts.sum(axis=1)
    held = np.flatnonzero(sizes)
    p = counts[held] / sizes[held, None]  # [K', C], clients with examples
    overall = counts.sum(axis=0) / counts.sum()
    entropy = _entropy_bits(p)
    earth_movers = np.abs(p - overall).sum(axis=1)
    jensen_shannon = _jensen_shannon(p, overall)
    paired = p[np.linspace(0, len(p) - 1, min(len(p), MAX_PAIRED)).round().astype(np.int64)]
    pairwise = _mean_pairwise(paired)
    rows = {
        int(k): ClientHeterogeneity(
            size=int(sizes[k]),
            num_classes=int(np.count_nonzero(counts[k])),
            entropy_bits=float(entropy[i]),
            entropy_normalized=float(entropy[i] / np.log2(num_classes)) if num_classes > 1 else 0.0,
            effective_classes=float(2 ** entropy[i]),
            earth_movers=float(earth_movers[i]),
            jensen_shannon=float(jensen_shannon[i]),
        )
        for i, k in enumerate(held)
    }
    nothing = ClientHeterogeneity(0, 0, 0.0, 0.0, 0.0, None, None)
    clients = tuple(rows.get(k, nothing) for k in range(num_clients))
    empty = tuple(k for k in range(num_clients) if k not in rows)
    single = tuple(k for k, row in rows.items() if row.num_classes == 1 and num_classes > 1)
    absent = tuple(int(c) for c in np.flatnonzero(counts.sum(axis=0) == 0))
    return HeterogeneityReport(
        num_clients=num_clients,
        num_classes=num_classes,
        num_held=int(sizes.sum()),
        clients=clients,
        mean_entropy_bits=float(entropy.mean()),
        mean_effective_classes=float((2**entropy).mean()),
        mean_earth_movers=float(earth_movers.mean()),
        mean_jensen_shannon=float(jensen_shannon.mean()),
        pairwise_earth_movers=pairwise[0],
        pairwise_jensen_shannon=pairwise[1],
        num_paired=len(paired),
        size_gini=_gini(sizes),
        empty_clients=empty,
        single_class_clients=single,
        absent_classes=absent,
        warnings=_warnings(
            sizes,
            empty,
            single,
            absent,
            dict(enumerate(client_names)),
            class_names or tuple(map(str, range(num_classes))),
        ),
    )


def _entropy_bits(p: Floats) -> Floats:
    """Shannon entropy along the last axis, with 0 · log 0 = 0."""
    logs = np.log2(p, where=p > 0, out=np.zeros_like(p))
    entropy: Floats = np.abs((p * logs).sum(axis=-1))  # abs: the sum is never positive, -0 is ugly
    return entropy


def _jensen_shannon(p: Floats, q: Floats) -> Floats:
    """Distance in bits along the last axis; p and q broadcast."""
    middle = _entropy_bits((p + q) / 2)
    divergence = middle - (_entropy_bits(p) + _entropy_bits(q)) / 2
    # differences at rounding level would grow under the root: 1e-16 would become 1e-8
    return np.sqrt(np.where(divergence > 1e-14, np.minimum(divergence, 1.0), 0.0))


def _mean_pairwise(p: Floats) -> tuple[float, float]:
    """Mean earth mover's and Jensen–Shannon distance over all pairs of rows of p [K, C]."""
    pairs = len(p) * (len(p) - 1) // 2
    if pairs == 0:
        return 0.0, 0.0
    earth_movers = jensen_shannon = 0.0
    for i in range(len(p) - 1):  # row by row: all pairs at once would need K² · C numbers
        earth_movers += float(np.abs(p[i + 1 :] - p[i]).sum())
        jensen_shannon += float(_jensen_shannon(p[i + 1 :], p[i]).sum())
    return earth_movers / pairs, jensen_shannon / pairs


def _gini(sizes: NDArray[np.int64]) -> float:
    """Mean absolute difference between two clients' sizes over twice the mean size."""
    ordered = np.sort(sizes).astype(np.float64)
    ranks = np.arange(1, len(ordered) + 1)
    weighted = float(((2 * ranks - len(ordered) - 1) * ordered).sum())
    return weighted / (len(ordered) * float(ordered.sum()))


def _warnings(
    sizes: NDArray[np.int64],
    empty: tuple[int, ...],
    single: tuple[int, ...],
    absent: tuple[int, ...],
    clients: Mapping[int, str],
    classes: Sequence[str],
) -> tuple[str, ...]:
    out = []
    num_clients = len(sizes)
    if empty:
        out.append(
            f"{len(empty)} of {num_clients} clients hold no examples "
            f"({clients_listed(empty, clients, _LISTED)}): they are never visited."
        )
    if single:
        out.append(
            f"{len(single)} of {num_clients} clients hold a single class "
            f"({clients_listed(single, clients, _LISTED)}): losses that compare classes have "
            "nothing to compare there."
        )
    if absent:
        named = _listed(absent, classes)
        out.append(f"nobody holds an example of class {named}: it cannot be learnt.")
    largest = int(np.argmax(sizes))
    if num_clients > 2 and 2 * int(sizes[largest]) > int(sizes.sum()):
        out.append(
            f"{client_said(largest, clients)} holds more than half of all examples "
            f"({int(sizes[largest])} of {int(sizes.sum())}): weighted averages follow it."
        )
    return tuple(out)


def _listed(numbers: tuple[int, ...], names: Sequence[str]) -> str:
    shown = ", ".join(names[number] for number in numbers[:_LISTED])
    return shown if len(numbers) <= _LISTED else f"{shown} and {len(numbers) - _LISTED} more"
