"""A folder that holds one model and all that is needed to use it, with fedcord or without.

model.safetensors  the tensors of the model: `shared.*`, and of a client's own `memory.*`
model.json         what they are: settings, task, classes, metrics
model.pt2          a program of PyTorch's that takes examples as they are stored
model.onnx         the same for ONNX, if asked for
README.md          the model card
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors
import torch

from fedcord.core.atomic import TEMPORARY, write_atomically
from fedcord.core.errors import CheckpointError, ConfigError, DataError, shown
from fedcord.core.regular_files import NotRegularError, check_regular
from fedcord.core.tensors import encode, hash_tensors, prefixed, select
from fedcord.core.version import __version__
from fedcord.data.facts import DataFacts
from fedcord.data.transforms import DTYPES
from fedcord.experiment.finished_run import FinishedRun
from fedcord.experiment.load import load_config
from fedcord.store.checksums import CHECKSUMS, read_checksums, sha256
from fedcord.store.plain_json import json_text
from fedcord.trained.card import model_card
from fedcord.trained.model import Moment, TrainedModel
from fedcord.trained.onnx import onnx_bytes
from fedcord.trained.program import TOLERANCE, program_bytes, program_of
from fedcord.trained.stored_form import FORMS

FORMAT = "fedcord-model-1"
MODEL, TENSORS, PROGRAM, ONNX, CARD = (
    "model.json",
    "model.safetensors",
    "model.pt2",
    "model.onnx",
    "README.md",
)
SHARED, MEMORY = "shared", "memory"
MAX_BYTES = 64 * 2**20
"""Of `model.json`; longer ones are something else."""


def export_model(
    run: FinishedRun, model: TrainedModel, folder: Path, with_onnx: bool = False
) -> list[Path]:
    """Write a model into a new folder, all files or none, and return them."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"'{folder}' is there already; choose a new folder, or delete it.")
    program = program_of(model)
    tensors = prefixed(SHARED, model.shared) | prefixed(MEMORY, model.memory)
    description = _description(run, model, hash_tensors(tensors))
    text = json_text(description, indent=1) + "\n"
    files: dict[str, bytes | str] = {
        MODEL: text,
        TENSORS: encode(tensors, {"format": "pt"}),
        PROGRAM: program_bytes(program, text),
        CARD: model_card(run, model),
    }
    if with_onnx:
        files[ONNX] = onnx_bytes(program)
    sums = {name: sha256(_as_bytes(content)) for name, content in files.items() if name != CARD}
    files[CHECKSUMS] = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = folder.parent / f".{folder.name}.{os.getpid()}{TEMPORARY}"
        place.mkdir()
        try:
            for name, content in files.items():
                write_atomically(place / name, content)
            os.replace(place, folder)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"'{folder}' cannot be written ({error.strerror}); choose a folder you may write to."
        ) from error
    return [folder / name for name in files]


def _as_bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _description(run: FinishedRun, model: TrainedModel, digest: str) -> dict[str, Any]:
    """The content of `model.json`."""
    facts, client = model.facts, model.moment.client
    return {
        "format": FORMAT,
        "versions": {"fedcord": __version__, "torch": torch.__version__},
        "hash": digest,
        "input": {
            "dtype": str(DTYPES[facts.kind]).removeprefix("torch."),
            "shape": ["batch", *facts.input_shape],
            "values": FORMS[facts.kind],
        },
        "output": {"shape": ["batch", facts.num_classes], "tolerance": TOLERANCE},
        "task": facts.plain(),
        "config": model.config.plain(),
        "moment": asdict(model.moment),
        "client_name": None if client is None else run.names.get(client),
        "result": dict(run.result),
    }


def is_exported(folder: Path) -> bool:
    """Whether a folder holds an exported model."""
    return (folder / MODEL).exists()


def read_exported(
    folder: Path, data_dirs: Sequence[Path] | None = None
) -> tuple[TrainedModel, Mapping[str, Any]]:
    """The model that was exported into a folder, and the content of its `model.json`."""
    description = _read_json(folder / MODEL)
    given = description.get("format")
    if given != FORMAT:
        versions = description.get("versions")
        version = versions.get("fedcord") if isinstance(versions, dict) else None
        raise CheckpointError(
            f"'{folder}' is in the format {shown(given)}, written by fedcord {version or '?'}; "
            f"this is fedcord {__version__} and reads {FORMAT!r}: export the run anew."
        )
    path = folder / TENSORS
    try:
        _check_sums(folder)
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if description["hash"] != hash_tensors(tensors):
            raise ValueError(f"{TENSORS} is of another model than {MODEL}")
        facts = DataFacts.from_plain(description["task"])
        moment = Moment(**description["moment"])
        config = load_config(description["config"])
        if not isinstance(description["result"], dict):
            raise ValueError("its result is no table")
    except (
        *(OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError, AttributeError),
        *(CheckpointError, ConfigError, DataError),
    ) as error:
        raise CheckpointError(
            f"'{folder}' cannot be used ({error}); export the run anew."
        ) from error
    shared, memory = select(tensors, SHARED), select(tensors, MEMORY)
    return TrainedModel(config, facts, shared, memory, moment, data_dirs), description


def _check_sums(folder: Path) -> None:
    known = read_checksums(folder / CHECKSUMS) or {}
    for name in (MODEL, TENSORS):
        if known.get(name) != sha256((folder / name).read_bytes()):
            raise ValueError(f"{name} is not the file that {CHECKSUMS} lists")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if check_regular(path) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
    except (OSError, NotRegularError, ValueError, RecursionError) as error:
        raise CheckpointError(f"'{path}' cannot be read ({error}); export the run anew.") from error
    return values
