"""Several sites in one process, reached by bytes only."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from fedcord.data.facts import Stated
from fedcord.engine.memory_store import InProcessMemory, MemoryStore
from fedcord.engine.transport import Transport
from fedcord.engine.transports.wire import Handler, WireTransport
from fedcord.experiment.survey import Sites
from fedcord.experiment.terms import Terms
from fedcord.site.answering import answer_at_site
from fedcord.site.site_file import SiteFile


class Hospitals:
    """Sites by node; each is opened anew for every message, and only its memory survives."""

    def __init__(self, files: Mapping[int, Path]) -> None:
        self.files = dict(files)
        self.memories: dict[tuple[Path, str], InProcessMemory] = {}
        self.sent: list[tuple[int, bytes]] = []

    def sites(self, stated: Stated | None = None) -> Sites:
        return Sites(self.reach, stated or Stated())

    def reach(self, terms: Terms) -> Transport:
        self.terms = terms.to_json()
        self.handlers = {node: self.handler(node) for node in self.files}
        return WireTransport(self.handlers, are_sites=True)

    def handler(self, node: int) -> Handler:
        return functools.partial(self._answer, node, self.terms)

    def _answer(self, node: int, terms: str, call: bytes) -> bytes:
        reply = answer_at_site(self.files[node], terms, call, self._memory)
        self.sent.append((node, reply))
        return reply

    def _memory(self, site: SiteFile, run: str) -> MemoryStore:
        return self.memories.setdefault((site.memory, run), InProcessMemory(as_bytes=True))


def rehearsal(folder: Path, client: int, clients: int = 4, more: str = "") -> Path:
    """The file of a site that rehearses with digits."""
    place = folder / f"site-{client}"
    place.mkdir(parents=True)
    path = place / "site.toml"
    path.write_text(
        f'client = {client}\ndata = "digits"\npartition = "dirichlet:0.5"\nclients = {clients}\n'
        + more
    )
    return path


def own_table(
    folder: Path, client: int, classes: tuple[str, ...] = ("benign", "malignant"), columns: int = 6
) -> Path:
    """The file of a site with a table of its own."""
    place = folder / f"hospital-{client}"
    place.mkdir(parents=True)
    rng = np.random.default_rng(client)
    y = rng.integers(len(classes), size=80 + 20 * client)
    x = rng.normal(size=(len(y), columns)) + 3.0 * y[:, None] + 100.0 * np.arange(columns)
    np.savez(place / "cases.npz", x=x.astype(np.float32), y=np.array(classes)[y])
    path = place / "site.toml"
    path.write_text(f'client = {client}\nname = "hospital {client}"\ndata = "npz:cases.npz"\n')
    return path


HOSPITALS = ("North", "South", "West")


def patients(rows: int = 240) -> pd.DataFrame:
    """A table of three hospitals: numbers far from zero, words, flags, and missing cells."""
    draw = np.random.default_rng(0)
    sick = draw.random(rows) < 0.4
    frame = pd.DataFrame(
        {
            "patient": [f"P{n:03}" for n in range(rows)],
            "hospital": np.sort(draw.choice(HOSPITALS, rows, p=[0.5, 0.3, 0.2])),
            "age": draw.normal(60, 15, rows).round(1),
            "lab": (1e6 + 30 * sick + draw.normal(0, 10, rows)).round(3),
            "ward": draw.choice(["surgery", "medicine", "intensive care"], rows),
            "smoker": draw.choice(["true", "false"], rows),
            "sick": np.where(sick, "yes", "no"),
        }
    )
    frame.loc[draw.random(rows) < 0.2, "lab"] = None
    west = np.flatnonzero(frame["hospital"] == "West")
    frame.loc[west[0], "ward"] = "sauna"  # one patient's, at one place
    return frame


def own_csvs(folder: Path, frame: pd.DataFrame, options: str = "target=sick") -> list[Path]:
    """The files of hospitals of which each has its own rows, and no column of hospitals."""
    files = []
    for client, name in enumerate(HOSPITALS):
        place = folder / name
        place.mkdir(parents=True)
        rows = frame[frame["hospital"] == name].drop(columns="hospital")
        rows.to_csv(place / "cases.csv", index=False)
        text = f'client = {client}\nname = "{name}"\ndata = "csv:cases.csv?{options}"\n'
        files.append(place / "site.toml")
        files[-1].write_text(text)
    return files
