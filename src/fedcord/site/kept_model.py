"""What a site needs to predict on its own when the run is over: one file of its own.

After the last round the server asks every site to test the final model. The site then has all there
is: that model, what it keeps itself, and the terms of the run. They go into its memory folder, and
predictions need neither server nor network from then on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import safetensors

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import CheckpointError, ConfigError, ProtocolError
from fedcord.core.tensors import Tensors, encode, hash_tensors, prefixed, select
from fedcord.engine.requests import Parcel, Request
from fedcord.experiment.terms import Terms
from fedcord.site.site_file import SiteFile
from fedcord.trained.model import Moment, TrainedModel

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


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A model that a run has left with a site.

    Attributes:
        path: of the file.
        terms: of the run.
        model: the final one as the server sent it, with the site's own part.
    """

    path: Path
    terms: Terms
    model: TrainedModel


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
    shared, memory = select(tensors, SHARED), select(tensors, MEMORY)
    moment = Moment(seed, round_, rounds, client)
    folders = site.data_dirs or None
    model = TrainedModel(terms.config, terms.facts, shared, memory, moment, folders)
    return KeptModel(path, terms, model)
