"""Digits from several worlds: MNIST, USPS, SVHN, SYN and MNIST-M as domains of one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedcord.core.errors import DataError, unknown_name
from fedcord.data.dataset import Dataset, Split
from fedcord.data.formats.images import resized
from fedcord.data.locate import Search, Wanted
from fedcord.data.sources import mnist, mnist_m, svhn, usps
from fedcord.data.spec import DatasetSpec

SIZE = 32

_Parts = tuple[Split, Split]


def _parts_of(
    loader: Callable[[DatasetSpec, Search], Dataset], name: str
) -> Callable[[Search], _Parts]:
    def parts(search: Search) -> _Parts:
        dataset = loader(DatasetSpec(name), search)
        return dataset.train, dataset.test

    return parts


_DOMAINS: Mapping[str, tuple[Wanted, Callable[[Search], _Parts]]] = {
    "mnist": (mnist.wanted_mnist(), _parts_of(mnist.load_mnist, "mnist")),
    "usps": (usps.wanted_usps(), _parts_of(usps.load, "usps")),
    "svhn": (svhn.wanted_svhn(), _parts_of(svhn.load, "svhn")),
    "syn": (svhn.wanted_syn(), svhn.load_syn),
    "mnist-m": (mnist_m.wanted_mnist_m(), _parts_of(mnist_m.load, "mnist-m")),
}


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """All domains that are there, at least two, as uint8 [N, 3, 32, 32] with group "domain".

    Which domains are there depends on the machine; `digits-domains?domains=mnist,usps` fixes them,
    so use that form where results are to be compared. Test rows carry their domain too.
    """
    names = _chosen(spec, search)
    train, test = [], []
    for name in names:
        parts = _DOMAINS[name][1](search)
        train.append(parts[0])
        test.append(parts[1])
    return Dataset(
        name=spec.name,
        kind="image",
        train=_joined(train),
        test=_joined(test),
        class_names=tuple(str(digit) for digit in range(10)),
        mean=mnist_m.IMAGENET_MEAN,
        std=mnist_m.IMAGENET_STD,
        group_names={"domain": names},
    )


def _chosen(spec: DatasetSpec, search: Search) -> tuple[str, ...]:
    listed = spec.options.get("domains")
    if listed is not None:
        given = listed.split(",")
        for name in given:
            if name not in _DOMAINS:
                raise DataError(unknown_name(f"domain of data set '{spec.name}'", name, _DOMAINS))
        if len(set(given)) < 2 or len(set(given)) != len(given):
            raise DataError(
                f"data set '{spec.name}': domains={listed}; name at least two different domains of "
                f"{', '.join(_DOMAINS)}."
            )
        return tuple(name for name in _DOMAINS if name in given)
    present = [name for name, (wanted, _) in _DOMAINS.items() if search.find(wanted) is not None]
    if len(present) < 2 and search.allow_download:
        present = [name for name in _DOMAINS if name in present or _DOMAINS[name][0].remote]
    if len(present) < 2:
        folders = ", ".join(str(folder) for folder in search.folders)
        raise DataError(
            f"data set '{spec.name}' needs at least two of {', '.join(_DOMAINS)}, found "
            f"{', '.join(present) or 'none'}.\n  searched: {folders}\n"
            "  wanted: "
            + "; ".join(wanted.places[0] for wanted, _ in _DOMAINS.values())
            + "\n  do: name the folders that have them with --data-dir or FEDCORD_DATA, or allow "
            "the download of mnist, usps and svhn with --download."
        )
    return tuple(present)


def _joined(parts: list[Split]) -> Split:
    return Split(
        np.concatenate([resized(part.inputs, SIZE, 3) for part in parts]),
        np.concatenate([part.labels for part in parts]),
        {
            "domain": np.repeat(np.arange(len(parts)), [len(part) for part in parts]).astype(
                np.int64
            )
        },
    )
