"""The one table from a partition's name to what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fedcord.data.partitioners.classes import Classes
from fedcord.data.partitioners.dirichlet import Dirichlet
from fedcord.data.partitioners.dirichlet_overlap import DirichletOverlap
from fedcord.data.partitioners.domain import Domain
from fedcord.data.partitioners.from_file import FromFile
from fedcord.data.partitioners.iid import Iid
from fedcord.data.partitioners.natural import Natural
from fedcord.data.partitioners.nid1 import Nid1
from fedcord.data.partitioners.nid2 import Nid2
from fedcord.data.partitioners.partitioner import Partitioner
from fedcord.data.partitioners.quantity import Quantity
from fedcord.data.partitioners.shards import Shards


@dataclass(frozen=True)
class PartitionInfo:
    """One line of `fedcord list partitions`.

    Attributes:
        summary: what it does.
        form: how it is written.
        example: one that works.
        kind: the dataclass of its parameters.
        argument: the parameter that follows the colon, which then must be given unless
            `is_optional`; None when nothing may follow.
        is_optional: whether the argument may be left out.
        needs_clients: False when the number of clients may come from the data (0).
    """

    summary: str
    form: str
    example: str
    kind: type[Partitioner]
    argument: str | None = None
    is_optional: bool = False
    needs_clients: bool = True


PARTITIONS: Mapping[str, PartitionInfo] = MappingProxyType(
    {
        "iid": PartitionInfo("equal random parts, no heterogeneity", "iid", "iid", Iid),
        "dirichlet": PartitionInfo(
            "label skew: each class spread in Dirichlet(α) proportions, disjoint",
            "dirichlet:ALPHA[,min=N]",
            "dirichlet:0.1",
            Dirichlet,
            "alpha",
        ),
        "dirichlet-overlap": PartitionInfo(
            "label skew where clients may share examples (one-shot papers)",
            "dirichlet-overlap:ALPHA[,scale=S]",
            "dirichlet-overlap:0.05",
            DirichletOverlap,
            "alpha",
        ),
        "nid1": PartitionInfo(
            "Dirichlet label skew re-cut into equal sizes (prototype papers)",
            "nid1:ALPHA[,recut=false]",
            "nid1:0.5",
            Nid1,
            "alpha",
        ),
        "nid2": PartitionInfo(
            "one class per client, and a last client with all classes",
            "nid2[:BIASED_SHARE]",
            "nid2:0.5",
            Nid2,
            "biased_share",
            is_optional=True,
            needs_clients=False,
        ),
        "shards": PartitionInfo(
            "sorted by label and cut, N shards per client (FedAvg paper)",
            "shards:N",
            "shards:2",
            Shards,
            "per_client",
        ),
        "classes": PartitionInfo(
            "exactly N classes per client, shared equally among owners",
            "classes:N",
            "classes:2",
            Classes,
            "per_client",
        ),
        "quantity": PartitionInfo(
            "size skew: Dirichlet(β) client sizes, random labels",
            "quantity:BETA[,min=N]",
            "quantity:0.5",
            Quantity,
            "beta",
        ),
        "domain": PartitionInfo(
            "feature skew: one domain per client",
            "domain[,allocation=NAME:COUNT/…][,share=S]",
            "domain,allocation=mnist:3/usps:2,share=0.1",
            Domain,
            needs_clients=False,
        ),
        "natural": PartitionInfo(
            "one client per value of a group in the data",
            "natural:KEY",
            "natural:writer",
            Natural,
            "key",
            needs_clients=False,
        ),
        "file": PartitionInfo(
            "your own assignment, from a JSON file",
            "file:PATH",
            "file:clients.json",
            FromFile,
            "path",
            needs_clients=False,
        ),
    }
)
"""Every partition by name; all take the options `examples=iid` and `longtail=RHO` too."""
