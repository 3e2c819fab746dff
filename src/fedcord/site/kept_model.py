"""What a site needs to predict on its own when the run is over: one file of its own.

After the last round the server asks every site to test the final model. The site then has all there
is: that model, what it keeps itself, and the terms of the run. They go into its memory folder, and
predictions need neither server nor network from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import Env
from fedcord.core.errors import CheckpointError, ConfigError, DataError, ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, encode, hash_tensors, prefixed, select
from fedcord.data.dataset import Array
from fedcord.data.facts import DataFacts
from fedcord.engine.evaluation import BATCH
from fedcord.engine.population import Population
from fedcord.engine.requests import Parcel, Request
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import make_plan
from fedcord.experiment.frozen_features import as_features
from fedcord.experiment.terms import Terms
from fedcord.site.site_file import SiteFile

MODELS = "models"
SHARED, MEMORY = "shared", "memory"


def is_final(request: Request, parcel: Parcel) -> bool:
    """Whether a site is sent the model that a run ends with."""
    is_own_test = request.verb == "evaluate" and not parcel.options.get("common")
    return is_own_test and bool(parcel.clients) and request.step > request.num_rounds


def keep_model(site: SiteFile, terms: Terms, request: Request, memory: Tensors) -> Path:
    """Write what is needed to predict; a run that goes on later writes it again."""
    tensors = prefixed(SHARED, request.shared) | prefixed(MEMORY, memory)
    manifest = {
        "terms": terms.to_json(),
        "place": json.dumps([request.seed, request.round, request.num_rounds, site.client]),
        "hash": hash_tensors(tensors),
    }
    folder = site.memory / MODELS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_word(terms.config.algorithm)}-{_word(terms.run)[:12]}.safetensors"
    write_atomically(path, encode(tensors, manifest))
    return path


def _word(text: str) -> str:
    """A text as part of a file's name."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text)


@dataclass(frozen=True)
class KeptModel:
    """A model that a run has left with a site.

    Attributes:
        path: of the file.
        terms: of the run.
        shared: the final model as the server sent it.
        memory: the site's own part.
        place: seed, round, rounds and client, the address of the model's random numbers.
    """

    path: Path
    terms: Terms
    shared: Tensors
    memory: Tensors
    place: tuple[int, int, int, int]

    @property
    def facts(self) -> DataFacts:
        """The form of the examples it takes."""
        assert self.terms.facts is not None
        return self.terms.facts

    def scores(
        self, inputs: Array, site: SiteFile, on_done: Callable[[int, int], None]
    ) -> Iterator[Tensor]:
        """Class scores [B, C] of stored inputs [N, ...], batch by batch."""
        if tuple(inputs.shape[1:]) != self.facts.input_shape:
            raise DataError(
                f"examples have shape {list(inputs.shape[1:])}, the model takes "
                f"{list(self.facts.input_shape)}."
            )
        seed, round_, num_rounds, client = self.place
        plan = make_plan(self.terms.config, self.facts, site.data_dirs or None)
        env = Env(plan.task, seed, round_, num_rounds, client)
        with torch_threads(self.terms.config.threads):
            predictor = plan.algorithm.predictor(self.shared, self.memory, env)
            for start in range(0, len(inputs), BATCH):
                part = torch.tensor(inputs[start : start + BATCH])
                if plan.encoder is not None:
                    part = _features(part, plan.encoder, self.terms.config.threads, site)
                prepared = plan.task.prepare(part).to(plan.task.device)
                yield predictor.scores(prepared).cpu()
                on_done(min(start + BATCH, len(inputs)), len(inputs))


def _features(part: Tensor, encoder: Task, threads: int, site: SiteFile) -> Tensor:
    labels = torch.zeros(len(part), dtype=torch.int64)
    nothing = Examples(part[:0], labels[:0])
    people = Population.from_clients(
        [ClientData(Examples(part, labels), nothing, nothing)], nothing
    )
    folders = site.data_dirs or None
    people, _ = as_features(people, encoder, threads, folders, lambda done, total: None)
    return people.inputs


def find_model(site: SiteFile, named: str | None = None) -> KeptModel:
    """The newest model a site has, or the newest whose file's name begins so."""
    folder = site.memory / MODELS
    files = sorted(folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime)
    chosen = [file for file in files if named is None or file.name.startswith(named)]
    if not chosen:
        known = ", ".join(file.stem for file in files) or "none"
        raise ConfigError(
            f"{site.who} has no model{'' if named is None else f' {named!r}'} in '{folder}' (it "
            f"has {known}); a run leaves one when it ends."
        )
    return _read(chosen[-1], site)


def _read(path: Path, site: SiteFile) -> KeptModel:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            manifest = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name).clone() for name in names}
        if manifest["hash"] != hash_tensors(tensors):
            raise ValueError("it does not have the content it was written with")
        seed, round_, rounds, client = (int(value) for value in json.loads(manifest["place"]))
        terms = Terms.from_json(manifest["terms"], site.algorithms)
        if terms.facts is None:
            raise ValueError("it does not say what examples look like")
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, ProtocolError) as error:
        raise CheckpointError(f"the model '{path}' cannot be used ({error}).") from error
    place = seed, round_, rounds, client
    return KeptModel(path, terms, select(tensors, SHARED), select(tensors, MEMORY), place)
